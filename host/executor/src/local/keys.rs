//! Keys for a command of the user's own: they reach its shell by a socket, and are in no environment.
//!
//! Every process of the same user can read the environment of another, and open the pipes and files that it has
//! open; a socket can't be opened through `/proc`. The shell reads it before anything else.

use std::collections::BTreeMap;
use std::io::{self, Write as _};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;

/// The number of the socket in the shell.
pub(super) const DESCRIPTOR: i32 = 5;

/// The shell's command that reads and sets the variables, and then does `command`.
pub(super) fn reading(command: &str) -> String {
    format!(
        "__k=; while IFS= read -r __l; do __k=\"$__k$__l\n\"; done <&{DESCRIPTOR}; \
         exec {DESCRIPTOR}<&-; eval \"$__k\"; unset __k __l\n{command}"
    )
}

/// The end of a socket from which these variables can be read once, as assignments of a shell.
///
/// # Errors
/// [`io::Error`] if there is no socket, or they are too long for its buffer.
pub(super) fn socket(keys: &BTreeMap<String, String>) -> io::Result<OwnedFd> {
    let (reading, mut writing) = UnixStream::pair()?;
    writing.set_nonblocking(true)?;
    for (name, value) in keys {
        let value = value.replace('\'', "'\\''");
        writing.write_all(format!("{name}='{value}'\n").as_bytes())?;
    }
    Ok(reading.into())
}

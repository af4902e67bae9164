//! The limits of the shell (`ulimit`) for this process. A limit that is too low for the program is
//! reported at the start. If the size of files is limited, a write beyond the limit is an error,
//! like a full disk.

use rustix::process::{Resource, getrlimit, setrlimit};

use super::exit::ExitCode;
use super::output::Failure;

/// The least number of open files that a run needs, with a reserve.
const FILES: u64 = 32;

/// Refuses to begin a run that would fail because of too few open files.
///
/// # Errors
/// [`Failure`] if the limit of open files is too low.
pub fn check() -> Result<(), Failure> {
    match getrlimit(Resource::Nofile).current {
        Some(files) if files < FILES => Err(Failure::new(
            ExitCode::Failed,
            format!(
                "this process may have {files} open files (`ulimit -n`), and needs {FILES} and more: \
                 raise the limit, for example with `ulimit -n 1024`"
            ),
        )),
        _ => Ok(()),
    }
}

/// Raises the limit of open files as far as allowed, because each of many runs needs some files and
/// pipes.
pub fn raise_open_files() {
    let mut limit = getrlimit(Resource::Nofile);
    limit.current = limit.maximum;
    // Raising it may be forbidden; then a run that needs more files fails with an error.
    let _ = setrlimit(Resource::Nofile, limit);
}

/// Makes a write fail that would exceed the limit of a file's size (`ulimit -f`); by default, the
/// kernel ends the program. Commands get the default back when they are started.
pub fn survive_large_files() {
    // SAFETY: this makes the process ignore a signal, and uses no memory of this process.
    unsafe { libc::signal(libc::SIGXFSZ, libc::SIG_IGN) };
}

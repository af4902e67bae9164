//! Limits of the shell (`ulimit`) that the program lives under: what is too little to begin with is
//! told before anything else, and a file that may not grow is an error like a full disk.

use rustix::process::{Resource, getrlimit};

use super::exit::ExitCode;
use super::output::Failure;

/// How many files a run has open at once at least, with some to spare.
const FILES: u64 = 32;

/// Refuses to begin where a run could only fail half-way.
///
/// # Errors
/// When too few files may be open at once.
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

/// Lets a write fail that would make a file larger than it may be (`ulimit -f`): by default, the
/// kernel ends the program. Commands get the default back when they are started.
pub fn survive_large_files() {
    // SAFETY: has a signal ignored; no memory of ours is involved.
    unsafe { libc::signal(libc::SIGXFSZ, libc::SIG_IGN) };
}

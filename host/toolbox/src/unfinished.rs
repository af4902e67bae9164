//! Removes a temporary file if the tool is interrupted: a linter can take seconds, and a file left
//! in the repository would be part of the submission.

use std::fs;
use std::path::{Path, PathBuf};
use std::process;
use std::sync::{Mutex, Once, PoisonError};
use std::thread;

static UNFINISHED: Mutex<Option<PathBuf>> = Mutex::new(None);
static WATCH: Once = Once::new();

/// The signals by which hosts and terminals end a program.
const SIGNALS: [libc::c_int; 3] = [libc::SIGINT, libc::SIGTERM, libc::SIGHUP];

/// From now on, the file is removed if a signal ends the tool.
pub fn begin(path: &Path) {
    set(Some(path.to_owned()));
    WATCH.call_once(watch);
}

/// The file has been moved to its place or removed.
pub fn end() {
    set(None);
}

fn set(path: Option<PathBuf>) {
    *UNFINISHED.lock().unwrap_or_else(PoisonError::into_inner) = path;
}

/// Waits for the signals in a thread of its own. Started programs receive them as usual: the
/// standard library starts programs with no signal blocked.
fn watch() {
    // SAFETY: an empty set is a valid one for `sigemptyset` to fill, and the calls only write to it.
    let set = unsafe {
        let mut set: libc::sigset_t = std::mem::zeroed();
        libc::sigemptyset(&raw mut set);
        for signal in SIGNALS {
            libc::sigaddset(&raw mut set, signal);
        }
        set
    };
    // SAFETY: the set was filled above; the null pointer means that the old one is not returned.
    unsafe { libc::pthread_sigmask(libc::SIG_BLOCK, &raw const set, std::ptr::null_mut()) };
    thread::spawn(move || {
        let mut signal = 0;
        // SAFETY: both pointers are valid for the whole call.
        if unsafe { libc::sigwait(&raw const set, &raw mut signal) } == 0 {
            let path = UNFINISHED.lock().unwrap_or_else(PoisonError::into_inner);
            if let Some(path) = &*path {
                let _ = fs::remove_file(path);
            }
            process::exit(128 + signal);
        }
    });
}

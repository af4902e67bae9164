//! Starts the threads on which templates are rendered, also when a command has just used up the processes that the user
//! may have: some of its processes end soon, or are ended.

use std::io;
use std::sync::{Mutex, PoisonError};
use std::thread::Builder;
use std::time::{Duration, Instant};

/// How long a start is tried.
const PATIENCE: Duration = Duration::from_secs(10);
/// The pause between two attempts.
const PAUSE: Duration = Duration::from_millis(20);

/// Starts a thread by `start`, which is called again while there are too many.
///
/// # Errors
/// The kernel's, if it gives no thread for ten seconds, or for another reason.
pub(super) fn patiently<H>(
    stack: usize,
    mut start: impl FnMut(Builder) -> io::Result<H>,
) -> io::Result<H> {
    let began = Instant::now();
    loop {
        let thread = Builder::new().name("template".to_owned()).stack_size(stack);
        match start(thread) {
            Err(error)
                if error.kind() == io::ErrorKind::WouldBlock && began.elapsed() < PATIENCE =>
            {
                std::thread::sleep(PAUSE);
            }
            started => return started,
        }
    }
}

/// The work of a thread, which is lost with each attempt that fails unless it is kept here.
pub(super) struct KeptWork<W>(Mutex<Option<W>>);

impl<W> KeptWork<W> {
    pub(super) fn new(work: W) -> Self {
        Self(Mutex::new(Some(work)))
    }

    /// The work, for the thread that was started.
    pub(super) fn take(&self) -> W {
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        kept.take().expect("invariant: one thread was started")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_is_started_when_there_is_room_again() {
        let mut attempts = 0;
        let mut attempt = |failing: i32, errno: i32| {
            attempts = 0;
            patiently(1 << 16, |thread| {
                attempts += 1;
                match attempts > failing {
                    true => thread.spawn(|| 7),
                    false => Err(io::Error::from_raw_os_error(errno)),
                }
            })
        };
        // `EAGAIN` and `ENOMEM`.
        assert_eq!(attempt(3, 11).unwrap().join().unwrap(), 7);
        assert!(attempt(1, 12).is_err());
    }
}

//! The front for users: each step on stderr as it happens, the submission on stdout at the end.

mod desk;
mod screen;
mod status;

use std::io;
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread;
use std::time::Instant;

use self::screen::Screen;

pub use self::desk::Desk;
pub use self::screen::InputView;
pub(in crate::cli) use self::screen::RELEASE;
use super::outlet::Drain;
use super::{CliFront, Look, RunHeader, lock, log};
use mswea_core::{Front, Progress};

/// Shows a run to a person.
pub struct HumanFront {
    shared: Arc<SharedScreen>,
}

struct SharedScreen {
    screen: Mutex<Screen>,
    /// Signals that the run waits for something else.
    changed: Condvar,
}

impl HumanFront {
    /// Shows progress on `err` and writes the submission to `out`.
    pub(super) fn new(err: impl Drain + 'static, out: impl Drain + 'static, look: Look) -> Self {
        let shared = Arc::new(SharedScreen {
            screen: Mutex::new(Screen::new(err, out, look)),
            changed: Condvar::new(),
        });
        if look.redraw {
            let shared = shared.clone();
            // If the thread can't be started, the line that counts seconds is missing.
            let counting = thread::Builder::new().name("screen".to_owned());
            drop(counting.spawn(move || shared.count()));
        }
        Self { shared }
    }

    /// Takes the lines of the log, which would otherwise be written into a line that is not
    /// finished.
    #[must_use]
    pub fn with_log(self) -> Self {
        let shared = Arc::downgrade(&self.shared);
        log::send_to(move |text| {
            let Some(shared) = shared.upgrade() else {
                return false;
            };
            let mut screen = lock(&shared.screen);
            if screen.is_closed() {
                return false;
            }
            screen.log(text);
            true
        });
        self
    }
}

impl SharedScreen {
    /// Updates the line that counts seconds, on a thread of its own, because a front has no async
    /// runtime.
    fn count(&self) {
        let mut screen = lock(&self.screen);
        while !screen.is_closed() {
            let pause = screen.tick(Instant::now());
            screen = match pause {
                Some(pause) => {
                    let waited = self.changed.wait_timeout(screen, pause);
                    waited.unwrap_or_else(PoisonError::into_inner).0
                }
                None => {
                    let waited = self.changed.wait(screen);
                    waited.unwrap_or_else(PoisonError::into_inner)
                }
            };
        }
    }
}

impl Front for HumanFront {
    fn show(&self, progress: &Progress<'_>) {
        lock(&self.shared.screen).show(progress);
        if !matches!(progress, Progress::Delta(_)) {
            self.shared.changed.notify_one();
        }
    }
}

impl CliFront for HumanFront {
    fn begin(&self, header: RunHeader) {
        lock(&self.shared.screen).announce(header);
    }

    fn desk(&self) -> Option<Desk> {
        Some(Desk(self.shared.clone()))
    }

    fn take_output_error(&self) -> Option<io::Error> {
        lock(&self.shared.screen).take_output_error()
    }
}

impl Drop for HumanFront {
    /// Leaves the cursor at the beginning of a line: an error message may follow.
    fn drop(&mut self) {
        lock(&self.shared.screen).close();
        self.shared.changed.notify_one();
    }
}

#[cfg(test)]
mod tests;

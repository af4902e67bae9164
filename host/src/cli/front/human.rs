//! For people: each step as it happens on stderr, the submission on stdout at the end.

mod screen;
mod status;

use std::io;
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread;
use std::time::Instant;

use async_trait::async_trait;

use self::screen::Screen;
use super::outlet::Drain;
use super::{CliFront, Header, Look, lock, log};
use crate::roles::{Action, Front, Progress};

/// Shows a run to a person.
pub struct HumanFront {
    shared: Arc<Shared>,
}

struct Shared {
    screen: Mutex<Screen>,
    /// Something else is waited for.
    changed: Condvar,
}

impl HumanFront {
    /// Shows progress on `err` and writes the submission to `out`.
    pub(super) fn new(err: impl Drain + 'static, out: impl Drain + 'static, look: Look) -> Self {
        let shared = Arc::new(Shared {
            screen: Mutex::new(Screen::new(err, out, look)),
            changed: Condvar::new(),
        });
        if look.redraw {
            let shared = shared.clone();
            // Without a thread there is no line that counts.
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

impl Shared {
    /// Keeps the line that counts up to date, in a thread of its own: the run's tasks sleep
    /// meanwhile, and a front has no runtime to lean on.
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

#[async_trait]
impl Front for HumanFront {
    fn show(&self, progress: &Progress<'_>) {
        lock(&self.shared.screen).show(progress);
        if !matches!(progress, Progress::Delta(_)) {
            self.shared.changed.notify_one();
        }
    }

    async fn confirm(&self, _: &Action, _: &str) -> Option<bool> {
        None
    }
}

impl CliFront for HumanFront {
    fn begin(&self, header: &Header) {
        lock(&self.shared.screen).head(header);
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

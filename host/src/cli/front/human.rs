//! For people: each step as it happens on stderr, the submission on stdout at the end.

mod screen;

use std::io;
use std::sync::{Arc, Mutex};
use std::time::Instant;

use async_trait::async_trait;

use self::screen::Screen;
use super::outlet::Drain;
use super::{CliFront, Look, countdown, lock};
use crate::roles::{Action, Front, Progress};

/// Shows a run to a person.
pub struct HumanFront {
    screen: Arc<Mutex<Screen>>,
    redraw: bool,
}

impl HumanFront {
    /// Shows progress on `err` and writes the submission to `out`.
    pub(super) fn new(err: impl Drain + 'static, out: impl Drain + 'static, look: Look) -> Self {
        Self {
            screen: Arc::new(Mutex::new(Screen::new(err, out, look))),
            redraw: look.redraw,
        }
    }
}

#[async_trait]
impl Front for HumanFront {
    fn show(&self, progress: &Progress<'_>) {
        let mut screen = lock(&self.screen);
        // Whatever happens, the wait is over.
        screen.end_countdown();
        screen.show(progress);
        if let Progress::Retrying { wait, .. } = progress
            && self.redraw
        {
            let id = screen.begin_countdown(*wait);
            drop(screen);
            countdown::start(Arc::downgrade(&self.screen), id, Instant::now() + *wait);
        }
    }

    async fn confirm(&self, _: &Action, _: &str) -> Option<bool> {
        None
    }
}

impl CliFront for HumanFront {
    fn take_output_error(&self) -> Option<io::Error> {
        lock(&self.screen).take_output_error()
    }
}

impl Drop for HumanFront {
    /// Leaves the cursor at the beginning of a line: an error message may follow.
    fn drop(&mut self) {
        lock(&self.screen).tidy();
    }
}

#[cfg(test)]
mod tests;

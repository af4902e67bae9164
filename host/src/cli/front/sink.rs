//! A writer that remembers its first error and is silent from then on.

use std::io::{self, ErrorKind};

use super::outlet::{Drain, Worth};

/// Where a front writes to. A closed pipe is no error: nobody wants to read on, and the run
/// goes on. Any other error is kept until somebody asks.
pub(super) struct Sink {
    drain: Box<dyn Drain>,
    error: Option<io::Error>,
    closed: bool,
}

impl Sink {
    pub fn new(drain: impl Drain + 'static) -> Self {
        Self {
            drain: Box::new(drain),
            error: None,
            closed: false,
        }
    }

    /// Shows something. If nobody reads for long, it is left out, and that is said.
    pub fn put(&mut self, text: &str) {
        self.give(text, Worth::Usual);
    }

    /// The same for what something else says again later: it may be left out without a word.
    pub fn put_spare(&mut self, text: &str) {
        self.give(text, Worth::Spare);
    }

    /// Hands out what the run was for: it is never left out.
    pub fn put_data(&mut self, text: &str) {
        self.give(text, Worth::Data);
    }

    fn give(&mut self, text: &str, worth: Worth) {
        if self.closed || text.is_empty() {
            return;
        }
        if let Err(error) = self.drain.put(text, worth) {
            self.closed = true;
            if error.kind() != ErrorKind::BrokenPipe {
                self.error = Some(error);
            }
        }
    }

    /// The error, once.
    pub fn take_error(&mut self) -> Option<io::Error> {
        self.error.take().or_else(|| self.drain.take_error())
    }
}

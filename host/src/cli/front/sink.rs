//! A writer that stores its first error and writes nothing afterwards.

use std::io::{self, ErrorKind};

use super::outlet::{Drain, Worth};

/// The output of a front. A closed pipe is no error: the reader has ended, and the run continues.
/// Any other error is kept until it is taken.
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

    /// Writes a text. If the reader does not read for long, the text is left out, and a message
    /// says so.
    pub fn put(&mut self, text: &str) {
        self.give(text, Worth::Usual);
    }

    /// The same for a text whose content is repeated later: it may be left out without a message.
    pub fn put_spare(&mut self, text: &str) {
        self.give(text, Worth::Spare);
    }

    /// Writes the run's data, which is never left out.
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

    /// Whether all text has reached the reader, or can never reach it.
    pub fn is_written(&self) -> bool {
        self.closed || self.drain.is_written()
    }

    /// Takes the error; later calls return none.
    pub fn take_error(&mut self) -> Option<io::Error> {
        self.error.take().or_else(|| self.drain.take_error())
    }
}

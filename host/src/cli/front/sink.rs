//! A writer that remembers its first error and is silent from then on.

use std::io::{self, ErrorKind, Write};

/// Where a front writes to. A closed pipe is no error: nobody wants to read on, and the run
/// goes on. Any other error is kept until somebody asks.
pub(super) struct Sink {
    writer: Box<dyn Write + Send>,
    error: Option<io::Error>,
    closed: bool,
}

impl Sink {
    pub fn new(writer: impl Write + Send + 'static) -> Self {
        Self {
            writer: Box::new(writer),
            error: None,
            closed: false,
        }
    }

    /// Writes and flushes.
    pub fn put(&mut self, text: &str) {
        if self.closed || text.is_empty() {
            return;
        }
        let done = self
            .writer
            .write_all(text.as_bytes())
            .and_then(|()| self.writer.flush());
        if let Err(error) = done {
            self.closed = true;
            if error.kind() != ErrorKind::BrokenPipe {
                self.error = Some(error);
            }
        }
    }

    /// The error, once.
    pub fn take_error(&mut self) -> Option<io::Error> {
        self.error.take()
    }
}

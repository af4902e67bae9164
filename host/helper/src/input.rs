//! The standard input of an action: what the host has written and the action has not taken yet.

use std::io;
use std::os::fd::{AsRawFd, OwnedFd, RawFd};

use crate::sys;
use crate::terminal::{END_OF_INPUT, Terminal};

/// Where the input goes.
#[derive(Default)]
enum InputEnd {
    #[default]
    Closed,
    Pipe(OwnedFd),
    Terminal(Terminal),
}

/// The input of a running action.
#[derive(Default)]
pub struct ProgramInput {
    end: InputEnd,
    queue: Vec<u8>,
    /// Whether the end follows what is in the queue.
    is_closing: bool,
}

impl ProgramInput {
    /// A pipe, whose other end the action has.
    pub fn pipe(pipe: OwnedFd) -> io::Result<Self> {
        sys::set_nonblocking(&pipe)?;
        Ok(Self {
            end: InputEnd::Pipe(pipe),
            ..Self::default()
        })
    }

    /// A terminal.
    pub fn terminal(terminal: Terminal) -> Self {
        Self {
            end: InputEnd::Terminal(terminal),
            ..Self::default()
        }
    }

    /// The terminal, if it is one.
    pub fn as_terminal(&self) -> Option<&Terminal> {
        match &self.end {
            InputEnd::Terminal(terminal) => Some(terminal),
            _ => None,
        }
    }

    /// Writes these bytes when the action takes them.
    pub fn push(&mut self, bytes: &[u8]) {
        self.queue.extend_from_slice(bytes);
    }

    /// Closes it after what was pushed.
    pub fn close(&mut self) {
        self.is_closing = true;
    }

    /// Forgets what was pushed. A terminal is set as at its beginning.
    pub fn reset(&mut self) {
        self.queue.clear();
        self.is_closing = false;
        if let InputEnd::Terminal(terminal) = &self.end {
            terminal.reset();
        }
    }

    /// The descriptor that has to be ready for [`Self::write`]; none if there is nothing to write.
    pub fn due(&self) -> Option<RawFd> {
        if self.queue.is_empty() && !self.is_closing {
            return None;
        }
        match &self.end {
            InputEnd::Closed => None,
            InputEnd::Pipe(pipe) => Some(pipe.as_raw_fd()),
            InputEnd::Terminal(terminal) => Some(terminal.master().as_raw_fd()),
        }
    }

    /// Writes once. Returns how many bytes were taken, and whether more can be; none if there is
    /// nothing to report.
    pub fn write(&mut self) -> Option<(usize, bool)> {
        let Some(fd) = self.due() else {
            // Of an input that is closed, all is dropped.
            let is_refused = !std::mem::take(&mut self.queue).is_empty();
            return is_refused.then_some((0, false));
        };
        if self.queue.is_empty() {
            match &self.end {
                InputEnd::Terminal(_) => {
                    let written = sys::write(fd, &[END_OF_INPUT]);
                    self.is_closing = matches!(written, Ok(None));
                }
                _ => self.end = InputEnd::Closed,
            }
            return None;
        }
        match sys::write(fd, &self.queue) {
            Ok(None) => None,
            Ok(Some(count)) => {
                self.queue.drain(..count);
                Some((count, true))
            }
            Err(_) => {
                self.queue.clear();
                self.end = InputEnd::Closed;
                Some((0, false))
            }
        }
    }
}

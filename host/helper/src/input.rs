//! The standard input of an action: a queue of the bytes that the action has not read yet.

use std::io;
use std::os::fd::{AsRawFd, OwnedFd, RawFd};

use crate::sys;
use crate::terminal::{END_OF_INPUT, Terminal};

/// The most bytes of a line that a terminal takes while it collects lines: it drops the rest silently.
const LONGEST_LINE: usize = 4095;

/// The result of a write to an input.
pub struct InputNews {
    /// How many bytes were taken.
    pub count: usize,
    /// Whether more bytes can be written.
    pub is_open: bool,
    /// Whether the bytes were dropped, because a line is longer than a terminal takes.
    pub is_too_long: bool,
}

/// The other end of the input.
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
    /// How many bytes of an unfinished line were given to a terminal.
    column: usize,
    /// Whether the input ends after the queue.
    is_closing: bool,
}

impl ProgramInput {
    /// A pipe, whose reading end the action has.
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

    /// Queues bytes, which are written when the action takes them.
    pub fn push(&mut self, bytes: &[u8]) {
        self.queue.extend_from_slice(bytes);
    }

    /// Closes the input after the queued bytes.
    pub fn close(&mut self) {
        self.is_closing = true;
    }

    /// Drops the queued bytes. A terminal gets its initial settings again.
    pub fn reset(&mut self) {
        self.queue.clear();
        (self.column, self.is_closing) = (0, false);
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

    /// The number of bytes in the unfinished line after the queued bytes were given to a terminal;
    /// none if a line is too long for it. A program that reads keys and not lines may get any
    /// number.
    fn column_after(&self, bytes: &[u8]) -> Option<usize> {
        let InputEnd::Terminal(terminal) = &self.end else {
            return Some(0);
        };
        if !terminal.collects_lines() {
            return Some(0);
        }
        let mut column = self.column;
        for byte in bytes {
            column = match byte {
                b'\n' | b'\r' | &END_OF_INPUT => 0,
                _ if column == LONGEST_LINE => return None,
                _ => column + 1,
            };
        }
        Some(column)
    }

    /// Writes once. None if there is nothing to report.
    pub fn write(&mut self) -> Option<InputNews> {
        let news = |count, is_open, is_too_long| {
            Some(InputNews {
                count,
                is_open,
                is_too_long,
            })
        };
        let Some(fd) = self.due() else {
            // If the input is closed, all queued bytes are dropped.
            let is_refused = !std::mem::take(&mut self.queue).is_empty();
            return is_refused.then(|| news(0, false, false)).flatten();
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
        // The end of a line is searched for before its first byte is written.
        let ahead = self.queue.len().min(2 * (LONGEST_LINE + 1));
        if self.column_after(&self.queue[..ahead]).is_none() {
            let count = std::mem::take(&mut self.queue).len();
            return news(count, true, true);
        }
        let most = match self.end {
            InputEnd::Terminal(_) => self.queue.len().min(LONGEST_LINE + 1),
            _ => self.queue.len(),
        };
        match sys::write(fd, &self.queue[..most]) {
            Ok(None) => None,
            Ok(Some(count)) => {
                self.column = self.column_after(&self.queue[..count]).unwrap_or(0);
                self.queue.drain(..count);
                news(count, true, false)
            }
            Err(_) => {
                self.queue.clear();
                self.end = InputEnd::Closed;
                news(0, false, false)
            }
        }
    }
}

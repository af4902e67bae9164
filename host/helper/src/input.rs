//! The standard input of an action: what the host has written and the action has not taken yet.

use std::io;
use std::os::fd::{AsRawFd, OwnedFd, RawFd};

use crate::sys;
use crate::terminal::{END_OF_INPUT, Terminal};

/// The most bytes of a line that a terminal takes while it collects lines: it drops the rest silently.
const LONGEST_LINE: usize = 4095;

/// What became of an input.
pub struct InputNews {
    /// How many bytes were taken.
    pub count: usize,
    /// Whether more can be.
    pub is_open: bool,
    /// Whether they were dropped, because a line is longer than a terminal takes.
    pub is_too_long: bool,
}

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
    /// How many bytes of an unfinished line a terminal was given.
    column: usize,
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

    /// The bytes of the unfinished line after those of the queue have been given to a terminal; none if a
    /// line is too long for it. A program that reads keys and not lines may be given any.
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
            // Of an input that is closed, all is dropped.
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
        // A line is seen whole before its first byte is written.
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

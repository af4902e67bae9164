//! A second copy of a journal, in a file without a name, which no command can reach. Only this
//! process uses it, so its last lines are kept in memory.

use std::cell::RefCell;
use std::fs::File;
use std::io::{self, Write as _};

/// The most bytes that are kept in memory.
const PENDING: usize = 16 << 10;

#[derive(Debug)]
pub(in crate::journal) struct SecondCopy {
    file: File,
    pending: RefCell<Vec<u8>>,
}

impl SecondCopy {
    /// A copy whose first part is in `file`, which is positioned at its end.
    pub(super) fn new(file: File) -> Self {
        Self {
            file,
            pending: RefCell::default(),
        }
    }

    /// Adds a line.
    ///
    /// # Errors
    /// The system's error if the file can't be written; the copy is then incomplete, and must be
    /// dropped.
    pub(super) fn add(&self, line: &[u8]) -> io::Result<()> {
        let mut pending = self.pending.borrow_mut();
        pending.extend_from_slice(line);
        match pending.len() > PENDING {
            true => self.flush(&mut pending),
            false => Ok(()),
        }
    }

    /// The file with all lines.
    ///
    /// # Errors
    /// The system's error if the file can't be written.
    pub(in crate::journal) fn whole(&self) -> io::Result<&File> {
        self.flush(&mut self.pending.borrow_mut())?;
        Ok(&self.file)
    }

    fn flush(&self, pending: &mut Vec<u8>) -> io::Result<()> {
        (&self.file).write_all(pending)?;
        pending.clear();
        pending.shrink_to(PENDING);
        Ok(())
    }
}

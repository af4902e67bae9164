//! A second copy of a journal, in memory and in a file without a name, which no command can reach.

use std::fs::File;
use std::io::{self, Read, Write as _};
use std::os::unix::fs::FileExt as _;
use std::path::PathBuf;

/// The most bytes that are kept in memory.
const PENDING: usize = 32 << 10;

#[derive(Debug)]
pub(in crate::journal) struct SecondCopy {
    folder: PathBuf,
    /// Made when it is needed, because many runs end before that.
    file: Option<File>,
    stored: u64,
    /// What follows the content of the file.
    pending: Vec<u8>,
}

impl SecondCopy {
    /// An empty copy, whose file will be on the disk of this folder.
    pub(super) fn new(folder: PathBuf) -> Self {
        Self {
            folder,
            file: None,
            stored: 0,
            pending: Vec::new(),
        }
    }

    /// The whole content of the copy.
    pub(in crate::journal) fn content(&self) -> SureContent<'_> {
        SureContent {
            file: self.file.as_ref(),
            stored: self.stored,
            pending: &self.pending,
        }
    }

    /// Whether the copy occupies disk space.
    pub(super) fn is_on_disk(&self) -> bool {
        self.file.is_some()
    }

    /// Adds bytes.
    ///
    /// # Errors
    /// The system's error if the file can't be written; the copy is then incomplete, and must be dropped.
    pub(super) fn add(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.pending.extend_from_slice(bytes);
        if self.pending.len() <= PENDING {
            return Ok(());
        }
        let file = match &mut self.file {
            Some(file) => file,
            missing => {
                // A command may have removed the folder.
                let made = tempfile::tempfile_in(&self.folder).or_else(|_| tempfile::tempfile());
                missing.insert(made?)
            }
        };
        file.write_all(&self.pending)?;
        self.stored += self.pending.len() as u64;
        self.pending.clear();
        self.pending.shrink_to(PENDING);
        Ok(())
    }
}

/// Content that certainly is what was recorded: the beginning of a file, and what follows it.
pub(in crate::journal) struct SureContent<'a> {
    pub(in crate::journal) file: Option<&'a File>,
    pub(in crate::journal) stored: u64,
    pub(in crate::journal) pending: &'a [u8],
}

impl<'a> SureContent<'a> {
    pub(in crate::journal) fn reader(&self) -> impl Read + use<'a> {
        let stored = self.file.map(|file| FileRangeReader {
            file,
            at: 0,
            end: self.stored,
        });
        Maybe(stored).chain(self.pending)
    }
}

/// A reader, or none: then there is nothing to read.
struct Maybe<R>(Option<R>);

impl<R: Read> Read for Maybe<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.0.as_mut().map_or(Ok(0), |it| it.read(buffer))
    }
}

/// A part of a file, which is read without changing the file's position.
pub(in crate::journal) struct FileRangeReader<'a> {
    pub(in crate::journal) file: &'a File,
    pub(in crate::journal) at: u64,
    pub(in crate::journal) end: u64,
}

impl Read for FileRangeReader<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let left = usize::try_from(self.end - self.at).unwrap_or(usize::MAX);
        let room = buffer.len().min(left);
        let count = self.file.read_at(&mut buffer[..room], self.at)?;
        self.at += count as u64;
        Ok(count)
    }
}

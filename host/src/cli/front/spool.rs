//! Stores pieces of output that do not fit into memory, in a file without a name.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;

/// Bytes in front of a piece: the number of its stream, and its length.
const HEAD: usize = 5;

/// Pieces in a file, first in, first out.
#[derive(Debug, Default)]
pub(super) struct Spool {
    /// The folder of the file; `None` for the folder of temporary files.
    folder: Option<PathBuf>,
    file: Option<File>,
    /// The offset of the first piece.
    begin: u64,
    /// The offset after the last piece.
    end: u64,
}

impl Spool {
    /// A spool whose file is made in `folder` at the first piece.
    pub fn new(folder: Option<PathBuf>) -> Self {
        Self {
            folder,
            ..Self::default()
        }
    }

    /// Whether the spool is empty.
    pub fn is_empty(&self) -> bool {
        self.begin == self.end
    }

    /// Appends a piece.
    ///
    /// # Errors
    /// The error of the write: the disk is full, or the file can't be made.
    pub fn push(&mut self, stream: u8, piece: &[u8]) -> io::Result<()> {
        let file = match self.file.take() {
            Some(file) => file,
            None => match &self.folder {
                Some(folder) => tempfile::tempfile_in(folder)?,
                None => tempfile::tempfile()?,
            },
        };
        let file = self.file.insert(file);
        let len = u32::try_from(piece.len()).map_err(io::Error::other)?;
        let mut bytes = Vec::with_capacity(HEAD + piece.len());
        bytes.push(stream);
        bytes.extend_from_slice(&len.to_le_bytes());
        bytes.extend_from_slice(piece);
        // If the disk is full, the next piece overwrites the written part of this one.
        file.write_all_at(&bytes, self.end)?;
        self.end += bytes.len() as u64;
        Ok(())
    }

    /// Takes the first piece out.
    ///
    /// # Errors
    /// When the file can't be read; its pieces are lost then.
    pub fn pop(&mut self) -> io::Result<Option<(u8, Vec<u8>)>> {
        let Some(file) = self.file.as_ref().filter(|_| !self.is_empty()) else {
            return Ok(None);
        };
        let read = || {
            let mut head = [0; HEAD];
            file.read_exact_at(&mut head, self.begin)?;
            let [stream, len @ ..] = head;
            let mut piece = vec![0; u32::from_le_bytes(len) as usize];
            file.read_exact_at(&mut piece, self.begin + HEAD as u64)?;
            Ok((stream, piece))
        };
        let first = read();
        match &first {
            Ok((_, piece)) => self.begin += (HEAD + piece.len()) as u64,
            Err(_) => self.begin = self.end,
        }
        if self.is_empty() {
            // The disk space of the read pieces is freed.
            (self.file, self.begin, self.end) = (None, 0, 0);
        }
        first.map(Some)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_come_out_as_they_went_in() {
        let mut spool = Spool::default();
        assert!(spool.is_empty());
        for round in 0..3 {
            for number in 0..100_u8 {
                spool
                    .push(number % 2, &vec![number; usize::from(number)])
                    .unwrap();
            }
            assert!(!spool.is_empty());
            for number in 0..100_u8 {
                let piece = vec![number; usize::from(number)];
                assert_eq!(spool.pop().unwrap(), Some((number % 2, piece)), "{round}");
            }
            assert!(spool.is_empty() && spool.file.is_none());
            assert_eq!(spool.pop().unwrap(), None);
        }
    }

    #[test]
    fn a_disk_that_is_full_loses_only_what_it_does_not_take() {
        let folder = tempfile::tempdir().unwrap();
        let mut spool = Spool::new(Some(folder.path().join("gone")));
        spool.push(0, b"x").unwrap_err();
        assert!(spool.is_empty());
        spool.folder = Some(folder.path().to_owned());
        spool.push(0, b"x").unwrap();
        // The file accepts no more data, like a full disk.
        let full = File::options().write(true).open("/dev/full").unwrap();
        let file = spool.file.replace(full).unwrap();
        let error = spool.push(0, b"y").unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::StorageFull);
        spool.file = Some(file);
        spool.push(1, b"z").unwrap();
        assert_eq!(spool.pop().unwrap(), Some((0, b"x".to_vec())));
        assert_eq!(spool.pop().unwrap(), Some((1, b"z".to_vec())));
    }
}

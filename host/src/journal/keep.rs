//! Keeps a journal whole although the commands of the run can reach it: they may remove it
//! (`git clean -fdx`), put another in its place (`git stash`, `sed -i`), or write into it.

use std::fs::{File, OpenOptions};
use std::io::{self, BufReader, Read, Write};
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use super::file::{Inner, explain, lock, still_there};
use super::{JournalError, JournalFile, Log, read_from};

/// What [`JournalFile::check`] has found and done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Change {
    /// The file is where it should be, and holds what was written to it.
    None,
    /// Something else was in its place, or had been written into it: a whole one is there again.
    Restored,
    /// It was gone. It goes on at this place until [`JournalFile::bring_home`]: a command may
    /// have put it aside, and would not get it back if another were in its place by then.
    Elsewhere(PathBuf),
}

impl JournalFile {
    /// Looks whether the file is still this journal, and whole; if it is not, a whole one is
    /// written: in its place, or to `elsewhere` if nothing is there.
    ///
    /// # Errors
    /// When no whole one can be written.
    pub fn check(&self, elsewhere: &Path) -> io::Result<Change> {
        let mut inner = self.inner();
        if inner.is_whole()? {
            let away = inner.path != self.home && std::fs::symlink_metadata(&self.home).is_ok();
            // What was put aside is back.
            if away {
                inner.move_to(&self.home)?;
                return Ok(Change::Restored);
            }
            return Ok(Change::None);
        }
        let path = inner.path.clone();
        if std::fs::symlink_metadata(&path).is_ok() && inner.move_to(&path).is_ok() {
            return Ok(Change::Restored);
        }
        if let Some(folder) = elsewhere.parent() {
            std::fs::create_dir_all(folder)?;
        }
        inner.move_to(elsewhere)?;
        Ok(match elsewhere == self.home {
            true => Change::Restored,
            false => Change::Elsewhere(elsewhere.to_owned()),
        })
    }

    /// At the end: the journal is whole, and where it belongs.
    ///
    /// # Errors
    /// When it can't be put there; it stays where it is.
    pub fn bring_home(&self) -> io::Result<()> {
        let mut inner = self.inner();
        if inner.path == self.home && inner.is_whole()? {
            return Ok(());
        }
        if let Some(folder) = self.home.parent() {
            std::fs::create_dir_all(folder).map_err(|error| explain(&self.home, &error))?;
        }
        inner.move_to(&self.home)
    }

    /// What was recorded, whatever became of the file.
    ///
    /// # Errors
    /// As [`super::read`].
    pub fn log(&self) -> Result<Log, JournalError> {
        let inner = self.inner();
        let name = inner.path.display().to_string();
        let source = inner.source().and_then(File::try_clone);
        let len = inner.len;
        drop(inner);
        let file = source.map_err(|source| JournalError::Io {
            path: name.clone(),
            source,
        })?;
        let part = Part {
            file: &file,
            at: 0,
            end: len,
        };
        read_from(BufReader::with_capacity(1 << 18, part), &name)
    }
}

impl Inner {
    fn is_whole(&self) -> io::Result<bool> {
        let length = still_there(&self.file, &self.path)?;
        Ok(length == Some(self.len))
    }

    /// The file that certainly holds what was recorded.
    fn source(&self) -> io::Result<&File> {
        if let Some(copy) = &self.copy {
            return Ok(copy);
        }
        // One that was removed or moved is still ours.
        if self.file.metadata()?.len() == self.len {
            return Ok(&self.file);
        }
        Err(io::Error::other(
            "something else has written to it, and there is no copy of it",
        ))
    }

    /// Writes a whole one to `path` and goes on with that.
    fn move_to(&mut self, path: &Path) -> io::Result<()> {
        let file = self.write_to(path).map_err(|error| explain(path, &error))?;
        let old = std::mem::replace(&mut self.path, PathBuf::new());
        // One that was kept elsewhere meanwhile has served.
        if old != path && still_there(&self.file, &old).is_ok_and(|it| it.is_some()) {
            let _ = std::fs::remove_file(&old);
        }
        self.replace(file, path.to_owned());
        Ok(())
    }

    fn write_to(&self, path: &Path) -> io::Result<File> {
        let new = beside(path);
        let _ = std::fs::remove_file(&new);
        let file = OpenOptions::new()
            .read(true)
            .append(true)
            .create_new(true)
            .custom_flags(libc::O_NOFOLLOW)
            .open(&new)?;
        let fill = || -> io::Result<()> {
            let mut part = Part {
                file: self.source()?,
                at: 0,
                end: self.len,
            };
            let copied = io::copy(&mut part, &mut &file)?;
            if copied != self.len {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            (&file).flush()?;
            lock(&file, path)?;
            std::fs::rename(&new, path)
        };
        if let Err(error) = fill() {
            let _ = std::fs::remove_file(&new);
            return Err(error);
        }
        Ok(file)
    }
}

/// Where a file is written before it takes the place of `path`: always the same name, so that a
/// killed host leaves one of these at the most, and so that it is known for one of ours.
pub(super) fn beside(path: &Path) -> PathBuf {
    let mut name = std::ffi::OsString::from(".");
    name.push(path.file_name().unwrap_or_default());
    name.push(".mswea-tmp");
    path.with_file_name(name)
}

/// A part of a file, read without moving where others read or write.
struct Part<'a> {
    file: &'a File,
    at: u64,
    end: u64,
}

impl Read for Part<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let left = usize::try_from(self.end - self.at).unwrap_or(usize::MAX);
        let room = buffer.len().min(left);
        let count = self.file.read_at(&mut buffer[..room], self.at)?;
        self.at += count as u64;
        Ok(count)
    }
}

#[cfg(test)]
mod tests;

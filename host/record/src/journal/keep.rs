//! Keeps a journal complete although the commands of the run can reach it: they may remove it (`git
//! clean -fdx`), replace it (`git stash`, `sed -i`), or write into it.

use std::ffi::OsString;
use std::fs::{File, OpenOptions};
use std::hash::{BuildHasher, RandomState};
use std::io::{self, BufRead, BufReader, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::file::{FileRangeReader, Inner, Stamp, SureContent, explain, lock, still_there};
use super::{JournalError, JournalFile, Log, Spot, read_from};

/// The result of [`JournalFile::check`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum JournalChange {
    /// The file is at its place, and has the content that was written to it.
    None,
    /// The file was replaced, or written into. A complete one is at its place again.
    Restored,
    /// The file was gone. The journal continues at this path until [`JournalFile::bring_home`]: a
    /// command may have moved the file away, and could not move it back if another file had its
    /// place.
    Elsewhere(PathBuf),
}

impl JournalFile {
    /// Called after a command, before another event is recorded. Checks that the file is still this
    /// journal, and complete. If it is not, a complete one is written: in its place, or to
    /// `elsewhere` if no file is there. Changes that leave the length the same are detected only
    /// after [`JournalFile::mark`].
    ///
    /// # Errors
    /// The system's error if no complete file can be written.
    pub fn check(&self, elsewhere: &Arc<Spot>) -> io::Result<JournalChange> {
        let mut inner = self.inner();
        if inner.is_whole(inner.stamp.is_some())? {
            let away = inner.spot.shown() != self.home.shown() && is_there(&self.home);
            // The file that was moved away is back.
            if away {
                inner.move_to(&self.home)?;
                return Ok(JournalChange::Restored);
            }
            return Ok(JournalChange::None);
        }
        let spot = inner.spot.clone();
        if is_there(&spot) && inner.move_to(&spot).is_ok() {
            return Ok(JournalChange::Restored);
        }
        inner.move_to(elsewhere)?;
        Ok(match elsewhere.shown() == self.home.shown() {
            true => JournalChange::Restored,
            false => JournalChange::Elsewhere(elsewhere.shown().to_owned()),
        })
    }

    /// Called at the end: makes the journal complete, and puts it at its configured place.
    ///
    /// # Errors
    /// The system's error if it can't be put there; it then stays where it is.
    pub fn bring_home(&self) -> io::Result<()> {
        let mut inner = self.inner();
        if inner.spot.shown() == self.home.shown() && inner.is_whole(true)? {
            return Ok(());
        }
        inner.move_to(&self.home)
    }

    /// The real path of the file, if its configured path does not lead there any more because a
    /// command has moved a folder.
    pub fn strayed(&self) -> Option<PathBuf> {
        self.home.strayed()
    }

    /// The recorded events, even if the file was damaged.
    ///
    /// # Errors
    /// The errors of [`super::read()`].
    pub fn log(&self) -> Result<Log, JournalError> {
        let inner = self.inner();
        let name = inner.spot.shown().display().to_string();
        let content = inner.content().and_then(|it| {
            let file = it.file.map(File::try_clone).transpose()?;
            Ok((file, it.stored, it.pending.to_vec()))
        });
        drop(inner);
        let (file, stored, pending) = content.map_err(|source| JournalError::Io {
            path: name.clone(),
            source,
        })?;
        let content = SureContent {
            file: file.as_ref(),
            stored,
            pending: &pending,
        };
        read_from(BufReader::with_capacity(1 << 18, content.reader()), &name)
    }
}

impl Inner {
    /// Whether the file is at its place and has the recorded length, and, with `content`, the
    /// recorded content.
    fn is_whole(&self, content: bool) -> io::Result<bool> {
        if still_there(&self.file, &self.spot)? != Some(self.len) {
            return Ok(false);
        }
        let is_marked = self.stamp.is_some() && Stamp::of(&self.file) == self.stamp;
        Ok(!content || is_marked || self.is_unchanged()?)
    }

    /// Whether the file still has the recorded content, by comparison with the copy, or else by the
    /// time of the last write before the command (moving the file changes only the other time).
    fn is_unchanged(&self) -> io::Result<bool> {
        let Some(copy) = &self.copy else {
            let found = Stamp::of(&self.file).map(|it| it.content);
            return Ok(self.stamp.is_none_or(|it| Some(it.content) == found));
        };
        let file = FileRangeReader {
            file: &self.file,
            at: 0,
            end: self.len,
        };
        let mut ours = BufReader::with_capacity(1 << 16, copy.content().reader());
        let mut theirs = BufReader::with_capacity(1 << 16, file);
        loop {
            let (expected, found) = (ours.fill_buf()?, theirs.fill_buf()?);
            let length = expected.len().min(found.len());
            if expected[..length] != found[..length] {
                return Ok(false);
            }
            if length == 0 {
                return Ok(expected.len() == found.len());
            }
            ours.consume(length);
            theirs.consume(length);
        }
    }

    /// The recorded content.
    fn content(&self) -> io::Result<SureContent<'_>> {
        if let Some(copy) = &self.copy {
            return Ok(copy.content());
        }
        // A file that was removed or moved can still be read.
        if self.file.metadata()?.len() == self.len && self.is_unchanged()? {
            return Ok(SureContent {
                file: Some(&self.file),
                stored: self.len,
                pending: &[],
            });
        }
        Err(io::Error::other(
            "something else has written to it, and there is no copy of it",
        ))
    }

    /// Writes a complete file to `path`, and continues the journal there.
    fn move_to(&mut self, spot: &Arc<Spot>) -> io::Result<()> {
        let written = self.write_to(spot);
        let file = written.map_err(|error| explain(spot.shown(), &error))?;
        // The file that was kept elsewhere meanwhile is no longer needed.
        if self.spot.shown() != spot.shown()
            && still_there(&self.file, &self.spot).is_ok_and(|it| it.is_some())
            && let Ok(old) = self.spot.at()
        {
            let _ = std::fs::remove_file(old);
        }
        self.replace(file, spot.clone());
        Ok(())
    }

    fn write_to(&self, spot: &Spot) -> io::Result<File> {
        let at = spot.made()?;
        let (new, file) = temporary(&at)?;
        let fill = || -> io::Result<()> {
            let copied = io::copy(&mut self.content()?.reader(), &mut &file)?;
            if copied != self.len {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            (&file).flush()?;
            lock(&file, spot.shown())?;
            std::fs::rename(&new, &at)
        };
        if let Err(error) = fill() {
            let _ = std::fs::remove_file(&new);
            return Err(error);
        }
        Ok(file)
    }
}

/// Whether a file of any kind has this name.
fn is_there(spot: &Spot) -> bool {
    spot.at().and_then(std::fs::symlink_metadata).is_ok()
}

/// A file to be filled before it is renamed to `path`, with the usual permissions (the process's
/// umask). Its name is always the same, so that a killed host leaves at most one of them. If that
/// name can't be used, for example because a command has made a folder of that name, a number is
/// added.
pub(crate) fn temporary(path: &Path) -> io::Result<(PathBuf, File)> {
    let mut name = OsString::from(".");
    name.push(path.file_name().unwrap_or_default());
    name.push(".mswea-tmp");
    let mut new = path.with_file_name(&name);
    let mut tries = 0;
    loop {
        let _ = std::fs::remove_file(&new);
        let made = OpenOptions::new()
            .read(true)
            .append(true)
            .create_new(true)
            .custom_flags(libc::O_NOFOLLOW)
            .open(&new);
        match made {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists && tries < 16 => {
                tries += 1;
                let mut other = name.clone();
                other.push(format!("-{:016x}", RandomState::new().hash_one(tries)));
                new = path.with_file_name(other);
            }
            made => return Ok((new, made?)),
        }
    }
}

#[cfg(test)]
mod tests;

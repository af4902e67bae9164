//! A journal that is continued: it is locked and read, and changed only with the first new event.

use std::fs::File;
use std::io::{self, BufReader, Write as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use super::file::{explain, lock, open_plain};
use super::{JournalError, JournalFile, Log, Spot, read_from};

/// A locked journal of an earlier process: no other process writes to it, and its file is
/// unchanged.
#[derive(Debug)]
pub struct Reopened {
    spot: Arc<Spot>,
    file: File,
    /// The number of bytes in complete lines.
    len: u64,
    lacks_newline: bool,
    last_seq: u64,
}

/// How long the lock of a killed host may last: a process that it was just starting shares its open
/// files until it has executed its program.
const LOCKED: Duration = Duration::from_millis(500);

fn open_patiently(spot: &Spot) -> io::Result<File> {
    let end = Instant::now() + LOCKED;
    loop {
        let opened = open_plain(spot, false).and_then(|file| {
            lock(&file, spot.shown())?;
            Ok(file)
        });
        match opened {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock && Instant::now() < end => {
                thread::sleep(LOCKED / 50);
            }
            opened => return opened,
        }
    }
}

/// Refuses a link and a pipe, with a message that says which file to name.
fn check_kind(path: &Path) -> io::Result<()> {
    let kind = std::fs::symlink_metadata(path)?.file_type();
    if kind.is_symlink() {
        let target = std::fs::canonicalize(path)?;
        let target = target.display();
        return Err(io::Error::other(format!(
            "it is a link; name the file that it leads to, `{target}`"
        )));
    }
    match kind.is_file() {
        true => Ok(()),
        false => Err(io::Error::other("it is no plain file")),
    }
}

impl Reopened {
    /// Locks a journal, and reads it. Waits half a second for the lock.
    ///
    /// # Errors
    /// [`JournalError::Locked`] if its run continues in another process; the errors of
    /// [`read`](super::read()); and [`JournalError::Io`] if the file can't be written to.
    pub fn open(path: impl Into<PathBuf>) -> Result<(Self, Log), JournalError> {
        let path = path.into();
        let failed = |source: io::Error| {
            let path = path.display().to_string();
            match source.kind() {
                io::ErrorKind::WouldBlock => JournalError::Locked { path },
                io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem
                    if File::open(&path).is_ok() =>
                {
                    JournalError::Unwritable { path, source }
                }
                _ => JournalError::Io { path, source },
            }
        };
        check_kind(&path).map_err(failed)?;
        let spot = Spot::of(&path).map_err(failed)?;
        let file = open_patiently(&spot).map_err(failed)?;
        let log = read_from(
            BufReader::with_capacity(1 << 18, &file),
            &path.display().to_string(),
        )?;
        let reopened = Self {
            spot: Arc::new(spot),
            len: log.len,
            lacks_newline: log.lacks_newline,
            last_seq: log.last_seq,
            file,
        };
        Ok((reopened, log))
    }

    /// Continues the journal: cuts off an incomplete last line, and continues the numbers.
    ///
    /// # Errors
    /// The system's error if the file can't be written.
    pub fn begin(mut self) -> io::Result<JournalFile> {
        let mut mend = || -> io::Result<u64> {
            self.file.set_len(self.len)?;
            if self.lacks_newline {
                self.file.write_all(b"\n")?;
            }
            Ok(self.len + u64::from(self.lacks_newline))
        };
        let len = mend().map_err(|error| explain(self.spot.shown(), &error))?;
        Ok(JournalFile::at(self.spot, self.file, self.last_seq, len))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Also root can't write to these.
    #[test]
    fn a_journal_that_can_only_be_read_says_what_helps() {
        let files = ["/sys/kernel/kexec_loaded", "/sys/kernel/uevent_seqnum"];
        let path = files.iter().find(|it| Path::new(it).is_file());
        let path = path.expect("sysfs is mounted");
        let refused = Reopened::open(*path).unwrap_err().to_string();
        assert!(
            refused.starts_with("can't write to the journal"),
            "{refused}"
        );
        for part in ["chmod u+w", "mswea-host fork"] {
            assert!(refused.contains(part), "{refused}");
        }
        assert!(!refused.contains("choose an output"), "{refused}");
    }
}

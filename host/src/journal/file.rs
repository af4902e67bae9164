//! The journal as a file: one line an event, handed to the kernel by one `write` each.
//!
//! A line that the kernel has is safe from the host's own death (`kill -9`, a panic, an
//! abort). Against the machine's death there is [`JournalFile::fsync`], at step boundaries.

use std::fs::{File, OpenOptions, TryLockError};
use std::io::{self, Write};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::time::{SystemTime, UNIX_EPOCH};

use super::{Event, Log};
use crate::roles::Journal;

/// Buffers larger than this are given back after use: one long reply must not cost memory for
/// the rest of the run.
const KEPT_BUFFER: usize = 1 << 20;

/// Appends events to a file.
#[derive(Debug)]
pub struct JournalFile {
    path: PathBuf,
    fsync: bool,
    inner: Mutex<Inner>,
}

#[derive(Debug)]
struct Inner {
    file: File,
    seq: u64,
    /// Length of the file: where a line that can't be written whole is cut off again.
    len: u64,
    buffer: Vec<u8>,
    /// Set when the file could not be brought back to whole lines.
    broken: bool,
}

/// Unix seconds, to the microsecond: more digits would not survive every JSON reader.
pub(super) fn now() -> f64 {
    let since = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap_or_default();
    #[expect(clippy::cast_precision_loss, reason = "exact until the year 2255")]
    let micros = since.as_micros() as f64;
    micros / 1e6
}

impl JournalFile {
    /// Starts a journal; its folder is made. A journal that is already there is kept under the
    /// first free of `NAME.1`, `NAME.2`, ..., so that naming the same output twice does not
    /// destroy the record of the first run. It is moved under its lock: never from under a run
    /// that still writes to it.
    ///
    /// # Errors
    /// When the file can't be made. [`io::ErrorKind::WouldBlock`]: another process is writing
    /// to it.
    pub fn create(path: impl Into<PathBuf>) -> io::Result<Self> {
        let path = path.into();
        if let Some(parent) = path
            .parent()
            .filter(|parent| !parent.as_os_str().is_empty())
        {
            std::fs::create_dir_all(parent).map_err(|error| explain(&path, &error))?;
        }
        loop {
            let file = open(&path, true)?;
            let length = still_there(&file, &path).map_err(|error| explain(&path, &error))?;
            match length {
                Some(0) => return Ok(Self::new(path, file, 0, 0)),
                Some(_) => {
                    std::fs::rename(&path, free_name(&path))
                        .map_err(|error| explain(&path, &error))?;
                }
                // Another process has moved it away before the lock was ours.
                None => {}
            }
        }
    }

    /// Goes on with a journal that was read before: cuts off the torn end, and continues the
    /// numbers.
    ///
    /// # Errors
    /// When the file can't be opened, or another process is writing to it.
    pub fn resume(path: impl Into<PathBuf>, log: &Log) -> io::Result<Self> {
        let path = path.into();
        let mut file = open(&path, false)?;
        let resume = || -> io::Result<u64> {
            file.set_len(log.len)?;
            if log.lacks_newline {
                file.write_all(b"\n")?;
                return Ok(log.len + 1);
            }
            Ok(log.len)
        };
        let mut resume = resume;
        let len = resume().map_err(|error| explain(&path, &error))?;
        Ok(Self::new(path, file, log.last_seq, len))
    }

    fn new(path: PathBuf, file: File, seq: u64, len: u64) -> Self {
        Self {
            path,
            fsync: false,
            inner: Mutex::new(Inner {
                file,
                seq,
                len,
                buffer: Vec::with_capacity(4096),
                broken: false,
            }),
        }
    }

    /// Whether to wait for the disk at step boundaries: after a reply, an output, and the end
    /// of the run. Off unless set; costs milliseconds each.
    #[must_use]
    pub fn fsync(mut self, yes: bool) -> Self {
        self.fsync = yes;
        self
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }
}

impl Journal for JournalFile {
    fn record(&self, event: &Event) -> io::Result<()> {
        let mut inner = self.inner.lock().unwrap_or_else(PoisonError::into_inner);
        let inner = &mut *inner;
        if inner.broken {
            return Err(explain(
                &self.path,
                &io::Error::other("an earlier write failed"),
            ));
        }
        let mut buffer = std::mem::take(&mut inner.buffer);
        encode(&mut buffer, inner.seq + 1, now(), event)?;
        let result = inner.append(&buffer);
        if buffer.capacity() <= KEPT_BUFFER {
            inner.buffer = buffer;
        }
        result.map_err(|error| explain(&self.path, &error))?;
        let boundary = matches!(
            event,
            Event::Reply { .. } | Event::Output { .. } | Event::RunEnded { .. }
        );
        if self.fsync && boundary {
            inner
                .file
                .sync_data()
                .map_err(|error| explain(&self.path, &error))?;
        }
        Ok(())
    }
}

impl Inner {
    fn append(&mut self, line: &[u8]) -> io::Result<()> {
        if let Err(error) = self.file.write_all(line) {
            // a full disk may have taken half of the line, and later lines must not be glued
            // to it
            self.broken = self.file.set_len(self.len).is_err();
            return Err(error);
        }
        self.seq += 1;
        self.len += line.len() as u64;
        Ok(())
    }
}

/// Makes `{"seq":1,"t":1.5,"event":...}` and a newline in `buffer`.
fn encode(buffer: &mut Vec<u8>, seq: u64, t: f64, event: &Event) -> io::Result<()> {
    buffer.clear();
    write!(buffer, "{{\"seq\":{seq},\"t\":{t:.6}")?;
    let at = buffer.len();
    serde_json::to_writer(&mut *buffer, event)?;
    // an event is an object that is never empty: its brace becomes the comma
    buffer[at] = b',';
    buffer.push(b'\n');
    Ok(())
}

fn open(path: &Path, create: bool) -> io::Result<File> {
    let file = OpenOptions::new()
        .append(true)
        .create(create)
        .open(path)
        .map_err(|error| explain(path, &error))?;
    match file.try_lock() {
        Err(TryLockError::WouldBlock) => Err(io::Error::new(
            io::ErrorKind::WouldBlock,
            format!(
                "another run is writing to the journal `{}`: wait for it, or choose another output",
                path.display()
            ),
        )),
        // some network file systems have no locks; the run is worth more than the check
        Ok(()) | Err(TryLockError::Error(_)) => Ok(file),
    }
}

/// The length of the file, if `path` still leads to it.
fn still_there(file: &File, path: &Path) -> io::Result<Option<u64>> {
    let ours = file.metadata()?;
    match std::fs::metadata(path) {
        Ok(there) if (there.dev(), there.ino()) == (ours.dev(), ours.ino()) => Ok(Some(ours.len())),
        Ok(_) => Ok(None),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

/// The name under which the journal at `path` is kept when another takes its place.
fn free_name(path: &Path) -> PathBuf {
    let mut number: u64 = 1;
    loop {
        let mut name = path.to_owned().into_os_string();
        name.push(format!(".{number}"));
        let name = PathBuf::from(name);
        // Also a link that leads nowhere is in the way.
        if std::fs::symlink_metadata(&name).is_err() {
            return name;
        }
        number += 1;
    }
}

fn explain(path: &Path, error: &io::Error) -> io::Error {
    let remedy = match error.kind() {
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => "; free some space",
        io::ErrorKind::FileTooLarge => "; raise the limit of the size of files (`ulimit -f`)",
        io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem => {
            "; choose an output that you may write to"
        }
        _ => "",
    };
    io::Error::new(
        error.kind(),
        format!(
            "can't write the journal `{}`: {error}{remedy}",
            path.display()
        ),
    )
}

#[cfg(test)]
mod tests;

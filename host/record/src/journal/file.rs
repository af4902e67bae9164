//! The journal as a file: one line per event, passed to the kernel by one `write` each.
//!
//! A line that the kernel has is safe if the host ends (`kill -9`, a panic, an abort). If the
//! machine may fail, the run waits for the disk ([`JournalFile::handle`]). The commands of the run
//! may remove the file or write into it, which [`JournalFile::check`] detects and repairs.

mod second;

use std::fs::{File, OpenOptions, TryLockError};
use std::io::{self, BufRead as _, BufReader, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rustix::fs::{FallocateFlags, fallocate};

use super::{Event, Spot};
use mswea_core::{Clock, Journal};
use second::SecondCopy;
pub(super) use second::{FileRangeReader, SureContent};

/// Buffers larger than this are freed after use, so that one long reply does not occupy memory for
/// the rest of the run.
const KEPT_BUFFER: usize = 1 << 20;

/// Disk space that is reserved after the last line, so that a run whose disk is full can still
/// record its end.
const RESERVE: u64 = 64 << 10;

/// Appends events to a file.
#[derive(Debug)]
pub struct JournalFile {
    /// The configured place of the file.
    pub(super) home: Arc<Spot>,
    clock: Clock,
    inner: Mutex<Inner>,
}

#[derive(Debug)]
pub(super) struct Inner {
    pub(super) file: File,
    /// The current place of the file; another one than `home` if it could not stay there.
    pub(super) spot: Arc<Spot>,
    seq: u64,
    /// The length of the file. A line that can't be written completely is cut off to this length.
    pub(super) len: u64,
    buffer: Vec<u8>,
    /// Set when an incomplete line could not be cut off.
    broken: bool,
    /// A second copy, which no other process can reach.
    pub(super) copy: Option<SecondCopy>,
    /// The end of the reserved disk space.
    reserved: u64,
    /// The times of the file's last changes before a command began ([`JournalFile::mark`]): other
    /// times show that the command has written into the file. None after the run itself has written
    /// again.
    pub(super) stamp: Option<Stamp>,
}

/// The times of the last changes of a file's content and inode, to the nanosecond.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Stamp {
    pub(super) content: (i64, i64),
    inode: (i64, i64),
}

impl Stamp {
    pub(super) fn of(file: &File) -> Option<Self> {
        let it = file.metadata().ok()?;
        Some(Self {
            content: (it.mtime(), it.mtime_nsec()),
            inode: (it.ctime(), it.ctime_nsec()),
        })
    }
}

/// The locked name of a journal: no other process writes to it. An existing file is unchanged.
#[derive(Debug)]
pub struct Claim {
    spot: Arc<Spot>,
    file: File,
    len: u64,
    is_new: bool,
}

impl Claim {
    /// Starts the journal. An existing journal is renamed to the first free of `NAME.1`, `NAME.2`,
    /// ..., so that naming the same output twice does not destroy the record of the first run.
    ///
    /// # Errors
    /// The system's error if the file can't be made.
    pub fn begin(self) -> io::Result<JournalFile> {
        if self.len == 0 {
            return Ok(JournalFile::at(self.spot, self.file, 0, 0));
        }
        let begin = || {
            let at = self.spot.at()?;
            std::fs::rename(&at, free_name(&at))?;
            options().create_new(true).open(&at)
        };
        let file = begin().map_err(|error| explain(self.spot.shown(), &error))?;
        lock(&file, self.spot.shown())?;
        Ok(JournalFile::at(self.spot, file, 0, 0))
    }

    /// Releases the name, and leaves the files as they were.
    pub fn release(self) {
        if let (true, Ok(at)) = (self.is_new, self.spot.at()) {
            let _ = std::fs::remove_file(at);
        }
    }
}

impl JournalFile {
    /// Locks the name of a journal, whose folder is made if it is missing. An existing file stays
    /// unchanged.
    ///
    /// # Errors
    /// The system's error if the file can't be made or written to; an [`io::Error`] if it is not a
    /// regular file. [`io::ErrorKind::WouldBlock`]: another process is writing to it.
    pub fn claim(path: impl Into<PathBuf>) -> io::Result<Claim> {
        let path = path.into();
        if let Some(parent) = path
            .parent()
            .filter(|parent| !parent.as_os_str().is_empty())
        {
            std::fs::create_dir_all(parent).map_err(|error| explain(&path, &error))?;
        }
        let spot = Spot::of(&path).map_err(|error| explain(&path, &error))?;
        loop {
            let at = spot.at().map_err(|error| explain(&path, &error))?;
            let is_new = std::fs::symlink_metadata(&at).is_err();
            let file = open(&spot, true)?;
            let len = still_there(&file, &spot).map_err(|error| explain(&path, &error))?;
            // None: another process has moved the file away before this one had the lock.
            if let Some(len) = len {
                return Ok(Claim {
                    spot: Arc::new(spot),
                    file,
                    len,
                    is_new,
                });
            }
        }
    }

    /// Starts a journal: [`JournalFile::claim`] and [`Claim::begin`].
    ///
    /// # Errors
    /// The errors of [`JournalFile::claim`] and [`Claim::begin`].
    pub fn create(path: impl Into<PathBuf>) -> io::Result<Self> {
        Self::claim(path)?.begin()
    }

    /// An open journal, whose last event has the number `seq`.
    pub(super) fn at(spot: Arc<Spot>, file: File, seq: u64, len: u64) -> Self {
        Self {
            home: spot.clone(),
            clock: Clock::default(),
            inner: Mutex::new(Inner {
                file,
                spot,
                seq,
                len,
                buffer: Vec::with_capacity(4096),
                broken: false,
                copy: None,
                reserved: 0,
                stamp: None,
            }),
        }
    }

    /// Sets the clock for the times of events; by default it is that of the system.
    #[must_use]
    pub fn with_clock(mut self, clock: Clock) -> Self {
        self.clock = clock;
        self
    }

    /// Keeps a second copy in memory, and on the same disk as `folder`, in a file without a name.
    #[must_use]
    pub fn with_copy(self, folder: &Path) -> Self {
        let mut inner = self.inner();
        match inner.copied(folder) {
            Ok(copy) => inner.copy = Some(copy),
            Err(error) => tracing::debug!(%error, "no second copy of the journal is kept"),
        }
        drop(inner);
        self
    }

    /// Called before a command begins, so that [`JournalFile::check`] detects writes of the command
    /// even if the length of the file stays the same.
    pub fn mark(&self) {
        let mut inner = self.inner();
        inner.stamp = Stamp::of(&inner.file);
    }

    /// The path of the file.
    pub fn path(&self) -> PathBuf {
        self.inner().spot.shown().to_owned()
    }

    /// A handle of the file, to wait for the disk while others record.
    ///
    /// # Errors
    /// The system's error if no file descriptor is free.
    pub fn handle(&self) -> io::Result<File> {
        self.inner().file.try_clone()
    }

    /// The number of bytes in the file.
    pub fn len(&self) -> u64 {
        self.inner().len
    }

    /// Whether the file has no events yet.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    pub(super) fn inner(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Journal for JournalFile {
    fn record(&self, event: &Event) -> io::Result<f64> {
        // NaN and times before 1970 become 0.
        let micros = (self.clock.now() * 1e6).round() as u64;
        let mut inner = self.inner();
        let inner = &mut *inner;
        if inner.broken {
            return Err(explain(
                inner.spot.shown(),
                &io::Error::other("an earlier write failed"),
            ));
        }
        let mut buffer = std::mem::take(&mut inner.buffer);
        encode(&mut buffer, inner.seq + 1, micros, event)?;
        let result = inner.append(&buffer);
        inner.stamp = None;
        if buffer.capacity() <= KEPT_BUFFER {
            inner.buffer = buffer;
        }
        result.map_err(|error| explain(inner.spot.shown(), &error))?;
        // As it is written.
        Ok(micros as f64 / 1e6)
    }
}

impl Inner {
    /// A copy of the file.
    fn copied(&self, folder: &Path) -> io::Result<SecondCopy> {
        let mut copy = SecondCopy::new(folder.to_owned());
        let (file, end) = (&self.file, self.len);
        let mut reader = BufReader::new(FileRangeReader { file, at: 0, end });
        loop {
            let part = reader.fill_buf()?;
            if part.is_empty() {
                return Ok(copy);
            }
            copy.add(part)?;
            let length = part.len();
            reader.consume(length);
        }
    }

    fn append(&mut self, line: &[u8]) -> io::Result<()> {
        let mut written = self.file.write_all(line);
        if written.as_ref().is_err_and(is_full)
            && self.copy.take_if(|copy| copy.is_on_disk()).is_some()
        {
            // Frees the disk space of the copy, because this file needs it.
            self.file.set_len(self.len)?;
            written = self.file.write_all(line);
        }
        if let Err(error) = written {
            // A full disk may have stored a part of the line, and the next line must not follow on
            // that part.
            self.broken = self.file.set_len(self.len).is_err();
            self.reserved = self.len;
            self.reserve();
            return Err(error);
        }
        if let Some(copy) = &mut self.copy
            && let Err(error) = copy.add(line)
        {
            tracing::debug!(%error, "no second copy of the journal is kept any more");
            self.copy = None;
        }
        self.seq += 1;
        self.len += line.len() as u64;
        self.reserve();
        Ok(())
    }

    /// Reserves disk space after the last line, if the file system can.
    fn reserve(&mut self) {
        if self.len + RESERVE / 2 > self.reserved {
            let _ = fallocate(&self.file, FallocateFlags::KEEP_SIZE, self.len, RESERVE);
            self.reserved = self.len + RESERVE;
        }
    }

    /// Replaces the file by another one with the same content.
    pub(super) fn replace(&mut self, file: File, spot: Arc<Spot>) {
        (self.file, self.spot) = (file, spot);
        self.reserved = 0;
        self.stamp = None;
    }
}

impl Drop for Inner {
    /// Frees the reserved disk space, and unlocks the file explicitly: a command that is just being
    /// started may still have the file open for a moment.
    fn drop(&mut self) {
        let _ = self.file.unlock();
        if self.reserved > 0 && self.file.metadata().is_ok_and(|it| it.len() == self.len) {
            let _ = self.file.set_len(self.len);
        }
    }
}

fn is_full(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded
    )
}

/// Makes `{"seq":1,"t":1.500000,"event":...}` and a newline in `buffer`; `micros` is the time in microseconds.
fn encode(buffer: &mut Vec<u8>, seq: u64, micros: u64, event: &Event) -> io::Result<()> {
    buffer.clear();
    let (seconds, rest) = (micros / 1_000_000, micros % 1_000_000);
    write!(buffer, "{{\"seq\":{seq},\"t\":{seconds}.{rest:06}")?;
    let at = buffer.len();
    serde_json::to_writer(&mut *buffer, event)?;
    // An event is an object that is never empty: its opening brace is replaced by a comma.
    buffer[at] = b',';
    buffer.push(b'\n');
    Ok(())
}

/// The options follow no link, and do not wait for the other end of a pipe: a repository may
/// contain either under any name.
fn options() -> OpenOptions {
    let mut options = OpenOptions::new();
    options
        .read(true)
        .append(true)
        .custom_flags(libc::O_NOFOLLOW | libc::O_NONBLOCK);
    options
}

pub(super) fn open(spot: &Spot, create: bool) -> io::Result<File> {
    let file = open_plain(spot, create).map_err(|error| explain(spot.shown(), &error))?;
    lock(&file, spot.shown())?;
    Ok(file)
}

/// The file, if it is a plain one.
pub(super) fn open_plain(spot: &Spot, create: bool) -> io::Result<File> {
    let no_file = || io::Error::other("it is no plain file; remove it, or choose another output");
    let opened = spot.at().and_then(|at| options().create(create).open(at));
    match opened {
        Err(error) if error.raw_os_error() == Some(libc::ELOOP) => Err(no_file()),
        Err(error) => Err(error),
        Ok(file) if file.metadata().is_ok_and(|it| it.is_file()) => Ok(file),
        Ok(_) => Err(no_file()),
    }
}

pub(super) fn lock(file: &File, path: &Path) -> io::Result<()> {
    match file.try_lock() {
        Err(TryLockError::WouldBlock) => Err(io::Error::new(
            io::ErrorKind::WouldBlock,
            format!(
                "another run is writing to the journal `{}`: wait for it, or choose another output",
                path.display()
            ),
        )),
        // Some network file systems have no locks. Then the run continues without the check.
        Ok(()) | Err(TryLockError::Error(_)) => Ok(()),
    }
}

/// Whether a process holds the lock of a journal, because its run continues.
#[must_use]
pub fn is_held(file: &File) -> bool {
    match file.try_lock_shared() {
        Err(TryLockError::WouldBlock) => true,
        Ok(()) => {
            // Unlocked at once, because a process may be about to continue the run.
            let _ = file.unlock();
            false
        }
        Err(TryLockError::Error(_)) => false,
    }
}

/// The length of the file, if it is still the file at `spot`.
pub(super) fn still_there(file: &File, spot: &Spot) -> io::Result<Option<u64>> {
    let ours = file.metadata()?;
    if spot.names(&ours) {
        return Ok(Some(ours.len()));
    }
    match spot.at().and_then(std::fs::symlink_metadata) {
        Ok(there) if (there.dev(), there.ino()) == (ours.dev(), ours.ino()) => Ok(Some(ours.len())),
        Ok(_) => Ok(None),
        Err(error) => match error.kind() {
            io::ErrorKind::NotFound | io::ErrorKind::NotADirectory => Ok(None),
            _ => Err(error),
        },
    }
}

/// The name to which an existing file at `path` is renamed.
pub fn free_name(path: &Path) -> PathBuf {
    let mut number: u64 = 1;
    loop {
        let mut name = path.to_owned().into_os_string();
        name.push(format!(".{number}"));
        let name = PathBuf::from(name);
        // A link that leads nowhere also occupies a name.
        if std::fs::symlink_metadata(&name).is_err() {
            return name;
        }
        number += 1;
    }
}

pub(super) fn explain(path: &Path, error: &io::Error) -> io::Error {
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

//! Writes a trajectory to its file, completely or not at all.

use std::ffi::OsString;
use std::fs::{File, OpenOptions};
use std::io::{self, BufWriter, Write};
use std::os::fd::{AsFd, AsRawFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileTypeExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use rustix::fs::OFlags;
use serde::Serialize;
use serde_json::Value;

use crate::journal::Spot;
use crate::journal::temporary;
use mswea_python::PythonJson;

/// How long to wait for a reader of a pipe.
const WAIT_FOR_READER: Duration = Duration::from_secs(2);

/// A trajectory that can't be written.
#[derive(Debug, thiserror::Error)]
#[error("can't write the trajectory `{path}`: {source}; {remedy}")]
pub struct TrajectoryError {
    /// The file.
    pub path: String,
    /// The system's error.
    pub source: io::Error,
    /// The remedy.
    pub remedy: &'static str,
}

impl TrajectoryError {
    fn new(path: &Path, source: io::Error) -> Self {
        use io::ErrorKind as Kind;
        let remedy = match source.kind() {
            Kind::IsADirectory => "name a file, not a folder",
            Kind::StorageFull | Kind::QuotaExceeded => "free some space",
            Kind::NotADirectory => "a part of its path is a file; choose another output",
            _ if source.raw_os_error() == Some(libc::ENXIO) => {
                "nothing reads there; have something read it, or name a file"
            }
            _ => "choose an output that you may write to (`-o FILE`)",
        };
        Self {
            path: path.display().to_string(),
            source,
            remedy,
        }
    }
}

/// The text of a trajectory: two spaces of indent, ASCII only, no final newline, as Python's
/// `json.dumps(value, indent=2)`.
pub fn to_string(trajectory: &Value) -> String {
    let mut out = Vec::new();
    // The keys of a `Value` are texts, and writing to memory does not fail.
    let _ = serialize(&mut out, trajectory);
    String::from_utf8(out).unwrap_or_default()
}

/// Writes a trajectory; its folder is made if it is missing. A reader sees the old file or the new
/// one, never a part.
///
/// # Errors
/// [`TrajectoryError`] with the path and the remedy, if the file can't be written.
pub fn write(path: &Path, trajectory: &Value) -> Result<(), TrajectoryError> {
    Target::of(path)?.write(trajectory)
}

/// The destination of a run's trajectory. It is determined once, before any command runs: a file
/// that a command puts there later is replaced, and never followed, opened or waited for.
#[derive(Clone, Debug)]
pub struct Target {
    /// The path as it was given, for messages.
    path: PathBuf,
    place: Place,
}

#[derive(Clone, Debug)]
enum Place {
    /// A regular file: the trajectory is written to a new file, which is renamed.
    File(Arc<ReplacedFile>),
    /// A writable file in a folder that is not writable: the trajectory is written into it.
    Same(Arc<Spot>),
    /// A device or a pipe (`/dev/null`, `/dev/stdout`), which a rename would replace. It is held by
    /// a descriptor, but not opened for writing, because opening may have to wait for a reader.
    Stream(Arc<File>),
}

/// A regular file that each trajectory replaces.
#[derive(Debug)]
struct ReplacedFile {
    spot: Arc<Spot>,
    /// The name of a new, empty file beside it, for the first trajectory.
    first: Mutex<Option<(OsString, File)>>,
}

impl Target {
    /// Determines the destination, makes its folder, and checks that a trajectory can be written.
    ///
    /// # Errors
    /// [`TrajectoryError`] if it can't be written.
    pub fn of(path: &Path) -> Result<Self, TrajectoryError> {
        let target = Self::begun(path)?;
        target.forget();
        Ok(target)
    }

    /// As [`Target::of`], for a trajectory that is written before any command runs: the file that the check has made
    /// is kept for it.
    ///
    /// # Errors
    /// The errors of [`Target::of`].
    pub fn begun(path: &Path) -> Result<Self, TrajectoryError> {
        match Place::of(path) {
            Ok(place) => Ok(Self {
                path: path.to_owned(),
                place,
            }),
            Err(error) => Err(TrajectoryError::new(path, error)),
        }
    }

    /// Removes the file that is kept for the first trajectory.
    pub fn forget(&self) {
        if let Place::File(file) = &self.place {
            file.forget_first();
        }
    }

    /// A regular file, whose folder is made when it is written.
    pub fn at(spot: Arc<Spot>) -> Self {
        Self {
            path: spot.shown().to_owned(),
            place: Place::File(ReplacedFile::new(spot, None)),
        }
    }

    /// Whether it is a device or a pipe, in which data can't be replaced by a later trajectory.
    pub fn is_stream(&self) -> bool {
        matches!(self.place, Place::Stream(_))
    }

    /// Whether a file of any kind exists there.
    pub fn is_there(&self) -> bool {
        match &self.place {
            Place::File(file) => is_there(&file.spot),
            Place::Same(spot) => is_there(spot),
            Place::Stream(_) => true,
        }
    }

    /// Whether its folder was removed, and can't be made again at the same place.
    pub fn is_lost(&self) -> bool {
        match &self.place {
            Place::File(file) => file.spot.made().is_err(),
            Place::Same(_) | Place::Stream(_) => false,
        }
    }

    /// The real path of the file, if its given path does not lead there any more because a command
    /// has moved a folder.
    pub fn strayed(&self) -> Option<PathBuf> {
        match &self.place {
            Place::File(file) => file.spot.strayed(),
            Place::Same(spot) => spot.strayed(),
            Place::Stream(_) => None,
        }
    }

    /// Writes a trajectory.
    ///
    /// # Errors
    /// The errors of [`write()`].
    pub fn write(&self, trajectory: &Value) -> Result<(), TrajectoryError> {
        let written = match &self.place {
            Place::File(file) => file.replace(trajectory),
            Place::Same(file) => {
                open_file(file).and_then(|file| file.set_len(0).and(serialize(&file, trajectory)))
            }
            Place::Stream(held) => open_stream(held).and_then(|file| serialize(&file, trajectory)),
        };
        written.map_err(|error| TrajectoryError::new(&self.path, error))
    }
}

impl Place {
    fn of(path: &Path) -> io::Result<Self> {
        if path.as_os_str().as_bytes().ends_with(b"/") || path.file_name().is_none() {
            return Err(io::ErrorKind::IsADirectory.into());
        }
        // The type is that of the given path: `/dev/stdout` may lead to `pipe:[123]`, which is not
        // a path.
        let there = match std::fs::metadata(path) {
            Ok(there) => Some(there),
            Err(error) if error.kind() == io::ErrorKind::NotFound => None,
            Err(error) => return Err(error),
        };
        // In these folders, no file is made or replaced, even if a name there leads to a regular
        // file: `/dev/stdout` may be a regular file that another process has as its stdout.
        let is_device = ["/dev", "/proc"].iter().any(|it| path.starts_with(it));
        match there {
            Some(there) if there.is_dir() => Err(io::ErrorKind::IsADirectory.into()),
            there if is_device || there.as_ref().is_some_and(|it| !it.is_file()) => {
                let held = OpenOptions::new()
                    .read(true)
                    .custom_flags(libc::O_PATH)
                    .open(path)?;
                // The other end of a pipe may be opened later.
                if !there.is_some_and(|it| it.file_type().is_fifo()) {
                    open_stream(&held)?;
                }
                Ok(Self::Stream(Arc::new(held)))
            }
            Some(_) => {
                // A symbolic link is kept, and its target is replaced.
                let spot = if std::fs::symlink_metadata(path)?.is_symlink() {
                    Arc::new(Spot::of(&std::fs::canonicalize(path)?)?)
                } else {
                    Arc::new(Spot::of(path)?)
                };
                match temporary(&spot.at()?) {
                    Ok(new) => Ok(Self::File(ReplacedFile::new(spot, Some(new)))),
                    Err(_) => open_file(&spot).map(|_| Self::Same(spot)),
                }
            }
            None => {
                let folder = match path.parent() {
                    Some(parent) if !parent.as_os_str().is_empty() => parent,
                    _ => Path::new("."),
                };
                std::fs::create_dir_all(folder)?;
                let spot = Arc::new(Spot::of(path)?);
                let new = temporary(&spot.at()?)?;
                Ok(Self::File(ReplacedFile::new(spot, Some(new))))
            }
        }
    }
}

impl ReplacedFile {
    fn new(spot: Arc<Spot>, first: Option<(PathBuf, File)>) -> Arc<Self> {
        let first =
            first.map(|(path, file)| (path.file_name().unwrap_or_default().to_owned(), file));
        Arc::new(Self {
            spot,
            first: Mutex::new(first),
        })
    }

    /// The new file for the first trajectory, if it is still there and empty.
    fn take_first(&self, at: &Path) -> Option<(PathBuf, File)> {
        let mut first = self.first.lock().unwrap_or_else(PoisonError::into_inner);
        let (name, file) = first.take()?;
        let path = at.with_file_name(name);
        let is_empty = file.metadata().is_ok_and(|it| it.len() == 0);
        (is_empty && is_at(&file, &path)).then_some((path, file))
    }

    fn forget_first(&self) {
        if let Ok(at) = self.spot.at()
            && let Some((path, _)) = self.take_first(&at)
        {
            let _ = std::fs::remove_file(path);
        }
    }

    fn replace(&self, trajectory: &Value) -> io::Result<()> {
        // A command may have removed the folder.
        let at = self.spot.made()?;
        let (path, file) = match self.take_first(&at) {
            Some(first) => first,
            None => temporary(&at)?,
        };
        let written = serialize(&file, trajectory).and_then(|()| match is_at(&file, &path) {
            true => std::fs::rename(&path, &at),
            // A host that is refused for the same output makes a file of this name and removes it.
            false => {
                let (path, file) = temporary(&at)?;
                serialize(&file, trajectory)?;
                std::fs::rename(&path, &at)
            }
        });
        if written.is_err() {
            let _ = std::fs::remove_file(&path);
        }
        written
    }
}

/// Whether the path leads to this file.
fn is_at(file: &File, path: &Path) -> bool {
    let id = |it: std::fs::Metadata| (it.dev(), it.ino());
    let there = std::fs::symlink_metadata(path).map(id);
    there.is_ok_and(|there| file.metadata().is_ok_and(|ours| id(ours) == there))
}

impl Drop for ReplacedFile {
    fn drop(&mut self) {
        self.forget_first();
    }
}

fn is_there(spot: &Spot) -> bool {
    spot.at().and_then(std::fs::symlink_metadata).is_ok()
}

/// Opens a file that was a regular one, if it still is one.
fn open_file(file: &Spot) -> io::Result<File> {
    let opened = OpenOptions::new()
        .write(true)
        .custom_flags(libc::O_NOFOLLOW | libc::O_NONBLOCK)
        .open(file.at()?)?;
    if opened.metadata()?.is_file() {
        Ok(opened)
    } else {
        Err(io::Error::other("it is no plain file any more"))
    }
}

/// Opens a device or a pipe, with a limited wait for its reader.
fn open_stream(held: &File) -> io::Result<File> {
    let path = format!("/proc/self/fd/{}", held.as_raw_fd());
    let end = Instant::now() + WAIT_FOR_READER;
    loop {
        // Stdout may be a file with content, which must not be truncated.
        let opened = OpenOptions::new()
            .append(true)
            .custom_flags(libc::O_NONBLOCK | libc::O_NOCTTY)
            .open(&path);
        match opened {
            Err(error) if error.raw_os_error() == Some(libc::ENXIO) && Instant::now() < end => {
                thread::sleep(Duration::from_millis(20));
            }
            Err(error) => return Err(error),
            Ok(file) => {
                let flags = rustix::fs::fcntl_getfl(file.as_fd())?;
                rustix::fs::fcntl_setfl(file.as_fd(), flags - OFlags::NONBLOCK)?;
                return Ok(file);
            }
        }
    }
}

fn serialize(out: impl Write, trajectory: &Value) -> io::Result<()> {
    let mut out = BufWriter::with_capacity(64 << 10, out);
    let mut serializer = serde_json::Serializer::with_formatter(&mut out, PythonJson::default());
    trajectory.serialize(&mut serializer)?;
    out.flush()
}

#[cfg(test)]
mod tests;

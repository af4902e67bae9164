//! Puts a trajectory into its file, whole or not at all.

use std::fs::{File, OpenOptions};
use std::io::{self, BufWriter, Write};
use std::os::fd::{AsFd, AsRawFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileTypeExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use rustix::fs::OFlags;
use serde::Serialize;
use serde_json::Value;

use crate::journal::Spot;
use crate::journal::keep::temporary;
use mswea_template::python::PythonJson;

/// How long a pipe that nobody reads yet is waited for.
const WAIT_FOR_READER: Duration = Duration::from_secs(2);

/// A trajectory that can't be written.
#[derive(Debug, thiserror::Error)]
#[error("can't write the trajectory `{path}`: {source}; {remedy}")]
pub struct TrajectoryError {
    /// The file.
    pub path: String,
    /// Why.
    pub source: io::Error,
    /// What to do.
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
    // a `Value` has texts for keys, and memory takes every byte
    let _ = serialize(&mut out, trajectory);
    String::from_utf8(out).unwrap_or_default()
}

/// Writes a trajectory; its folder is made. A reader sees the old file or the new one, never
/// a part.
///
/// # Errors
/// When the file can't be written; names it and the remedy.
pub fn write(path: &Path, trajectory: &Value) -> Result<(), TrajectoryError> {
    Target::of(path)?.write(trajectory)
}

/// Where trajectories of a run go. It is decided once, before any command runs: what a command
/// puts in this place later is replaced, and never followed, opened or waited for.
#[derive(Clone, Debug)]
pub struct Target {
    /// As it was named, for messages.
    path: PathBuf,
    place: Place,
}

#[derive(Clone, Debug)]
enum Place {
    /// A new file beside the old one, then a rename.
    File(Arc<Spot>),
    /// A file that may be written in a folder that may not.
    Same(Arc<Spot>),
    /// A device or a pipe (`/dev/null`, `/dev/stdout`): a rename would destroy it. It is held, but
    /// not opened for writing: that may have to wait for a reader.
    Stream(Arc<File>),
}

impl Target {
    /// Looks at what is there, makes the folder, and tries whether a trajectory could be written.
    ///
    /// # Errors
    /// When it could not.
    pub fn of(path: &Path) -> Result<Self, TrajectoryError> {
        match Place::of(path) {
            Ok(place) => Ok(Self {
                path: path.to_owned(),
                place,
            }),
            Err(error) => Err(TrajectoryError::new(path, error)),
        }
    }

    /// A plain file, whose folder is made when it is written.
    pub fn at(spot: Arc<Spot>) -> Self {
        Self {
            path: spot.shown().to_owned(),
            place: Place::File(spot),
        }
    }

    /// Whether it is a device or a pipe: what went in there can't be replaced by something newer.
    pub fn is_stream(&self) -> bool {
        matches!(self.place, Place::Stream(_))
    }

    /// Whether anything is in its place.
    pub fn is_there(&self) -> bool {
        match &self.place {
            Place::File(spot) | Place::Same(spot) => {
                spot.at().and_then(std::fs::symlink_metadata).is_ok()
            }
            Place::Stream(_) => true,
        }
    }

    /// Whether its folder is gone, and can't be made again where it was.
    pub fn is_lost(&self) -> bool {
        match &self.place {
            Place::File(spot) => spot.made().is_err(),
            Place::Same(_) | Place::Stream(_) => false,
        }
    }

    /// Where the file really is, if its path does not lead there any more: a command has moved a
    /// folder.
    pub fn strayed(&self) -> Option<PathBuf> {
        match &self.place {
            Place::File(spot) | Place::Same(spot) => spot.strayed(),
            Place::Stream(_) => None,
        }
    }

    /// Writes a trajectory.
    ///
    /// # Errors
    /// As [`write()`].
    pub fn write(&self, trajectory: &Value) -> Result<(), TrajectoryError> {
        let written = match &self.place {
            Place::File(file) => replace(file, trajectory),
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
        // Asked of the name itself: `/dev/stdout` may lead to `pipe:[123]`, which is no path.
        let there = match std::fs::metadata(path) {
            Ok(there) => Some(there),
            Err(error) if error.kind() == io::ErrorKind::NotFound => None,
            Err(error) => return Err(error),
        };
        // Nothing is made or replaced in these folders, whatever a name in there leads to:
        // `/dev/stdout` may be a plain file, and that one is somebody's stdout.
        let is_device = ["/dev", "/proc"].iter().any(|it| path.starts_with(it));
        match there {
            Some(there) if there.is_dir() => Err(io::ErrorKind::IsADirectory.into()),
            there if is_device || there.as_ref().is_some_and(|it| !it.is_file()) => {
                let held = OpenOptions::new()
                    .read(true)
                    .custom_flags(libc::O_PATH)
                    .open(path)?;
                // The other end of a pipe may come later.
                if !there.is_some_and(|it| it.file_type().is_fifo()) {
                    open_stream(&held)?;
                }
                Ok(Self::Stream(Arc::new(held)))
            }
            Some(_) => {
                // Through symbolic links: the link stays, what it points to is replaced.
                let spot = if std::fs::symlink_metadata(path)?.is_symlink() {
                    Arc::new(Spot::of(&std::fs::canonicalize(path)?)?)
                } else {
                    Arc::new(Spot::of(path)?)
                };
                match temporary(&spot.at()?) {
                    Ok(new) => {
                        remove(&new);
                        Ok(Self::File(spot))
                    }
                    Err(_) => open_file(&spot).map(|_| Self::Same(spot)),
                }
            }
            None => {
                let folder = match path.parent() {
                    Some(parent) if !parent.as_os_str().is_empty() => parent,
                    _ => Path::new("."),
                };
                std::fs::create_dir_all(folder)?;
                let spot = Spot::of(path)?;
                remove(&temporary(&spot.at()?)?);
                Ok(Self::File(Arc::new(spot)))
            }
        }
    }
}

fn remove(temporary: &(PathBuf, File)) {
    let _ = std::fs::remove_file(&temporary.0);
}

fn replace(file: &Spot, trajectory: &Value) -> io::Result<()> {
    // A command may have removed the folder.
    let at = file.made()?;
    let new = temporary(&at)?;
    let written = serialize(&new.1, trajectory).and_then(|()| std::fs::rename(&new.0, &at));
    if written.is_err() {
        remove(&new);
    }
    written
}

/// Opens what was a plain file, if it still is one.
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

/// Opens a device or a pipe, without waiting for ever for who is to read it.
fn open_stream(held: &File) -> io::Result<File> {
    let path = format!("/proc/self/fd/{}", held.as_raw_fd());
    let end = Instant::now() + WAIT_FOR_READER;
    loop {
        // Stdout may be a file with something in it: nothing is cut off.
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

//! Puts a trajectory into its file, whole or not at all.

use std::io::{self, BufWriter, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use serde::Serialize;
use serde_json::Value;

use crate::template::python::PythonJson;

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
    let write = || -> io::Result<()> {
        match Target::of(path)? {
            Target::Replace { folder, file } => {
                let mut new = temporary(&folder)?;
                serialize(new.as_file_mut(), trajectory)?;
                new.persist(file).map_err(|error| error.error)?;
            }
            Target::Overwrite(file) => {
                let file = std::fs::OpenOptions::new()
                    .write(true)
                    .truncate(true)
                    .open(file)?;
                serialize(&file, trajectory)?;
            }
        }
        Ok(())
    };
    write().map_err(|error| TrajectoryError::new(path, error))
}

/// Finds out before a run whether its trajectory could be written.
///
/// # Errors
/// As [`write()`].
pub fn check_writable(path: &Path) -> Result<(), TrajectoryError> {
    let check = || -> io::Result<()> {
        match Target::of(path)? {
            Target::Replace { folder, .. } => temporary(&folder).map(drop),
            Target::Overwrite(file) => std::fs::OpenOptions::new()
                .append(true)
                .open(file)
                .map(drop),
        }
    };
    check().map_err(|error| TrajectoryError::new(path, error))
}

enum Target {
    /// A new file beside the old one, then a rename.
    Replace { folder: PathBuf, file: PathBuf },
    /// A device or a pipe (`/dev/null`, `/dev/stdout`): a rename would destroy it. Or a file
    /// that may be written in a folder that may not.
    Overwrite(PathBuf),
}

impl Target {
    fn of(path: &Path) -> io::Result<Self> {
        // through symbolic links: the link stays, what it points to is replaced
        let file = match std::fs::canonicalize(path) {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound => path.to_owned(),
            Err(error) => return Err(error),
        };
        let folder = match file.parent() {
            Some(parent) if !parent.as_os_str().is_empty() => parent.to_owned(),
            _ => PathBuf::from("."),
        };
        match std::fs::metadata(&file) {
            Ok(metadata) if metadata.is_dir() => Err(io::ErrorKind::IsADirectory.into()),
            Ok(metadata) if !metadata.is_file() => Ok(Self::Overwrite(file)),
            Ok(_) if temporary(&folder).is_err() => Ok(Self::Overwrite(file)),
            Ok(_) => Ok(Self::Replace { folder, file }),
            Err(_) => {
                std::fs::create_dir_all(&folder)?;
                Ok(Self::Replace { folder, file })
            }
        }
    }
}

/// An unnamed-to-be file with the permissions of any other file: the process's umask, not the
/// owner-only ones of temporary files.
fn temporary(folder: &Path) -> io::Result<tempfile::NamedTempFile> {
    tempfile::Builder::new()
        .prefix(".traj-")
        .suffix(".tmp")
        .permissions(std::fs::Permissions::from_mode(0o666))
        .tempfile_in(folder)
}

fn serialize(out: impl Write, trajectory: &Value) -> io::Result<()> {
    let mut out = BufWriter::with_capacity(64 << 10, out);
    let mut serializer = serde_json::Serializer::with_formatter(&mut out, PythonJson::new());
    trajectory.serialize(&mut serializer)?;
    out.flush()
}

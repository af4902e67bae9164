//! Reads regular files, and replaces them as a whole: a reader sees the old content or the new one,
//! and a file keeps its mode and its owner.

use std::fs::{self, File, OpenOptions};
use std::io::{self, ErrorKind, Read as _, Write as _};
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _, PermissionsExt as _, fchown};
use std::path::{Path, PathBuf};

use crate::answer::{Readable, ToolRefusal};
use crate::unfinished;

/// The largest file that is edited or searched.
pub const LARGEST: u64 = 512 * 1024 * 1024;

/// The number of bytes at the beginning of a file in which a zero byte means a binary file, as in
/// git.
const LOOKED_AT: usize = 8000;

/// The reason why a file is not read or written.
#[derive(Debug)]
pub enum FileTrouble {
    Missing,
    Folder,
    Irregular,
    Denied,
    Large,
    Binary,
    Other(io::Error),
}

impl FileTrouble {
    /// The refusal for the file at `path`, for the model.
    pub fn about(&self, path: &Path) -> ToolRefusal {
        let path = path.display();
        ToolRefusal::one(match self {
            Self::Missing => format!("Error: File {path} not found"),
            Self::Folder => {
                format!(
                    "Error: {path} is a directory. Only files can be opened: look into it with `ls`."
                )
            }
            Self::Irregular => format!("Error: {path} is not a regular file"),
            Self::Denied => format!("Error: There is no permission to read or write {path}"),
            Self::Large => format!(
                "Error: {path} is larger than {} MiB, which is too large for this tool",
                LARGEST >> 20
            ),
            Self::Binary => format!(
                "Error: {path} is not a text file: it contains zero bytes. Look at it with `xxd` or `od`."
            ),
            Self::Other(error) => format!("Error: {path}: {error}"),
        })
    }
}

impl From<io::Error> for FileTrouble {
    fn from(error: io::Error) -> Self {
        match error.kind() {
            ErrorKind::NotFound | ErrorKind::NotADirectory => Self::Missing,
            ErrorKind::IsADirectory => Self::Folder,
            ErrorKind::PermissionDenied | ErrorKind::ReadOnlyFilesystem => Self::Denied,
            _ => Self::Other(error),
        }
    }
}

/// Opens a regular file for reading. A link is followed.
pub fn open(path: &Path) -> Result<(File, u64), FileTrouble> {
    // Before the file is opened: opening a pipe blocks until its other end is opened.
    let kind = fs::metadata(path)?;
    if kind.is_dir() {
        return Err(FileTrouble::Folder);
    }
    if !kind.is_file() {
        return Err(FileTrouble::Irregular);
    }
    Ok((File::open(path)?, kind.len()))
}

/// Reads a whole file.
pub fn bytes(path: &Path) -> Result<Vec<u8>, FileTrouble> {
    read(path, false)
}

/// Reads a whole text file, of any encoding that has no zero bytes.
pub fn text(path: &Path) -> Result<Vec<u8>, FileTrouble> {
    read(path, true)
}

fn read(path: &Path, only_text: bool) -> Result<Vec<u8>, FileTrouble> {
    let (mut file, size) = open(path)?;
    if size > LARGEST {
        return Err(FileTrouble::Large);
    }
    let mut content = Vec::with_capacity(size as usize);
    if only_text {
        // The rest of a large binary file is not read.
        (&mut file)
            .take(LOOKED_AT as u64)
            .read_to_end(&mut content)?;
        if is_binary(&content) {
            return Err(FileTrouble::Binary);
        }
    }
    // A file can grow while it is read, and some files of `/proc` report no size.
    file.take(LARGEST + 1).read_to_end(&mut content)?;
    if content.len() as u64 > LARGEST {
        return Err(FileTrouble::Large);
    }
    Ok(content)
}

/// Whether the beginning of a file is that of a binary one.
pub fn is_binary(beginning: &[u8]) -> bool {
    memchr::memchr(0, &beginning[..beginning.len().min(LOOKED_AT)]).is_some()
}

/// The new content of a file, which has not replaced the file yet. If dropped, it is removed.
pub struct NewContent {
    target: PathBuf,
    path: PathBuf,
    /// Whether moving the new file to the target preserves the target's mode, owner and hard links.
    movable: bool,
    done: bool,
}

impl NewContent {
    /// Writes `content` to a file beside `path`, or beside its target if it is a link; the new name
    /// has the same extension. If that folder can't be written, the content goes to the folder for
    /// temporary files.
    pub fn write(path: &Path, content: &[u8]) -> Result<Self, FileTrouble> {
        // A link to a file that does not exist yet is followed, too.
        let target = fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
        let old = fs::metadata(&target).ok();
        if let Some(old) = &old {
            if old.is_dir() {
                return Err(FileTrouble::Folder);
            }
            if !old.is_file() {
                return Err(FileTrouble::Irregular);
            }
            // A file without write permission is refused, even if its folder is writable.
            OpenOptions::new().append(true).open(&target)?;
        }
        let name = target.file_name().unwrap_or_default().to_string_lossy();
        let (stem, extension) = match name.rsplit_once('.') {
            Some((stem, extension)) if !stem.is_empty() => (stem, format!(".{extension}")),
            _ => (&*name, String::new()),
        };
        let stem: String = stem.chars().take(40).collect();
        let name = format!(".{stem}.mswea-{}{extension}", std::process::id());
        let folder = target.parent().unwrap_or(Path::new("/")).to_owned();
        let mut movable = old.as_ref().is_none_or(|old| old.nlink() == 1);
        unfinished::begin(&folder.join(&name));
        let (file, path) = match create(&folder.join(&name)) {
            Ok(file) => (file, folder.join(&name)),
            Err(_) if old.is_some() => {
                movable = false;
                let path = std::env::temp_dir().join(&name);
                unfinished::begin(&path);
                (create(&path)?, path)
            }
            Err(error) => return Err(error.into()),
        };
        let mut candidate = Self {
            target,
            path,
            movable,
            done: false,
        };
        (&file).write_all(content)?;
        if let Some(old) = old {
            // Only root may change the owner. A file that belongs to the own user and group needs
            // no change.
            let own = file.metadata()?;
            if (own.uid(), own.gid()) != (old.uid(), old.gid())
                && fchown(&file, Some(old.uid()), Some(old.gid())).is_err()
            {
                candidate.movable = false;
            }
            file.set_permissions(fs::Permissions::from_mode(old.mode() & 0o7777))?;
        }
        Ok(candidate)
    }

    /// The file with the new content.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Replaces the target by the new content.
    pub fn keep(mut self) -> Result<(), FileTrouble> {
        if self.movable && fs::rename(&self.path, &self.target).is_ok() {
            self.done = true;
            return Ok(());
        }
        let content = fs::read(&self.path)?;
        let file = OpenOptions::new()
            .write(true)
            .truncate(true)
            .open(&self.target);
        file?.write_all(&content)?;
        Ok(())
    }
}

impl Drop for NewContent {
    fn drop(&mut self) {
        if !self.done {
            let _ = fs::remove_file(&self.path);
        }
        unfinished::end();
    }
}

fn create(path: &Path) -> io::Result<File> {
    // A call with the same process id may have been killed and left this file.
    let _ = fs::remove_file(path);
    let mut options = OpenOptions::new();
    options.write(true).create_new(true).mode(0o666).open(path)
}

/// Replaces or creates a file.
pub fn replace(path: &Path, content: &[u8]) -> Result<(), FileTrouble> {
    NewContent::write(path, content)?.keep()
}

/// Parses a number in a text by a person or a model.
pub fn number(text: &[u8]) -> Option<i64> {
    let text = std::str::from_utf8(text).ok()?.trim();
    text.parse().ok()
}

/// The beginning of a text for a message, at most `most` characters.
pub fn short(text: &[u8], most: usize) -> String {
    let text = Readable(text).to_string();
    match text.char_indices().nth(most) {
        Some((end, _)) => format!("{}...", &text[..end]),
        None => text,
    }
}

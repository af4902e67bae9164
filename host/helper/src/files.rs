//! Files by their paths: reads, writes and lists them, and makes folders.
//!
//! Only regular files are opened: a pipe or a device may never answer, and reading can change it.
//! [`PlaceFiles::below`] and [`PlaceFiles::in_image`] reach no file outside of their folder,
//! despite `..` and links, even if commands change them at the same time: the kernel resolves the
//! path (`openat2`). With a kernel before 5.6, or a filter that does not know the call, no link is
//! followed at all.

use std::ffi::OsString;
use std::fs::File;
use std::io;
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStringExt as _;
use std::path::{Component, Path};

use rustix::fs::{
    AtFlags, CWD, Dir, FileType, Mode, OFlags, ResolveFlags, fstat, ftruncate, mkdirat, openat,
    openat2, statat,
};
use rustix::io::Errno;

/// How often resolving a path is repeated, because folders were moved meanwhile.
const TRIES: u32 = 100;

/// The flags for opening a folder only to reach files in it.
const FOLDER: OFlags = OFlags::PATH.union(OFlags::DIRECTORY);

/// Files by their paths, perhaps bounded by a folder.
#[derive(Debug)]
pub struct PlaceFiles(Option<BoundingFolder>);

/// The folder that bounds paths, and how it does so.
#[derive(Debug)]
struct BoundingFolder {
    folder: OwnedFd,
    bounds: ResolveFlags,
}

/// The kind of file at a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum FileKind {
    /// A regular file.
    File,
    /// A folder.
    Folder,
    /// A symbolic link.
    Link,
    /// A pipe, a socket or a device.
    Other,
}

/// The properties of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FileFacts {
    /// Its kind.
    pub kind: FileKind,
    /// Its length in bytes.
    pub size: u64,
    /// Its permissions.
    pub mode: u32,
    /// When it was last written to, in seconds since 1970.
    pub modified: i64,
}

impl FileKind {
    fn of(kind: FileType) -> Self {
        match kind {
            FileType::RegularFile => Self::File,
            FileType::Directory => Self::Folder,
            FileType::Symlink => Self::Link,
            _ => Self::Other,
        }
    }

    /// The kind's letter in the output of the helper.
    pub fn letter(self) -> char {
        match self {
            Self::File => 'f',
            Self::Folder => 'd',
            Self::Link => 'l',
            Self::Other => 'o',
        }
    }

    /// The kind with this letter.
    pub fn of_letter(letter: &str) -> Option<Self> {
        let all = [Self::File, Self::Folder, Self::Link, Self::Other];
        all.into_iter()
            .find(|kind| letter.chars().eq([kind.letter()]))
    }
}

impl PlaceFiles {
    /// All files of this machine that this process can reach.
    pub fn all() -> Self {
        Self(None)
    }

    /// The files below `folder`, which may itself be a link. Paths are relative to it, even if they
    /// begin with `/`.
    ///
    /// # Errors
    /// The system's error if there is no such folder.
    pub fn below(folder: &Path) -> io::Result<Self> {
        Self::bounded(folder, ResolveFlags::BENEATH)
    }

    /// The files of an image whose root is `folder`. As [`Self::below`], but links and `..` are
    /// resolved inside the image: a link to `/run` leads to that folder of the image.
    ///
    /// # Errors
    /// The system's error if there is no such folder.
    pub fn in_image(folder: &Path) -> io::Result<Self> {
        Self::bounded(folder, ResolveFlags::IN_ROOT)
    }

    fn bounded(folder: &Path, bounds: ResolveFlags) -> io::Result<Self> {
        let folder = openat(CWD, folder, FOLDER | OFlags::CLOEXEC, Mode::empty())?;
        let bounds = bounds | ResolveFlags::NO_MAGICLINKS;
        Ok(Self(Some(BoundingFolder { folder, bounds })))
    }

    /// Whether there are files outside that it does not reach.
    pub fn is_bounded(&self) -> bool {
        self.0.is_some()
    }

    fn open(&self, path: &Path, flags: OFlags) -> io::Result<OwnedFd> {
        let flags = flags | OFlags::CLOEXEC;
        let mode = match flags.contains(OFlags::CREATE) {
            true => Mode::from_raw_mode(0o666),
            false => Mode::empty(),
        };
        let Some(BoundingFolder { folder, bounds }) = &self.0 else {
            let path = if path.as_os_str().is_empty() {
                Path::new(".")
            } else {
                path
            };
            return Ok(openat(CWD, path, flags, mode)?);
        };
        let path = path.strip_prefix("/").unwrap_or(path);
        let path = Path::new(".").join(path);
        for _ in 0..TRIES {
            match openat2(folder, &path, flags, mode, *bounds) {
                Err(Errno::AGAIN | Errno::INTR) => {}
                Err(Errno::NOSYS | Errno::PERM) => {
                    return Ok(by_parts(folder.as_fd(), &path, flags, mode)?);
                }
                opened => return Ok(opened?),
            }
        }
        Err(Errno::AGAIN.into())
    }

    /// Opens a regular file.
    ///
    /// # Errors
    /// An [`io::Error`] if the file is missing, can't be read, or is not a regular file.
    pub fn read(&self, path: &Path) -> io::Result<File> {
        regular(self.open(path, OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY)?)
    }

    /// Makes an empty regular file, or empties it.
    ///
    /// # Errors
    /// An [`io::Error`] if the file can't be made, or its name belongs to something that is not a
    /// regular file.
    pub fn create(&self, path: &Path) -> io::Result<File> {
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::NONBLOCK | OFlags::NOCTTY;
        let file = regular(self.open(path, flags)?)?;
        ftruncate(&file, 0)?;
        Ok(file)
    }

    /// Opens a folder, to read its entries.
    ///
    /// # Errors
    /// The system's error if there is no such folder, or it can't be read.
    pub fn folder(&self, path: &Path) -> io::Result<OwnedFd> {
        self.open(path, OFlags::RDONLY | OFlags::DIRECTORY)
    }

    /// Makes a folder and the folders around it, as far as they are missing.
    ///
    /// # Errors
    /// An [`io::Error`] if a folder can't be made, or its name belongs to something that is not a
    /// folder.
    pub fn make_folder(&self, path: &Path) -> io::Result<()> {
        self.made(path).map(drop)
    }

    fn made(&self, path: &Path) -> io::Result<OwnedFd> {
        let (parent, name) = match self.open(path, FOLDER) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                match (path.parent(), path.file_name()) {
                    (Some(parent), Some(name)) => (parent, name),
                    _ => return Err(error),
                }
            }
            opened => return opened,
        };
        let parent = self.made(parent)?;
        match mkdirat(&parent, name, Mode::from_raw_mode(0o777)) {
            Err(error) if error != Errno::EXIST => return Err(error.into()),
            _ => {}
        }
        // A link that leads nowhere does not count as a folder.
        let flags = FOLDER | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        Ok(openat(&parent, name, flags, Mode::empty())?)
    }

    /// The properties of the file at a path; links are followed.
    ///
    /// # Errors
    /// The system's error if there is no file, or it can't be reached.
    pub fn facts(&self, path: &Path) -> io::Result<FileFacts> {
        facts(self.open(path, OFlags::PATH)?.as_fd())
    }

    /// The entries of a folder, sorted by name. Links are not followed.
    ///
    /// # Errors
    /// The system's error if there is no such folder, or it can't be read.
    pub fn list(&self, path: &Path) -> io::Result<Vec<(OsString, FileKind)>> {
        let folder = self.folder(path)?;
        let mut found = Vec::new();
        for entry in Dir::read_from(&folder)? {
            let entry = entry?;
            let name = entry.file_name();
            if matches!(name.to_bytes(), b"." | b"..") {
                continue;
            }
            let kind = match entry.file_type() {
                FileType::Unknown => match statat(&folder, name, AtFlags::SYMLINK_NOFOLLOW) {
                    Ok(stat) => FileType::from_raw_mode(stat.st_mode),
                    // The entry was removed meanwhile.
                    Err(_) => continue,
                },
                kind => kind,
            };
            let name = OsString::from_vec(name.to_bytes().to_vec());
            found.push((name, FileKind::of(kind)));
        }
        found.sort();
        Ok(found)
    }
}

/// The properties of an open file.
///
/// # Errors
/// The system's error if `fstat` fails.
pub fn facts(file: BorrowedFd<'_>) -> io::Result<FileFacts> {
    let stat = fstat(file)?;
    Ok(FileFacts {
        kind: FileKind::of(FileType::from_raw_mode(stat.st_mode)),
        size: stat.st_size.cast_unsigned(),
        mode: stat.st_mode & 0o7777,
        modified: stat.st_mtime,
    })
}

/// Resolves a path without following links.
fn by_parts(
    root: BorrowedFd<'_>,
    path: &Path,
    flags: OFlags,
    mode: Mode,
) -> Result<OwnedFd, Errno> {
    let mut parts = path.components().peekable();
    let mut folder = openat(root, ".", FOLDER | OFlags::CLOEXEC, Mode::empty())?;
    while let Some(part) = parts.next() {
        let Component::Normal(name) = part else {
            match part {
                Component::CurDir => continue,
                _ => return Err(Errno::XDEV),
            }
        };
        if parts.peek().is_none() {
            return openat(&folder, name, flags | OFlags::NOFOLLOW, mode);
        }
        let flags = FOLDER | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        folder = openat(&folder, name, flags, Mode::empty())?;
    }
    openat(&folder, ".", flags, mode)
}

/// Returns an open file if it is a regular one.
///
/// # Errors
/// An [`io::Error`] if it is a folder, a pipe, or another kind of file.
pub fn regular(file: OwnedFd) -> io::Result<File> {
    match facts(file.as_fd())?.kind {
        FileKind::File => Ok(File::from(file)),
        FileKind::Folder => Err(Errno::ISDIR.into()),
        _ => Err(io::Error::new(
            io::ErrorKind::InvalidInput,
            "it is no regular file, but a pipe, a socket or a device",
        )),
    }
}

#[cfg(test)]
mod tests;

//! A file name in a folder that is held open. The commands of a run may move the folder away and
//! put a link in its place. The host still writes to the original folder, and never through that
//! link.

use std::ffi::{OsStr, OsString};
use std::fs::{File, Metadata, OpenOptions};
use std::io;
use std::ops::Deref;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Component, Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use rustix::fs::{AtFlags, Mode, OFlags, mkdirat, openat, statat};

/// A file name in a folder that is held open.
#[derive(Debug)]
pub struct Spot {
    /// The path as it was given, for messages.
    shown: PathBuf,
    /// The folder's path without links at the start.
    folder: PathBuf,
    name: OsString,
    held: Mutex<Option<Arc<File>>>,
}

/// A path to a [`Spot`] that is valid as long as this value exists.
#[derive(Debug)]
pub struct At {
    path: PathBuf,
    _folder: Arc<File>,
}

impl Deref for At {
    type Target = Path;

    fn deref(&self) -> &Path {
        &self.path
    }
}

impl AsRef<Path> for At {
    fn as_ref(&self) -> &Path {
        &self.path
    }
}

impl Spot {
    /// Opens the folder of `path`, also through links.
    ///
    /// # Errors
    /// The system's error if the folder can't be opened.
    pub fn of(path: &Path) -> io::Result<Self> {
        let folder = std::fs::canonicalize(parent(path))?;
        let held = OpenOptions::new()
            .read(true)
            .custom_flags(libc::O_PATH | libc::O_DIRECTORY)
            .open(&folder)?;
        Ok(Self {
            held: Mutex::new(Some(Arc::new(held))),
            ..Self::new(path, folder)
        })
    }

    /// A name in a folder that is made when it is needed. Links that are put into its path later
    /// are not followed.
    pub fn later(path: &Path) -> Self {
        let absolute = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
        let folder = parent(&absolute);
        let real = folder.ancestors().find_map(|there| {
            let rest = folder.strip_prefix(there).ok()?;
            Some(std::fs::canonicalize(there).ok()?.join(rest))
        });
        Self::new(path, real.unwrap_or_else(|| folder.to_owned()))
    }

    fn new(path: &Path, folder: PathBuf) -> Self {
        Self {
            shown: path.to_owned(),
            folder,
            name: path.file_name().unwrap_or_default().to_owned(),
            held: Mutex::default(),
        }
    }

    /// The path as it was given.
    pub fn shown(&self) -> &Path {
        &self.shown
    }

    /// The path to use. If the folder was removed, it is a path in the folder that has its path
    /// now.
    ///
    /// # Errors
    /// [`io::ErrorKind::NotFound`] or [`io::ErrorKind::NotADirectory`] if there is no such folder.
    pub fn at(&self) -> io::Result<At> {
        self.reach(false)
    }

    /// The path to use, in a folder that is made if it is missing.
    ///
    /// # Errors
    /// The system's error if the folder can't be made, for example because a link has its place.
    pub fn made(&self) -> io::Result<At> {
        self.reach(true)
    }

    fn reach(&self, make: bool) -> io::Result<At> {
        let mut held = self.held.lock().unwrap_or_else(PoisonError::into_inner);
        let folder = match &*held {
            Some(folder) if !is_removed(folder) => folder.clone(),
            _ => {
                let folder = Arc::new(walk(&self.folder, make)?);
                *held = Some(folder.clone());
                folder
            }
        };
        Ok(At {
            path: by_descriptor(&folder).join(&self.name),
            _folder: folder,
        })
    }

    /// Whether the name leads to this file; false if that is unknown.
    pub(super) fn names(&self, file: &Metadata) -> bool {
        let held = self.held.lock().unwrap_or_else(PoisonError::into_inner);
        let found = held.as_ref().and_then(|folder| {
            // A name in a folder that was removed leads to no file.
            statat(folder, &self.name, AtFlags::SYMLINK_NOFOLLOW).ok()
        });
        found.is_some_and(|it| (it.st_dev, it.st_ino) == (file.dev(), file.ino()))
    }

    /// The real path of the file, if the given path does not lead there any more.
    pub fn strayed(&self) -> Option<PathBuf> {
        let held = self.held.lock().unwrap_or_else(PoisonError::into_inner);
        let folder = held.as_ref().filter(|it| !is_removed(it))?;
        if is_same(folder, parent(&self.shown)) {
            return None;
        }
        let real = std::fs::read_link(by_descriptor(folder)).ok()?;
        Some(real.join(&self.name))
    }
}

/// The folder of the file that a path names.
fn parent(path: &Path) -> &Path {
    match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    }
}

fn by_descriptor(folder: &File) -> PathBuf {
    PathBuf::from(format!("/proc/self/fd/{}", folder.as_raw_fd()))
}

fn is_same(folder: &File, path: &Path) -> bool {
    let (Ok(ours), Ok(there)) = (folder.metadata(), std::fs::metadata(path)) else {
        return false;
    };
    (ours.dev(), ours.ino()) == (there.dev(), there.ino())
}

/// Whether the folder was removed. Some file systems (overlayfs) show that only in the name.
fn is_removed(folder: &File) -> bool {
    if folder.metadata().is_ok_and(|it| it.nlink() == 0) {
        return true;
    }
    std::fs::read_link(by_descriptor(folder)).is_ok_and(|name| {
        name.as_os_str().as_encoded_bytes().ends_with(b" (deleted)") && !is_same(folder, &name)
    })
}

/// Opens a folder by its path from the root, without following links.
fn walk(path: &Path, make: bool) -> io::Result<File> {
    let open = |folder: &File, name: &OsStr| -> rustix::io::Result<OwnedFd> {
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        openat(folder, name, flags, Mode::empty())
    };
    let mut folder = OpenOptions::new()
        .read(true)
        .custom_flags(libc::O_PATH | libc::O_DIRECTORY)
        .open("/")?;
    let mut so_far = PathBuf::from("/");
    for component in path.components() {
        let Component::Normal(name) = component else {
            continue;
        };
        so_far.push(name);
        let opened = match open(&folder, name) {
            Err(rustix::io::Errno::NOENT) if make => {
                match mkdirat(&folder, name, Mode::from_raw_mode(0o777)) {
                    Ok(()) | Err(rustix::io::Errno::EXIST) => open(&folder, name),
                    Err(error) => Err(error),
                }
            }
            opened => opened,
        };
        folder = File::from(opened.map_err(|error| {
            let error = io::Error::from(error);
            match error.kind() {
                io::ErrorKind::NotADirectory => io::Error::new(
                    error.kind(),
                    format!("`{}` was a folder and is none now", so_far.display()),
                ),
                _ => error,
            }
        })?);
    }
    Ok(folder)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::os::unix::fs::symlink;

    #[test]
    fn a_folder_that_is_moved_is_followed_and_a_link_is_not() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        fs::create_dir(at("out")).unwrap();
        fs::create_dir(at("victim")).unwrap();
        let spot = Spot::of(&at("out/file")).unwrap();
        assert_eq!(spot.strayed(), None);
        fs::rename(at("out"), at("moved")).unwrap();
        symlink(at("victim"), at("out")).unwrap();
        fs::write(spot.made().unwrap(), "x").unwrap();
        assert!(at("moved/file").exists());
        let real = fs::canonicalize(at("moved")).unwrap().join("file");
        assert_eq!(spot.strayed(), Some(real));
        // The folder was removed, so there is no such folder any more.
        fs::remove_dir_all(at("moved")).unwrap();
        for error in [spot.at().unwrap_err(), spot.made().unwrap_err()] {
            assert_eq!(error.kind(), io::ErrorKind::NotADirectory);
        }
        assert_eq!(fs::read_dir(at("victim")).unwrap().count(), 0);
        fs::remove_file(at("out")).unwrap();
        assert_eq!(spot.at().unwrap_err().kind(), io::ErrorKind::NotFound);
        fs::write(spot.made().unwrap(), "y").unwrap();
        assert!(at("out/file").exists());
        assert_eq!(spot.strayed(), None);
    }

    #[test]
    fn a_folder_that_is_made_later_is_not_made_behind_a_link() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        fs::create_dir(at("victim")).unwrap();
        let spot = Spot::later(&at("a/b/file"));
        assert_eq!(spot.at().unwrap_err().kind(), io::ErrorKind::NotFound);
        symlink(at("victim"), at("a")).unwrap();
        spot.made().unwrap_err();
        assert_eq!(fs::read_dir(at("victim")).unwrap().count(), 0);
        fs::remove_file(at("a")).unwrap();
        fs::write(spot.made().unwrap(), "x").unwrap();
        assert!(at("a/b/file").exists());
    }
}

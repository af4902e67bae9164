//! Copies files and folders, for executors that share the host's disk.

use std::fs::{self, File};
use std::io;
use std::os::fd::{AsFd, AsRawFd as _, OwnedFd};
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Weak};

use mswea_core::ExecutorError;
use mswea_helper::archive::LeftOut;
use mswea_helper::files::{FileKind, PlaceFiles, facts, regular};
use rustix::fs::{AtFlags, Dir, FileType, Mode, OFlags};
use rustix::io::Errno;

/// A path on this machine, or a path below a folder that no link leads out of, although commands
/// can make links there at any time.
#[derive(Debug)]
pub(super) struct PlacedPath {
    files: PlaceFiles,
    path: PathBuf,
    /// The path as the caller names it.
    shown: String,
    /// The folder that bounds it.
    root: PathBuf,
}

impl PlacedPath {
    /// A path on this machine.
    pub(super) fn here(path: PathBuf) -> Self {
        Self {
            files: PlaceFiles::all(),
            shown: path.display().to_string(),
            path,
            root: PathBuf::new(),
        }
    }

    /// `path` in an environment whose files are all in the folder `root`. Relative paths are
    /// relative to `start`, a folder below `root`.
    ///
    /// # Errors
    /// [`ExecutorError`] if the path is not below `root`, or `root` is missing.
    pub(super) fn inside(root: &Path, start: &Path, path: &str) -> Result<Self, ExecutorError> {
        Self::bounded(PlaceFiles::below(root), root, start, path)
    }

    fn bounded(
        files: io::Result<PlaceFiles>,
        root: &Path,
        start: &Path,
        path: &str,
    ) -> Result<Self, ExecutorError> {
        let found = Self {
            files: files.map_err(|error| format!("`{}`: {error}", root.display()))?,
            path: start.join(path),
            shown: path.to_owned(),
            root: root.to_owned(),
        };
        match found.path.strip_prefix(root) {
            Ok(below) => Ok(Self {
                path: below.to_owned(),
                ..found
            }),
            Err(_) => Err(found.is_outside()),
        }
    }

    /// `path` in an image whose files are in the folder `root`. Relative paths are relative to
    /// `cwd`, a directory in the image.
    ///
    /// # Errors
    /// [`ExecutorError`] in the cases of [`Self::inside`].
    pub(super) fn in_image(root: &Path, cwd: &Path, path: &str) -> Result<Self, ExecutorError> {
        let start = match path.starts_with('/') {
            true => root.to_owned(),
            false => root.join(cwd.strip_prefix("/").unwrap_or(cwd)),
        };
        let files = PlaceFiles::in_image(root);
        let found = Self::bounded(files, root, &start, path.trim_start_matches('/'))?;
        Ok(Self {
            shown: path.to_owned(),
            ..found
        })
    }

    fn is_outside(&self) -> ExecutorError {
        ExecutorError::from(format!(
            "`{}` is not below `{}`, and files outside of it can't be reached; name a path below it, without links or `..` that lead out of it",
            self.shown,
            self.root.display()
        ))
    }

    /// The error of an operation `what` on this path.
    pub(super) fn failed(&self, error: &io::Error, what: &str) -> ExecutorError {
        match error.raw_os_error() {
            Some(libc::EXDEV) if self.files.is_bounded() => self.is_outside(),
            _ => ExecutorError::from(format!("`{}` {what}: {error}", self.shown)),
        }
    }

    /// Writes an executable file with this content, and makes the folders around it.
    ///
    /// # Errors
    /// The system's error if the file or a folder can't be made or written.
    pub(super) fn put_program(&self, content: &[u8]) -> io::Result<()> {
        let parent = self.path.parent().unwrap_or(Path::new(""));
        self.files.make_folder(parent)?;
        let file = self.files.create(&self.path)?;
        io::copy(&mut &*content, &mut &file)?;
        Ok(rustix::fs::fchmod(&file, Mode::from_raw_mode(0o755))?)
    }
}

/// Copies `from` to `to`, off the event loop. A folder is merged into an existing one; a file is
/// put into one. Missing parents are made; symbolic links stay links. Dropping the future ends the
/// copying after the current file.
///
/// # Errors
/// [`ExecutorError`] if something can't be read or written.
pub(super) async fn copy(from: PlacedPath, to: PlacedPath) -> Result<(), ExecutorError> {
    let wanted = Arc::new(());
    let is_wanted = Arc::downgrade(&wanted);
    let copying = tokio::task::spawn_blocking(move || {
        let copied = copy_any(&from, &to, &is_wanted).map_err(|error| {
            let bounded = [&from, &to].into_iter().find(|it| it.files.is_bounded());
            match (error.raw_os_error(), bounded) {
                (Some(libc::EXDEV), Some(bounded)) => bounded.is_outside(),
                _ => ExecutorError::from(format!(
                    "`{}` can't be copied to `{}`: {error}; check both paths and their permissions",
                    from.shown, to.shown
                )),
            }
        })?;
        name(&copied);
        Ok(())
    });
    let copied = copying.await;
    drop(wanted);
    copied.unwrap_or_else(|error| Err(ExecutorError::from(error.to_string())))
}

/// Warns of the files that a copy has left out.
pub(super) fn name(left_out: &LeftOut) {
    if let Some(line) = left_out.line() {
        tracing::warn!("{line}");
    }
}

/// The greatest depth of nested folders: each level holds three descriptors open, and many
/// processes may have only 1,024.
const DEEPEST: usize = 200;

/// The permission bits of files that are copied. Bits such as setuid are not, because the copy has
/// another owner.
const OF_FILES: u32 = 0o777;
/// The same for folders. Without the sticky bit, other users could remove files in a folder that
/// all may write to.
const OF_FOLDERS: u32 = 0o1777;

/// Can be upgraded while the caller waits for the copy.
pub(super) type CallerWaits = Weak<()>;

fn copy_any(from: &PlacedPath, to: &PlacedPath, wanted: &CallerWaits) -> io::Result<LeftOut> {
    let mut left_out = LeftOut::default();
    let is_folder = from.files.facts(&from.path)?.kind == FileKind::Folder;
    if is_folder {
        let source = from.files.folder(&from.path)?;
        to.files.make_folder(&to.path)?;
        let target = to.files.folder(&to.path)?;
        // Copying a folder into itself would never end.
        let real = |fd: &OwnedFd| fs::read_link(format!("/proc/self/fd/{}", fd.as_raw_fd()));
        if real(&target)?.starts_with(real(&source)?) {
            return Err(io::Error::other("the target is inside the source"));
        }
        let is_bounded = to.files.is_bounded();
        copy_folder(&source, &target, is_bounded, 0, wanted, &mut left_out)?;
        return Ok(left_out);
    }
    let source = from.files.read(&from.path)?;
    let into = to.files.facts(&to.path);
    let into = into.is_ok_and(|it| it.kind == FileKind::Folder);
    let path = match from.path.file_name() {
        Some(name) if into => to.path.join(name),
        _ => to.path.clone(),
    };
    let parent = path.parent().unwrap_or(Path::new(""));
    to.files.make_folder(parent)?;
    // The target is not emptied yet, because it may be the source.
    if let Ok(target) = to.files.read(&path)
        && is_same(&source, &target)?
    {
        return Ok(left_out);
    }
    pour(&source, &create(to, parent, &path, mode_of(&source)?)?)?;
    Ok(left_out)
}

/// Makes a file in the folder `parent`, with no more than these permissions from the beginning, or
/// empties an existing one.
fn create(to: &PlacedPath, parent: &Path, path: &Path, mode: u32) -> io::Result<File> {
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC;
    let mode = Mode::from_raw_mode(mode & OF_FILES);
    let made = path.file_name().zip(to.files.folder(parent).ok());
    let made = made.and_then(|(name, folder)| rustix::fs::openat(folder, name, flags, mode).ok());
    match made {
        Some(made) => Ok(File::from(made)),
        // The file exists, or is a link, or the folder can't be read.
        None => to.files.create(path),
    }
}

/// `is_bounded`: links in the target are not followed. `depth`: the number of folders around this
/// one that are being copied.
fn copy_folder(
    from: &OwnedFd,
    to: &OwnedFd,
    is_bounded: bool,
    depth: usize,
    wanted: &CallerWaits,
    left_out: &mut LeftOut,
) -> io::Result<()> {
    if depth > DEEPEST {
        return Err(io::Error::other(format!(
            "its folders are more than {DEEPEST} deep in one another"
        )));
    }
    let mode = mode_of(from)? & OF_FOLDERS;
    // No other user can see the content meanwhile. If this fails, the last call of this function
    // reports it.
    let _ = rustix::fs::fchmod(to, Mode::from_raw_mode(mode | 0o700));
    for entry in Dir::read_from(from)? {
        let entry = entry?;
        let name = entry.file_name();
        if matches!(name.to_bytes(), b"." | b"..") {
            continue;
        }
        if wanted.strong_count() == 0 {
            return Err(io::Error::from(io::ErrorKind::Interrupted));
        }
        let kind = match entry.file_type() {
            FileType::Unknown => {
                let stat = rustix::fs::statat(from, name, AtFlags::SYMLINK_NOFOLLOW)?;
                FileType::from_raw_mode(stat.st_mode)
            }
            kind => kind,
        };
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let follows = match is_bounded {
            true => OFlags::NOFOLLOW,
            false => OFlags::empty(),
        };
        match kind {
            FileType::Directory => {
                match rustix::fs::mkdirat(to, name, Mode::from_raw_mode(0o777)) {
                    Err(error) if error != Errno::EXIST => return Err(error.into()),
                    _ => {}
                }
                let folder = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
                let inner = rustix::fs::openat(from, name, flags | folder, Mode::empty())?;
                let target = rustix::fs::openat(to, name, folder | follows, Mode::empty());
                let target = target.map_err(|error| about(name, error))?;
                copy_folder(&inner, &target, is_bounded, depth + 1, wanted, left_out)?;
            }
            FileType::Symlink => {
                let points_to = rustix::fs::readlinkat(from, name, Vec::new())?;
                remove(to, name)?;
                rustix::fs::symlinkat(points_to, to, name)?;
            }
            FileType::RegularFile => {
                let source = regular(rustix::fs::openat(from, name, flags, Mode::empty())?)?;
                let writes = OFlags::WRONLY | OFlags::CREATE | OFlags::NONBLOCK | OFlags::CLOEXEC;
                let mode = Mode::from_raw_mode(mode_of(&source)? & OF_FILES);
                let create = || rustix::fs::openat(to, name, writes | follows, mode);
                let target = create().or_else(|error| match error {
                    Errno::LOOP if is_bounded => remove(to, name).and_then(|()| create()),
                    error => Err(error),
                });
                let target = target.map_err(|error| about(name, error))?;
                let target = regular(target)?;
                if !is_same(&source, &target)? {
                    rustix::fs::ftruncate(&target, 0)?;
                    pour(&source, &target)?;
                }
            }
            // Sockets, pipes and devices have no content to copy.
            _ => {
                left_out.add_with(|| {
                    // A path that is too long to be read is left out of the line.
                    let folder = fs::read_link(format!("/proc/self/fd/{}", from.as_raw_fd()));
                    let name = std::ffi::OsStr::from_bytes(name.to_bytes());
                    folder.unwrap_or_default().join(name)
                });
            }
        }
    }
    Ok(rustix::fs::fchmod(to, Mode::from_raw_mode(mode))?)
}

fn remove(folder: &OwnedFd, name: &std::ffi::CStr) -> Result<(), Errno> {
    match rustix::fs::unlinkat(folder, name, AtFlags::empty()) {
        Err(error) if error != Errno::NOENT => Err(error),
        _ => Ok(()),
    }
}

fn about(name: &std::ffi::CStr, error: Errno) -> io::Error {
    let error = io::Error::from(error);
    io::Error::new(
        error.kind(),
        format!("`{}`: {error}", name.to_string_lossy()),
    )
}

fn is_same(one: &File, other: &File) -> io::Result<bool> {
    use std::os::unix::fs::MetadataExt as _;
    let (one, other) = (one.metadata()?, other.metadata()?);
    Ok((one.dev(), one.ino()) == (other.dev(), other.ino()))
}

/// Copies permissions and content, in this order, so that a user who may not read `from` can't read
/// the copy.
fn pour(mut from: &File, mut to: &File) -> io::Result<()> {
    let mode = Mode::from_raw_mode(mode_of(from)? & OF_FILES);
    rustix::fs::fchmod(to, mode)?;
    io::copy(&mut from, &mut to)?;
    Ok(())
}

fn mode_of(file: impl AsFd) -> io::Result<u32> {
    Ok(facts(file.as_fd())?.mode)
}

#[cfg(test)]
mod tests;

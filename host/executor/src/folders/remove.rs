//! Removes a temporary folder, also one whose subfolders its owner may not write to.

use std::fs;
use std::io;
use std::os::fd::{AsFd as _, AsRawFd as _, BorrowedFd, OwnedFd};
use std::path::Path;

use rustix::fs::{AtFlags, CWD, Dir, FileType, Mode, OFlags};
use rustix::io::Errno;

use super::{SETUP, owner_file};

/// The greatest depth of the recursion, which holds a descriptor for each level.
const DEEPEST: u32 = 50;

/// Removes a folder, the credentials with it, and then its owner file.
pub(super) fn remove(folder: &Path, also: Option<&Path>) -> io::Result<()> {
    let gone = |result: io::Result<()>| match result {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        result => result,
    };
    gone(remove_tree(folder))?;
    if let Some(setup) = also.filter(|also| also.is_absolute() && also.ends_with(SETUP)) {
        gone(remove_credentials(setup))?;
    }
    gone(fs::remove_file(owner_file(folder)))
}

/// Removes the credentials of a fetch from a repository. A command may have written the owner file
/// that names this folder, so only that one file is removed, and the folder only if it is empty
/// then.
fn remove_credentials(setup: &Path) -> io::Result<()> {
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let opened = rustix::fs::open(setup, flags, Mode::empty())?;
    match rustix::fs::unlinkat(&opened, "credentials", AtFlags::empty()) {
        Err(error) if error != Errno::NOENT => return Err(error.into()),
        _ => {}
    }
    match fs::remove_dir(setup) {
        Err(error) if error.kind() == io::ErrorKind::DirectoryNotEmpty => Ok(()),
        result => result,
    }
}

/// Removes a folder with its content, including folders that their owner may not write to, as
/// images have them. Links are removed and not followed, even if they appear during the removal. A
/// command may have nested folders so deeply that a recursive removal would need too much stack and
/// too many descriptors: folders below a certain depth are moved to the top first.
///
/// # Errors
/// The system's error if something can't be removed.
pub fn remove_tree(folder: &Path) -> io::Result<()> {
    let mut dir = match open(CWD, folder) {
        // A link or a file has the place of the folder.
        Err(Errno::NOTDIR | Errno::LOOP) => return fs::remove_file(folder),
        opened => Dir::new(opened?)?,
    };
    let top = rustix::io::fcntl_dupfd_cloexec(dir.fd()?, 0)?;
    loop {
        let mut moved = false;
        clear(&mut dir, &top, 0, &mut moved)?;
        if !moved {
            return fs::remove_dir(folder);
        }
        dir.rewind();
    }
}

/// Opens a folder in another one; its owner may not be allowed to read either of them.
fn open(parent: BorrowedFd<'_>, name: impl rustix::path::Arg + Copy) -> Result<OwnedFd, Errno> {
    let flags = OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    match rustix::fs::openat(parent, name, flags, Mode::empty()) {
        Err(Errno::ACCESS) => {
            // The permissions of the folder around it may be the obstacle.
            let _ = rustix::fs::fchmod(parent, Mode::RWXU);
            let locked = rustix::fs::openat(parent, name, flags | OFlags::PATH, Mode::empty())?;
            let itself = format!("/proc/self/fd/{}", locked.as_raw_fd());
            rustix::fs::chmod(itself, Mode::RWXU)?;
            rustix::fs::openat(parent, name, flags, Mode::empty())
        }
        opened => opened,
    }
}

/// Removes the content of `dir`, which is `depth` folders below `top`.
fn clear(dir: &mut Dir, top: &OwnedFd, depth: u32, moved: &mut bool) -> io::Result<()> {
    while let Some(entry) = dir.read() {
        let entry = entry?;
        let name = entry.file_name();
        if matches!(name.to_bytes(), b"." | b"..") {
            continue;
        }
        let parent = dir.fd()?;
        let inner = match entry.file_type() {
            FileType::Directory | FileType::Unknown => open(parent, name),
            _ => Err(Errno::NOTDIR),
        };
        let result = match inner {
            Err(Errno::NOENT) => continue,
            Err(Errno::NOTDIR | Errno::LOOP) => unlocking(&[parent], || {
                rustix::fs::unlinkat(parent, name, AtFlags::empty())
            }),
            Err(error) => return Err(error.into()),
            Ok(inner) if depth == DEEPEST => {
                *moved = true;
                let new = format!(".mswea-deep-{:016x}", fastrand::u64(..));
                // Moving a folder also changes its entry `..`.
                let folders = [parent, inner.as_fd(), top.as_fd()];
                unlocking(&folders, || rustix::fs::renameat(parent, name, top, &*new))
            }
            Ok(inner) => {
                clear(&mut Dir::new(inner)?, top, depth + 1, moved)?;
                unlocking(&[parent], || {
                    rustix::fs::unlinkat(parent, name, AtFlags::REMOVEDIR)
                })
            }
        };
        match result {
            Err(Errno::NOENT) => {}
            result => result?,
        }
    }
    Ok(())
}

/// Does `work`; if that is refused, first gives the owner all rights to these folders.
fn unlocking(
    folders: &[BorrowedFd<'_>],
    work: impl Fn() -> Result<(), Errno>,
) -> Result<(), Errno> {
    match work() {
        Err(Errno::ACCESS) => {
            for folder in folders {
                let _ = rustix::fs::fchmod(folder, Mode::RWXU);
            }
            work()
        }
        result => result,
    }
}

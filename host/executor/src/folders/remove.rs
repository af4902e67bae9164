//! Removes a temporary folder, also one whose subfolders its owner may not write to.

use std::fs;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::path::Path;

use rustix::fs::{AtFlags, Dir, FileType, Mode, OFlags};

use super::{SETUP, owner_file};

/// Removes a folder, the credentials with it, and then its owner file.
pub(super) fn remove(folder: &Path, also: Option<&Path>) -> io::Result<()> {
    let gone = |result: io::Result<()>| match result {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        result => result,
    };
    // Neither of the two follows links, also not those that appear in between.
    match gone(fs::remove_dir_all(folder)) {
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
            let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
            unlock(&rustix::fs::open(folder, flags, Mode::empty())?);
            gone(fs::remove_dir_all(folder))?;
        }
        result => result?,
    }
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
        Err(error) if error != rustix::io::Errno::NOENT => return Err(error.into()),
        _ => {}
    }
    match fs::remove_dir(setup) {
        Err(error) if error.kind() == io::ErrorKind::DirectoryNotEmpty => Ok(()),
        result => result,
    }
}

/// Makes a folder and its subfolders writable, as far as this user owns them: images contain
/// folders that not even their owner may write to.
fn unlock(folder: &OwnedFd) {
    let itself = format!("/proc/self/fd/{}", folder.as_raw_fd());
    let _ = rustix::fs::chmod(itself, Mode::RWXU);
    let flags = OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let Ok(entries) = rustix::fs::openat(folder, ".", flags, Mode::empty()).and_then(Dir::new)
    else {
        return;
    };
    for entry in entries.flatten() {
        let name = entry.file_name();
        let is_folder = matches!(entry.file_type(), FileType::Directory | FileType::Unknown);
        if !is_folder || matches!(name.to_bytes(), b"." | b"..") {
            continue;
        }
        if let Ok(inner) = rustix::fs::openat(folder, name, flags | OFlags::PATH, Mode::empty()) {
            unlock(&inner);
        }
    }
}

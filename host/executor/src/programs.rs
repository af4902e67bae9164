//! Finds programs on this machine.

use std::ffi::OsStr;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

/// Finds the program `name` of the host: a path, or a name in `PATH`.
pub(crate) fn find(name: &str) -> Option<PathBuf> {
    if name.contains('/') {
        let path = std::path::absolute(Path::new(name)).ok()?;
        return is_program(&path).then_some(path);
    }
    let path = std::env::var_os("PATH")
        .filter(|path| !path.is_empty())
        .unwrap_or_else(|| "/usr/local/bin:/usr/bin:/bin".into());
    in_path(name, &path)
}

/// Finds the program `name` in the folders of `path`.
pub(crate) fn in_path(name: &str, path: &OsStr) -> Option<PathBuf> {
    std::env::split_paths(path)
        .map(|folder| folder.join(name))
        .find(|candidate| is_program(candidate))
}

pub(crate) fn is_program(path: &Path) -> bool {
    path.metadata()
        .is_ok_and(|found| found.is_file() && found.permissions().mode() & 0o111 != 0)
}

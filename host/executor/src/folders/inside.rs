//! Paths of an environment as paths of this machine.

use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use mswea_core::ExecutorError;

/// The path on this machine of `path` in an environment whose files are all in the folder `root`.
/// `start` is the base of relative paths, below `root`.
///
/// Commands in the environment may have made links there that lead out of it.
///
/// # Errors
/// [`ExecutorError`] if the path leads out of `root`.
pub(crate) fn inside(root: &Path, start: &Path, path: &str) -> Result<PathBuf, ExecutorError> {
    let outside = || {
        ExecutorError::from(format!(
            "`{path}` is not below `{}`, and files outside of it can't be reached; name a path below it, without links or `..` that lead out of it",
            root.display()
        ))
    };
    let wanted = start.join(path);
    let relative = wanted.strip_prefix(root).map_err(|_| outside())?;
    let real_root = root.canonicalize().map_err(|_| outside())?;
    let mut real = real_root.clone();
    for part in relative.components() {
        real.push(part);
        match real.canonicalize() {
            Ok(found) => real = found,
            // A missing path leads nowhere, unless it is a link to a file that would be made.
            Err(_) if fs::symlink_metadata(&real).is_ok() => return Err(outside()),
            Err(_) if part.as_os_str().as_bytes() == b".." => return Err(outside()),
            Err(_) => {}
        }
        if !real.starts_with(&real_root) {
            return Err(outside());
        }
    }
    Ok(real)
}

/// The path on this machine of `path` in an image whose files are in the folder `root`. `cwd` is the directory in
/// the image from which relative paths count.
///
/// # Errors
/// As [`inside`].
pub(crate) fn in_image(root: &Path, cwd: &Path, path: &str) -> Result<PathBuf, ExecutorError> {
    match path.strip_prefix('/') {
        Some(absolute) => inside(root, root, absolute.trim_start_matches('/')),
        None => inside(root, &root.join(cwd.strip_prefix("/").unwrap_or(cwd)), path),
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn paths_do_not_lead_out() {
        let root = tempfile::tempdir().unwrap();
        let outside = tempfile::tempdir().unwrap();
        let at = |path: &str| root.path().join(path);
        fs::create_dir_all(at("work/sub")).unwrap();
        fs::write(at("work/file"), "").unwrap();
        symlink("sub", at("work/fine")).unwrap();
        symlink(outside.path(), at("work/out")).unwrap();
        symlink(outside.path().join("new"), at("work/dangling")).unwrap();
        symlink("/", at("work/slash")).unwrap();
        let below = |path: &str| at(path).to_str().unwrap().to_owned();
        let vectors = [
            ("file", Some("work/file")),
            ("new/deep/er", Some("work/new/deep/er")),
            ("fine/x", Some("work/sub/x")),
            ("sub/../file", Some("work/file")),
            ("../top", Some("top")),
            (&below("work/file"), Some("work/file")),
            ("", Some("work")),
            ("../../x", None),
            ("out/x", None),
            ("out", None),
            ("dangling", None),
            ("slash/etc/passwd", None),
            ("new/../../../x", None),
            ("/etc/passwd", None),
        ];
        for (path, wanted) in vectors {
            let found = inside(root.path(), &at("work"), path).ok();
            let wanted = wanted.map(|path| root.path().canonicalize().unwrap().join(path));
            assert_eq!(found, wanted, "{path}");
        }
        // The same folder as an image, whose commands start in `/work`.
        for (path, wanted) in [
            ("file", Some("work/file")),
            ("/work/file", Some("work/file")),
            ("//new", Some("new")),
            ("../top", Some("top")),
            ("/etc/passwd", Some("etc/passwd")),
            ("/work/out/x", None),
            ("out/x", None),
            ("../../x", None),
        ] {
            let found = in_image(root.path(), Path::new("/work"), path).ok();
            let wanted = wanted.map(|path| root.path().canonicalize().unwrap().join(path));
            assert_eq!(found, wanted, "{path}");
        }
    }
}

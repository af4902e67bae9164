//! Copies files and folders, for executors that share the host's disk.

use std::fs;
use std::io;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use crate::roles::ExecutorError;

/// Copies `from` to `to`, off the event loop. A folder is laid over one that is there already;
/// a file goes into one. Missing parents are made; symbolic links stay links.
///
/// # Errors
/// When something can't be read or written.
pub(super) async fn copy(from: PathBuf, to: PathBuf) -> Result<(), ExecutorError> {
    let (source, target) = (from.display().to_string(), to.display().to_string());
    let copied = tokio::task::spawn_blocking(move || copy_any(&from, &to))
        .await
        .unwrap_or_else(|error| Err(io::Error::other(error)));
    copied.map_err(|error| ExecutorError {
        message: format!("`{source}` can't be copied to `{target}`: {error}; check both paths and their permissions"),
    })
}

fn copy_any(from: &Path, to: &Path) -> io::Result<()> {
    let is_folder = fs::metadata(from)?.is_dir();
    let into = !is_folder && to.is_dir();
    let to = match from.file_name() {
        Some(name) if into => to.join(name),
        _ => to.to_owned(),
    };
    if let Some(parent) = to.parent() {
        fs::create_dir_all(parent)?;
    }
    if is_folder {
        // A folder copied into itself would never end.
        fs::create_dir_all(&to)?;
        if to.canonicalize()?.starts_with(from.canonicalize()?) {
            return Err(io::Error::other("the target is inside the source"));
        }
        copy_folder(from, &to)
    } else {
        copy_file(from, &to)
    }
}

fn copy_folder(from: &Path, to: &Path) -> io::Result<()> {
    fs::create_dir_all(to)?;
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        let target = to.join(entry.file_name());
        let kind = entry.file_type()?;
        if kind.is_dir() {
            copy_folder(&entry.path(), &target)?;
        } else if kind.is_symlink() {
            let points_to = fs::read_link(entry.path())?;
            match fs::remove_file(&target) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
                _ => symlink(points_to, &target)?,
            }
        } else if kind.is_file() {
            copy_file(&entry.path(), &target)?;
        }
        // Sockets, pipes and devices have no content to copy.
    }
    fs::set_permissions(to, fs::metadata(from)?.permissions())
}

fn copy_file(from: &Path, to: &Path) -> io::Result<()> {
    if to.exists() && to.canonicalize()? == from.canonicalize()? {
        // Opening the target would empty the source.
        return Ok(());
    }
    fs::copy(from, to).map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn copies_files_folders_and_links() {
        let root = tempfile::tempdir().unwrap();
        let at = |path: &str| root.path().join(path);
        fs::create_dir_all(at("a/b/empty")).unwrap();
        fs::write(at("a/b/x"), "x").unwrap();
        symlink("b/x", at("a/link")).unwrap();

        copy_any(&at("a"), &at("new/place")).unwrap();
        assert_eq!(fs::read_to_string(at("new/place/b/x")).unwrap(), "x");
        assert_eq!(
            fs::read_link(at("new/place/link")).unwrap(),
            Path::new("b/x")
        );
        assert!(at("new/place/b/empty").is_dir());

        fs::write(at("a/b/x"), "y").unwrap();
        copy_any(&at("a"), &at("new/place")).unwrap();
        assert_eq!(fs::read_to_string(at("new/place/link")).unwrap(), "y");

        copy_any(&at("a/b/x"), &at("new")).unwrap();
        assert_eq!(fs::read_to_string(at("new/x")).unwrap(), "y");
        copy_any(&at("a/b/x"), &at("a/b/x")).unwrap();
        assert_eq!(fs::read_to_string(at("a/b/x")).unwrap(), "y");

        assert!(copy_any(&at("a"), &at("a/b/inside")).is_err());
        assert!(copy_any(&at("missing"), &at("z")).is_err());
    }
}

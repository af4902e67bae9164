//! Copies files and folders, for executors that share the host's disk.

use std::fs;
use std::io;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Weak};

use mswea_core::ExecutorError;

/// Copies `from` to `to`, off the event loop. A folder is merged into an existing one; a file is
/// put into one. Missing parents are made; symbolic links stay links. Dropping the future ends the
/// copying after the current file.
///
/// # Errors
/// [`ExecutorError`] if something can't be read or written.
pub(super) async fn copy(from: PathBuf, to: PathBuf) -> Result<(), ExecutorError> {
    let (source, target) = (from.display().to_string(), to.display().to_string());
    let wanted = Arc::new(());
    let is_wanted = Arc::downgrade(&wanted);
    let copied = tokio::task::spawn_blocking(move || copy_any(&from, &to, &is_wanted))
        .await
        .unwrap_or_else(|error| Err(io::Error::other(error)));
    drop(wanted);
    copied.map_err(|error| ExecutorError::from(format!("`{source}` can't be copied to `{target}`: {error}; check both paths and their permissions")))
}

/// Alive while the caller waits for the copy.
pub(super) type CallerWaits = Weak<()>;

fn copy_any(from: &Path, to: &Path, wanted: &CallerWaits) -> io::Result<()> {
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
        // Copying a folder into itself would never end.
        fs::create_dir_all(&to)?;
        if to.canonicalize()?.starts_with(from.canonicalize()?) {
            return Err(io::Error::other("the target is inside the source"));
        }
        copy_folder(from, &to, wanted)
    } else {
        copy_file(from, &to)
    }
}

fn copy_folder(from: &Path, to: &Path, wanted: &CallerWaits) -> io::Result<()> {
    fs::create_dir_all(to)?;
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        if wanted.strong_count() == 0 {
            return Err(io::Error::from(io::ErrorKind::Interrupted));
        }
        let target = to.join(entry.file_name());
        let kind = entry.file_type()?;
        if kind.is_dir() {
            copy_folder(&entry.path(), &target, wanted)?;
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

    fn copy(from: &Path, to: &Path) -> io::Result<()> {
        let wanted = Arc::new(());
        copy_any(from, to, &Arc::downgrade(&wanted))
    }

    #[test]
    fn copies_files_folders_and_links() {
        let root = tempfile::tempdir().unwrap();
        let at = |path: &str| root.path().join(path);
        fs::create_dir_all(at("a/b/empty")).unwrap();
        fs::write(at("a/b/x"), "x").unwrap();
        symlink("b/x", at("a/link")).unwrap();

        copy(&at("a"), &at("new/place")).unwrap();
        assert_eq!(fs::read_to_string(at("new/place/b/x")).unwrap(), "x");
        assert_eq!(
            fs::read_link(at("new/place/link")).unwrap(),
            Path::new("b/x")
        );
        assert!(at("new/place/b/empty").is_dir());

        fs::write(at("a/b/x"), "y").unwrap();
        copy(&at("a"), &at("new/place")).unwrap();
        assert_eq!(fs::read_to_string(at("new/place/link")).unwrap(), "y");

        copy(&at("a/b/x"), &at("new")).unwrap();
        assert_eq!(fs::read_to_string(at("new/x")).unwrap(), "y");
        copy(&at("a/b/x"), &at("a/b/x")).unwrap();
        assert_eq!(fs::read_to_string(at("a/b/x")).unwrap(), "y");

        assert!(copy(&at("a"), &at("a/b/inside")).is_err());
        assert!(copy(&at("missing"), &at("z")).is_err());
    }

    #[test]
    fn a_copy_without_a_caller_stops() {
        let root = tempfile::tempdir().unwrap();
        fs::create_dir_all(root.path().join("a/b")).unwrap();
        fs::write(root.path().join("a/b/x"), "x").unwrap();
        let to = root.path().join("new");
        let error = copy_any(&root.path().join("a"), &to, &Weak::new()).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::Interrupted);
        assert!(!to.join("b").exists());
    }
}

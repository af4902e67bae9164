//! Files that are there whole or not at all, whatever is killed while they are written.

use std::fs::{self, File};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

/// The name under which the file is written first. It is always the same, so that a killed process
/// leaves one such file at most.
fn temporary(path: &Path) -> PathBuf {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    path.with_file_name(format!(".{name}.mswea-tmp"))
}

fn write_temporary(path: &Path, text: &[u8]) -> io::Result<PathBuf> {
    let temporary = temporary(path);
    let mut file = File::create(&temporary)?;
    file.write_all(text)?;
    file.sync_data()?;
    Ok(temporary)
}

/// Puts a file in the place of an earlier one.
pub(crate) fn replace(path: &Path, text: &[u8]) -> io::Result<()> {
    let temporary = write_temporary(path, text)?;
    fs::rename(&temporary, path).inspect_err(|_| {
        let _ = fs::remove_file(&temporary);
    })
}

/// Makes a file that must not be there yet. Returns whether it is new.
pub(crate) fn make(path: &Path, text: &[u8]) -> io::Result<bool> {
    let temporary = write_temporary(path, text)?;
    let linked = fs::hard_link(&temporary, path);
    let _ = fs::remove_file(&temporary);
    match linked {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(false),
        // Some file systems have no hard links. Only one process holds the directory.
        Err(_) if path.exists() => Ok(false),
        Err(_) => replace(path, text).map(|()| true),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_made_once_and_replaced_whole() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("result.json");
        assert!(make(&path, b"one").unwrap());
        assert!(!make(&path, b"two").unwrap());
        assert_eq!(fs::read(&path).unwrap(), b"one");
        replace(&path, b"three").unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"three");
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
    }
}

//! Writes files so that they exist complete or not at all, even if a process is killed meanwhile.

use std::fs::{self, File};
use std::io::{self, Write as _};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

/// The name under which the file is written first. It is always the same, so a killed process
/// leaves at most one such file.
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

/// Writes a file, replacing an earlier one.
pub(crate) fn replace(path: &Path, text: &[u8]) -> io::Result<()> {
    let temporary = write_temporary(path, text)?;
    fs::rename(&temporary, path).inspect_err(|_| {
        let _ = fs::remove_file(&temporary);
    })
}

/// Writes a file that must not exist yet. Returns whether it was written.
pub(crate) fn make(path: &Path, text: &[u8]) -> io::Result<bool> {
    let temporary = write_temporary(path, text)?;
    let linked = fs::hard_link(&temporary, path);
    let _ = fs::remove_file(&temporary);
    match linked {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(false),
        // Some file systems have no hard links. Only one process holds the directory, so checking
        // first is enough.
        Err(_) if path.exists() => Ok(false),
        Err(_) => replace(path, text).map(|()| true),
    }
}

/// Writes a file that must not exist yet, where processes of several machines may do so at the same
/// time: each first writes a file with a name of its own (`own`), and exactly one of them can link
/// it to `path`. Returns whether this one did.
pub(crate) fn make_among(path: &Path, text: &[u8], own: &str) -> io::Result<bool> {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let temporary = path.with_file_name(format!(".{name}.{own}.mswea-tmp"));
    let mut file = File::create(&temporary)?;
    let linked = file
        .write_all(text)
        .and_then(|()| file.sync_data())
        .and_then(|()| fs::hard_link(&temporary, path));
    // The answer of a file server may have been lost although the link was made.
    let is_ours = || fs::metadata(&temporary).is_ok_and(|it| it.nlink() > 1);
    let made = match linked {
        Ok(()) => Ok(true),
        Err(_) if is_ours() => Ok(true),
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(false),
        Err(error) => Err(error),
    };
    let _ = fs::remove_file(&temporary);
    made
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
        assert!(!make_among(&path, b"four", "a").unwrap());
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
    }

    #[test]
    fn of_many_that_make_a_file_one_has_made_it() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("claim");
        let makers = (0..8).map(|number| {
            let path = path.clone();
            std::thread::spawn(move || {
                let own = number.to_string();
                make_among(&path, own.as_bytes(), &own)
                    .unwrap()
                    .then_some(own)
            })
        });
        let makers: Vec<_> = makers.collect();
        let made = makers.into_iter().filter_map(|it| it.join().unwrap());
        let made: Vec<String> = made.collect();
        assert_eq!(made.len(), 1);
        assert_eq!(fs::read_to_string(&path).unwrap(), made[0]);
    }
}

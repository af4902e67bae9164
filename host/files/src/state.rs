//! The folder for data that outlasts a run.

use std::fs::{self, DirBuilder};
use std::io;
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _};
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

/// Where a folder can't be made: below it there is never a file.
const NOWHERE: &str = "/dev/null/mswea-host";

/// The bit of a folder in which everybody removes only what is theirs.
const STICKY: u32 = 0o1000;

/// The folder `name` of the user's state: below `$XDG_STATE_HOME/mswea-host`, else below
/// `~/.local/state/mswea-host`; without a home, below a folder of this user's in the temporary folder. If that
/// one is not safe, there is no folder, and [`state_problem`] has the reason.
pub fn state_folder(name: &str) -> PathBuf {
    home_state_folder(name).unwrap_or_else(|| match homeless() {
        Ok(folder) => folder.join(name),
        Err(_) => Path::new(NOWHERE).join(name),
    })
}

/// The same folder, which is made if it is missing. Others can't look into what is made.
///
/// # Errors
/// The system's error if it can't be made.
pub fn made_state_folder(name: &str) -> io::Result<PathBuf> {
    let folder = state_folder(name);
    make_private(&folder)?;
    Ok(folder)
}

/// Makes a folder that only this user can enter, with its parents.
///
/// # Errors
/// The system's error if it can't be made.
pub fn make_private(folder: &Path) -> io::Result<()> {
    DirBuilder::new().recursive(true).mode(0o700).create(folder)
}

/// The same folder. None without a home: the folder would be below the temporary folder, to which
/// commands in a sandbox may write.
pub fn home_state_folder(name: &str) -> Option<PathBuf> {
    let absolute = |name: &str| {
        std::env::var_os(name)
            .map(PathBuf::from)
            .filter(|path| path.is_absolute())
    };
    let folder =
        absolute("XDG_STATE_HOME").or_else(|| Some(absolute("HOME")?.join(".local/state")))?;
    Some(folder.join("mswea-host").join(name))
}

/// Why there is no folder for the state; none if there is one, or if it can be made.
pub fn state_problem() -> Option<&'static str> {
    match home_state_folder("") {
        Some(_) => None,
        None => homeless().as_ref().err().map(String::as_str),
    }
}

/// The folder of users without a home.
fn homeless() -> &'static Result<PathBuf, String> {
    static FOLDER: OnceLock<Result<PathBuf, String>> = OnceLock::new();
    FOLDER.get_or_init(|| own_folder_in(&std::env::temp_dir()))
}

/// The folder of this user's in `parent`, where others may have made it first: they would read and replace what
/// is in it.
fn own_folder_in(parent: &Path) -> Result<PathBuf, String> {
    let user = rustix::process::geteuid().as_raw();
    let folder = parent.join(format!("mswea-host-{user}"));
    let refused = |path: &Path, why: &str| {
        Err(format!(
            "there is no safe folder for the state of runs: `{}` {why}; set `HOME` or `XDG_STATE_HOME` to a folder of yours",
            path.display()
        ))
    };
    // Whoever may rename in the parent can put another folder in its place.
    match fs::metadata(parent) {
        Err(error) => return refused(parent, &format!("can't be read ({error})")),
        Ok(found) if ![user, 0].contains(&found.uid()) => {
            return refused(parent, "belongs to another user");
        }
        Ok(found) if found.mode() & 0o022 != 0 && found.mode() & STICKY == 0 => {
            return refused(parent, "can be changed by others");
        }
        Ok(_) => {}
    }
    // Not recursive, so that an existing one, or a link, is an error.
    match DirBuilder::new().mode(0o700).create(&folder) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => {
            return refused(&folder, &format!("can't be made ({error})"));
        }
        _ => {}
    }
    match fs::symlink_metadata(&folder) {
        Err(error) => refused(&folder, &format!("can't be read ({error})")),
        Ok(found) if found.is_symlink() => refused(&folder, "is a link"),
        Ok(found) if !found.is_dir() => refused(&folder, "is no folder"),
        Ok(found) if found.uid() != user => refused(&folder, "belongs to another user"),
        Ok(found) if found.mode() & 0o077 != 0 => {
            refused(&folder, "can be read or changed by others")
        }
        Ok(_) => Ok(folder),
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{PermissionsExt as _, symlink};

    use super::*;

    #[test]
    fn a_folder_that_others_may_have_made_is_refused() {
        let mode = |path: &Path, mode| fs::set_permissions(path, fs::Permissions::from_mode(mode));
        let parent = tempfile::tempdir().unwrap();
        let outside = tempfile::tempdir().unwrap();
        let own = own_folder_in(parent.path()).unwrap();
        assert_eq!(fs::metadata(&own).unwrap().mode() & 0o7777, 0o700);
        assert_eq!(own_folder_in(parent.path()), Ok(own.clone()));
        let refused = |why: &str| {
            let text = own_folder_in(parent.path()).unwrap_err();
            assert!(
                text.contains(why) && text.contains("`XDG_STATE_HOME`"),
                "{text}"
            );
        };
        for open in [0o755, 0o770, 0o707] {
            mode(&own, open).unwrap();
            refused("by others");
        }
        fs::remove_dir(&own).unwrap();
        symlink(outside.path(), &own).unwrap();
        refused("is a link");
        fs::remove_file(&own).unwrap();
        symlink(outside.path().join("missing"), &own).unwrap();
        refused("is a link");
        fs::remove_file(&own).unwrap();
        fs::write(&own, "").unwrap();
        refused("is no folder");
        fs::remove_file(&own).unwrap();
        if rustix::process::geteuid().is_root() {
            fs::create_dir(&own).unwrap();
            mode(&own, 0o700).unwrap();
            std::os::unix::fs::chown(&own, Some(12345), None).unwrap();
            refused("belongs to another user");
            fs::remove_dir(&own).unwrap();
            std::os::unix::fs::chown(parent.path(), Some(12345), None).unwrap();
            refused("belongs to another user");
            std::os::unix::fs::chown(parent.path(), Some(0), None).unwrap();
        }
        mode(parent.path(), 0o777).unwrap();
        refused("can be changed by others");
        mode(parent.path(), 0o1777).unwrap();
        own_folder_in(parent.path()).unwrap();
        mode(parent.path(), 0o700).unwrap();
    }
}

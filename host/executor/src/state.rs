//! The folder for data that outlasts a run.

use std::path::PathBuf;

/// The folder `name` of the user's state: below `$XDG_STATE_HOME/mswea-host`, else below
/// `~/.local/state/mswea-host`; without a home, below the temporary folder.
pub fn state_folder(name: &str) -> PathBuf {
    home_state_folder(name).unwrap_or_else(|| std::env::temp_dir().join("mswea-host").join(name))
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

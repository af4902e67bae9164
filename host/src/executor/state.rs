//! Where the program keeps what is to outlast a run.

use std::path::PathBuf;

/// The folder `name` of the user's state: below `$XDG_STATE_HOME/mswea-host`, else below
/// `~/.local/state/mswea-host`; without a home, below the temporary folder.
pub fn state_folder(name: &str) -> PathBuf {
    let absolute = |name: &str| {
        std::env::var_os(name)
            .map(PathBuf::from)
            .filter(|path| path.is_absolute())
    };
    absolute("XDG_STATE_HOME")
        .or_else(|| Some(absolute("HOME")?.join(".local/state")))
        .unwrap_or_else(std::env::temp_dir)
        .join("mswea-host")
        .join(name)
}

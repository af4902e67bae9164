//! Calls of this machine's git.

use std::process::Command;

/// A call of git that works on the folder that it is told: variables that a caller of the host has set, as
/// git does for its hooks, would lead it to another repository.
pub(super) fn git() -> Command {
    let mut command = Command::new("git");
    for name in [
        "GIT_DIR",
        "GIT_WORK_TREE",
        "GIT_INDEX_FILE",
        "GIT_OBJECT_DIRECTORY",
        "GIT_COMMON_DIR",
    ] {
        command.env_remove(name);
    }
    command
}

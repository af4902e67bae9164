//! Calls of this machine's git.

use std::process::Command;

/// A call of git for the given folder. It removes variables that a caller of the host may have set
/// (git does so for its hooks), because they would make it use another repository.
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

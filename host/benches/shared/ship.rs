//! The shipped binary, made by the documented command.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// The binary that cargo built.
pub const PLAIN: &str = env!("CARGO_BIN_EXE_mswea-host");

/// Writes the shipped binary into `folder`.
pub fn ship(folder: &Path) -> PathBuf {
    let output = folder.join("mswea-host");
    let status = Command::new(PLAIN)
        .arg("ship")
        .arg(&output)
        .stderr(Stdio::null())
        .status()
        .unwrap();
    assert!(status.success(), "`{PLAIN} ship` failed: {status}");
    output
}

/// A call of `program` in a world of its own: an empty home below `root`, no other variables.
pub fn call(program: &Path, root: &Path) -> Command {
    let home = root.join("home");
    let work = root.join("work");
    for folder in [&home, &work] {
        std::fs::create_dir_all(folder).unwrap();
    }
    let mut command = Command::new(program);
    command
        .env_clear()
        .env("HOME", home)
        .env("PATH", std::env::var_os("PATH").unwrap_or_default())
        .current_dir(work)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    command
}

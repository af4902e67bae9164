//! The shipped binary.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// The binary that cargo built.
pub const PLAIN: &str = env!("CARGO_BIN_EXE_mswea-host");

/// The variable that names a binary which `host/ship.sh` has made.
pub const VARIABLE: &str = "MSWEA_BENCH_SHIPPED";

/// Whether the measured binary is one that `host/ship.sh` has made.
pub fn is_named() -> bool {
    std::env::var_os(VARIABLE).is_some()
}

/// The shipped binary: the one that the variable names, else a copy of the plain one in `folder`, which
/// carries the same code of plugins but is larger and not static.
pub fn ship(folder: &Path) -> PathBuf {
    if let Some(named) = std::env::var_os(VARIABLE) {
        return named.into();
    }
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

/// A call of `program` with an empty home below `root` and no other variables.
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

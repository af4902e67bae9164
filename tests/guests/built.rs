//! Builds the guests of tests from source by a nested cargo call. Tests of several crates include this
//! file.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::Command;

const TARGET: &str = "wasm32-wasip2";

/// Builds a crate outside the workspace, and returns the component's path.
pub fn plugin(folder: &str, name: &str) -> PathBuf {
    let own = Path::new(env!("CARGO_MANIFEST_DIR"));
    let is_root = |folder: &&Path| folder.join("Cargo.lock").is_file();
    let root = own.ancestors().find(is_root).unwrap();
    let target = Path::new(env!("CARGO_TARGET_TMPDIR")).join("guests");
    fs::create_dir_all(&target).unwrap();
    // Tests may run in several processes at once.
    let lock = File::create(target.join("tests.lock")).unwrap();
    lock.lock().unwrap();
    let mut cargo = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    cargo
        .current_dir(root.join(folder))
        .args(["build", "--locked", "--release", "--target", TARGET])
        .arg("--target-dir")
        .arg(&target);
    for (variable, _) in std::env::vars_os() {
        let text = variable.to_string_lossy();
        let keep = ["CARGO_HOME", "CARGO_NET_", "CARGO_HTTP_", "CARGO_REGISTR"]
            .iter()
            .any(|kept| text.starts_with(kept));
        let of_build = [
            "CARGO",
            "RUSTC",
            "RUSTFLAGS",
            "RUSTDOCFLAGS",
            "LD_LIBRARY_PATH",
        ]
        .iter()
        .any(|start| text.starts_with(start));
        if of_build && !keep {
            cargo.env_remove(variable);
        }
    }
    let output = cargo.output().unwrap();
    assert!(
        output.status.success(),
        "`{folder}` could not be built:\n{}",
        String::from_utf8_lossy(&output.stderr)
    );
    target
        .join(TARGET)
        .join("release")
        .join(name)
        .with_extension("wasm")
}

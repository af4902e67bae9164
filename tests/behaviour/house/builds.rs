//! All cargo commands build the dependencies with the same features and the same panic strategy.
//! Otherwise a command builds wasmtime again, which takes minutes.

use std::collections::BTreeSet;
use std::fs;
use std::process::Command;

use super::root;

/// The dependencies that a command builds, with versions and features.
fn dependencies(arguments: &[&str]) -> BTreeSet<String> {
    let output = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()))
        .current_dir(root())
        .args(["tree", "--locked", "--offline", "--prefix", "none"])
        .args(["--format", "{p} {f}"])
        .args(arguments)
        .output()
        .unwrap();
    let problem = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{arguments:?}: {problem}");
    let text = String::from_utf8(output.stdout).unwrap();
    let lines = text.lines().map(|line| line.trim_end_matches(" (*)"));
    lines.map(|line| line.trim_end().to_owned()).collect()
}

#[test]
fn commands_build_the_same_dependencies() {
    let all = dependencies(&["--workspace", "--edges", "normal,build,dev"]);
    assert!(all.iter().any(|line| line.starts_with("wasmtime v")));
    for (command, arguments) in [
        (
            "cargo run",
            ["--package=mswea-host", "--edges=normal,build"],
        ),
        (
            "cargo test and cargo bench",
            ["--package=mswea-host", "--edges=normal,build,dev"],
        ),
    ] {
        let own = dependencies(&arguments);
        let other: Vec<_> = own.difference(&all).collect();
        assert!(
            other.is_empty(),
            "`{command}` builds these with other features than `cargo test --workspace`: {other:#?}"
        );
    }
}

#[test]
fn benchmarks_use_what_a_release_build_has_built() {
    let manifest = fs::read_to_string(root().join("Cargo.toml")).unwrap();
    let (_, release) = manifest.split_once("\n[profile.release]\n").unwrap();
    let release = release.split("\n[").next().unwrap();
    // Cargo builds benchmarks with unwinding even if the profile says `abort`.
    let panics = release.lines().any(|line| line.starts_with("panic"));
    assert!(!panics, "`cargo bench` would build every dependency again");
    assert!(!manifest.contains("\n[profile.bench"));
}

//! All cargo commands build the dependencies with the same features and the same panic strategy.
//! Otherwise a command builds wasmtime again, which takes minutes. `cargo test` looks for examples in the
//! documentation of those crates only that have some.

use std::collections::BTreeSet;
use std::fs;
use std::process::Command;

use super::{root, rust_files};

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

/// Whether the documentation in this source has code that `cargo test` compiles.
fn has_examples(source: &str) -> bool {
    let lines = source.lines().map(str::trim_start);
    let docs = lines.filter_map(|line| line.strip_prefix("///").or(line.strip_prefix("//!")));
    let mut fences = docs.filter_map(|line| line.trim_start().strip_prefix("```"));
    let mut found = false;
    while let Some(language) = fences.next() {
        found |= language.is_empty() || language.starts_with("rust");
        fences.next();
    }
    found
}

#[test]
fn crates_with_examples_have_doctests_and_others_have_none() {
    let mut manifests = Vec::new();
    for folder in ["host", "plugins", "sdk/rust", "tests/scripted-server"] {
        let tracked = Command::new("git")
            .current_dir(root())
            .args(["ls-files", folder])
            .output()
            .unwrap();
        let tracked = String::from_utf8(tracked.stdout).unwrap();
        let names = tracked.lines().filter(|line| line.ends_with("Cargo.toml"));
        manifests.extend(names.map(|name| root().join(name)));
    }
    let mut with = 0;
    for manifest in &manifests {
        let source = manifest.with_file_name("src");
        if !source.join("lib.rs").exists() {
            continue;
        }
        let mut files = Vec::new();
        rust_files(&source, &mut files);
        let examples = files
            .iter()
            .any(|file| has_examples(&fs::read_to_string(file).unwrap()));
        let text = fs::read_to_string(manifest).unwrap();
        assert_eq!(
            examples,
            !text.contains("\ndoctest = false\n"),
            "{}: `doctest = false` in `[lib]` if the documentation has no example, and only then",
            manifest.display()
        );
        with += usize::from(examples);
    }
    assert!(with >= 2 && manifests.len() > 40, "{with} of {manifests:?}");
    assert!(!has_examples("/// ```text\n/// ```\n"));
    assert!(has_examples(
        "//! ```text\n//! ```\n    /// ```\n    /// 1;\n    /// ```"
    ));
}

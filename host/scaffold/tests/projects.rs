//! Real projects with the real tools: new projects pass their own tests and build, and errors are
//! reported.
//!
//! Rust is installed, since it has built this test. If another tool is missing, its test prints
//! that it is skipped, or fails if `MSWEA_TEST_REQUIRE` names the tool. `MSWEA_TEST_HOST` may name
//! a host program that inspects the components.

#![allow(clippy::unwrap_used, reason = "a test that can't go on fails")]

use std::ffi::OsString;
use std::fs;
use std::io::Write as _;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;

use mswea_scaffold::{Build, Created, Error, Language, New, PluginKind, build, new, test_command};
use tempfile::TempDir;

/// A project in a folder of its own.
struct TestProject {
    root: TempDir,
    folder: PathBuf,
    created: Created,
}

fn make(kind: PluginKind, language: Language) -> TestProject {
    let root = tempfile::tempdir().unwrap();
    let folder = root.path().join("project");
    let created = new(&New {
        kind,
        language,
        name: format!("my-{kind}"),
        folder: Some(folder.clone()),
    })
    .unwrap();
    // Shared by all Rust projects, so that the SDK is compiled once.
    let config = root.path().join(".cargo");
    fs::create_dir(&config).unwrap();
    let target = Path::new(env!("CARGO_TARGET_TMPDIR")).join("projects");
    fs::write(
        config.join("config.toml"),
        format!("[build]\ntarget-dir = {target:?}\n"),
    )
    .unwrap();
    TestProject {
        root,
        folder,
        created,
    }
}

fn build_quietly(folder: &Path) -> Result<mswea_scaffold::BuiltComponent, Error> {
    build(folder, &Build::default(), &mut |_| {})
}

fn with_path(folder: &Path, path: &Path, install: bool) -> Error {
    let options = Build {
        path: Some(OsString::from(path)),
        install,
        ..Build::default()
    };
    build(folder, &options, &mut |_| {}).expect_err("a tool is missing")
}

/// Whether a program is installed.
fn has(program: &str) -> bool {
    let is_there = Command::new(program)
        .arg("--version")
        .output()
        .is_ok_and(|run| run.status.success());
    if is_there {
        return true;
    }
    let required = std::env::var("MSWEA_TEST_REQUIRE").unwrap_or_default();
    assert!(
        !required.split_whitespace().any(|name| name == program),
        "this test needs `{program}`"
    );
    // Written past the test runner's capture.
    let name = std::thread::current().name().unwrap_or("?").to_owned();
    let written = fs::OpenOptions::new()
        .append(true)
        .open("/proc/self/fd/2")
        .and_then(|mut file| writeln!(file, "SKIPPED (no {program}): {name}"));
    drop(written);
    false
}

fn run(folder: &Path, words: &[String]) {
    let mut command = Command::new(&words[0]);
    command.args(&words[1..]).current_dir(folder);
    // Variables of the cargo that runs this test.
    for name in ["CARGO_TARGET_DIR", "RUSTFLAGS", "CARGO_ENCODED_RUSTFLAGS"] {
        command.env_remove(name);
    }
    let run = command.output().unwrap();
    assert!(
        run.status.success(),
        "{words:?}:\n{}{}",
        String::from_utf8_lossy(&run.stdout),
        String::from_utf8_lossy(&run.stderr)
    );
}

/// Makes a project and checks that it passes its own tests, builds, and has the properties that
/// were asked for.
fn works(kind: PluginKind, language: Language) {
    let made = make(kind, language);
    assert!(!made.created.next.is_empty());
    run(&made.folder, &test_command(&made.folder).unwrap());
    let built = build_quietly(&made.folder).unwrap();
    assert_eq!(
        built.path,
        made.folder.join(format!("build/my-{kind}.wasm"))
    );
    let bytes = fs::read(&built.path).unwrap();
    assert_eq!(bytes.len() as u64, built.size);
    // The preamble of a component; the names of its exports follow as plain text.
    assert_eq!(bytes[..8], *b"\0asm\x0d\0\x01\0");
    let export = format!("mswea:plugin/{}@0.1.0", kind.interface());
    assert!(
        bytes
            .windows(export.len())
            .any(|part| part == export.as_bytes()),
        "no {export}"
    );
    if let Some(host) = std::env::var_os("MSWEA_TEST_HOST") {
        let look = Command::new(host)
            .args(["plugin", "inspect"])
            .arg(&built.path)
            .output()
            .unwrap();
        let text = String::from_utf8_lossy(&look.stdout);
        assert!(
            text.contains(kind.interface()) && text.contains(&format!("my_{kind}")),
            "{text}{}",
            String::from_utf8_lossy(&look.stderr)
        );
    }
}

#[test]
fn every_kind_works_in_rust() {
    for kind in PluginKind::ALL {
        works(kind, Language::Rust);
    }
}

#[test]
fn every_kind_works_in_c() {
    if has("clang") && has("make") {
        for kind in PluginKind::ALL {
            works(kind, Language::C);
        }
    }
}

#[test]
fn a_mistake_in_rust_is_shown_with_its_line() {
    let made = make(PluginKind::Policy, Language::Rust);
    let file = made.folder.join("src/lib.rs");
    let text = fs::read_to_string(&file).unwrap();
    fs::create_dir(made.folder.join("build")).unwrap();
    fs::write(made.folder.join("build/my-policy.wasm"), "old").unwrap();
    fs::write(&file, text.replace("Verdict::Allow", "Verdict::Alow")).unwrap();
    let error = build_quietly(&made.folder).unwrap_err().to_string();
    assert!(
        error.contains("src/lib.rs:") && error.contains("Alow"),
        "{error}"
    );
    assert!(!made.folder.join("build/my-policy.wasm").exists());
}

#[test]
fn a_library_without_a_component_is_told() {
    let made = make(PluginKind::Policy, Language::Rust);
    let file = made.folder.join("Cargo.toml");
    let text = fs::read_to_string(&file).unwrap();
    fs::write(&file, text.replace("[\"cdylib\", \"rlib\"]", "[\"rlib\"]")).unwrap();
    let error = build_quietly(&made.folder).unwrap_err();
    assert!(
        matches!(&error, Error::NoComponent { why, .. } if why.contains("cdylib")),
        "{error}"
    );
}

#[test]
fn a_mistake_in_c_is_shown_with_its_line() {
    if !(has("clang") && has("make")) {
        return;
    }
    let made = make(PluginKind::Policy, Language::C);
    let file = made.folder.join("plugin.c");
    let text = fs::read_to_string(&file).unwrap();
    fs::write(&file, text.replace("return NULL;", "return NUL;")).unwrap();
    let mut lines = Vec::new();
    let error = build(&made.folder, &Build::default(), &mut |line| {
        lines.push(line.to_owned());
    });
    let error = error.unwrap_err().to_string();
    assert!(
        error.contains("plugin.c:") && error.contains("'NUL'"),
        "{error}"
    );
    assert!(
        lines.iter().all(|line| !line.contains("plugin.c:")),
        "{lines:?}"
    );
}

#[test]
fn a_missing_tool_is_named_with_the_command_that_installs_it() {
    let empty = tempfile::tempdir().unwrap();
    for (language, tool, install) in [
        (Language::Rust, "`cargo`", "rustup target add wasm32-wasip2"),
        (Language::C, "`make`", "apt-get install make"),
    ] {
        let made = make(PluginKind::Parser, language);
        let error = with_path(&made.folder, empty.path(), false);
        assert!(matches!(error, Error::Missing { .. }), "{error}");
        let text = error.to_string();
        assert!(text.contains(tool) && text.contains(install), "{text}");
    }
    // With `make` alone.
    let make_alone = tempfile::tempdir().unwrap();
    symlink("/bin/true", make_alone.path().join("make")).unwrap();
    let made = make(PluginKind::Parser, Language::C);
    let text = with_path(&made.folder, make_alone.path(), false).to_string();
    for part in ["`clang`", "apt-get install clang wasi-libc", "ziglang"] {
        assert!(text.contains(part), "{text}");
    }
    // For these languages the build reports it before it reads any source.
    let node_alone = tempfile::tempdir().unwrap();
    symlink("/bin/true", node_alone.path().join("node")).unwrap();
    for (language, path, part) in [
        (
            "python",
            &empty,
            ".venv/bin/pip install -r requirements.txt",
        ),
        ("js", &empty, "apt-get install nodejs npm"),
        ("js", &node_alone, "npm ci"),
    ] {
        let folder = tempfile::tempdir().unwrap();
        let text = format!(
            "name = \"a\"\nkind = \"parser\"\nlanguage = \"{language}\"\ncontract = \"0.1.0\"\n"
        );
        fs::write(folder.path().join("mswea-plugin.toml"), text).unwrap();
        let text = with_path(folder.path(), path.path(), false).to_string();
        assert!(text.contains(part), "{text}");
    }
    // The program that would install it is missing as well.
    let text = with_path(&made.folder, make_alone.path(), true).to_string();
    assert!(text.contains("`python3`"), "{text}");
    drop(made.root);
}

/// Only `--install` downloads something.
#[test]
fn the_target_of_rust_is_fetched_only_if_that_is_wanted() {
    let tools = tempfile::tempdir().unwrap();
    let at = |name: &str| tools.path().join(name);
    for (name, script) in [
        ("cargo", "exit 1".to_owned()),
        ("rustc", "echo /nonexistent/lib".to_owned()),
        ("rustup", format!(": > '{}'", at("asked").display())),
    ] {
        let mut file = fs::File::create(at(name)).unwrap();
        writeln!(file, "#!/bin/sh\n{script}").unwrap();
        let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
        file.set_permissions(mode).unwrap();
    }
    let made = make(PluginKind::Parser, Language::Rust);
    let text = with_path(&made.folder, tools.path(), false).to_string();
    assert!(text.contains("rustup target add wasm32-wasip2"), "{text}");
    assert!(!at("asked").exists(), "rustup was run without `--install`");
    with_path(&made.folder, tools.path(), true);
    assert!(at("asked").exists());
}

#[test]
fn what_is_no_project_is_told() {
    let folder = tempfile::tempdir().unwrap();
    let error = build_quietly(folder.path()).unwrap_err();
    assert!(matches!(error, Error::NotAProject { .. }), "{error}");
    assert!(error.to_string().contains("mswea-host plugin new"));
    assert!(!folder.path().join("build").exists());
}

/// The C code of this repository: the SDK's own tests, and the example.
#[test]
fn the_sdk_and_the_example_in_c_pass_their_tests() {
    if !(has("clang") && has("make")) {
        return;
    }
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    for (folder, goals) in [
        ("sdk/c/tests", &["test"][..]),
        ("examples/policy-c", &["test", "plugin"]),
    ] {
        // `make` takes no path with a space.
        let out = tempfile::tempdir_in("/tmp").unwrap();
        let mut words = vec!["make".to_owned(), format!("BUILD={}", out.path().display())];
        words.extend(goals.iter().map(|&goal| goal.to_owned()));
        run(&root.join(folder), &words);
        assert!(out.path().join("test").is_file());
        assert_eq!(
            out.path().join("stay-inside.wasm").is_file(),
            goals.contains(&"plugin")
        );
    }
}

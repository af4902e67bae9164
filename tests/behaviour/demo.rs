//! The demo works without a key, a network and a home folder.

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::host::{Host, Signal};
use crate::run::Run;
use crate::story::git;

#[track_caller]
fn is_patch(text: &str) {
    assert!(
        text.starts_with("diff --git a/slugify.sh b/slugify.sh\n"),
        "{text}"
    );
    assert_eq!(text.matches("diff --git").count(), 1, "{text}");
    assert!(text.contains("\n+    sed -e"), "{text}");
}

/// The entries left in the folder for temporary files.
fn left(run: &Run) -> Vec<PathBuf> {
    let entries = fs::read_dir(run.dir.parent().unwrap().join("tmp")).unwrap();
    entries.map(|entry| entry.unwrap().path()).collect()
}

#[test]
fn it_fixes_the_bug_in_any_environment() {
    // The environment of a git hook, of a machine with a proxy, of a user with other settings.
    let hostile = [
        ("GIT_DIR", "/nonexistent"),
        ("GIT_INDEX_FILE", "/nonexistent/index"),
        ("HTTPS_PROXY", "http://127.0.0.1:9"),
        ("MSWEA_MODEL_NAME", "openai/other"),
        ("MSWEA_GLOBAL_COST_LIMIT", "0.01"),
        ("HOME", "/dev/null"),
        ("XDG_CONFIG_HOME", "/dev/null"),
        ("XDG_STATE_HOME", "/dev/null"),
    ];
    let mut host = Host::new().arg("demo");
    for (name, value) in hostile {
        host = host.env(name, value);
    }
    let run = host.run().expect(0);
    is_patch(&run.stdout);
    let run = run.says(&[
        "3 of 6 tests failed",
        "all 6 tests passed",
        "Submitted",
        "mswea-host -m openai/",
    ]);
    assert_eq!(left(&run), [] as [PathBuf; 0]);
    assert_eq!(fs::read_dir(&run.dir).unwrap().count(), 0);

    let mut bare = Host::new().arg("demo");
    for name in [
        "HOME",
        "XDG_CONFIG_HOME",
        "XDG_DATA_HOME",
        "XDG_STATE_HOME",
        "XDG_CACHE_HOME",
    ] {
        bare = bare.env_remove(name);
    }
    is_patch(&bare.run().expect(0).stdout);
    // The cache can't be written: its path is not a folder.
    let host = Host::new()
        .arg("demo")
        .env("HOME", "/proc/self")
        .env("XDG_CACHE_HOME", "/dev/null");
    is_patch(&host.run().expect(0).stdout);
}

#[test]
fn its_output_follows_the_flags() {
    let quiet = Host::new().args(["demo", "-q"]).run().expect(0);
    is_patch(&quiet.stdout);
    assert_eq!(quiet.stderr.trim_end().lines().count(), 1, "{quiet}");
    let listed = |run: &Run| Host::after(run).args(["runs", "list"]).run().expect(0);
    let removed = listed(&quiet);
    assert_eq!(removed.stdout, "no runs\n");
    assert_eq!(removed.stderr, "");

    let json = Host::new().args(["demo", "--json"]).run().expect(0);
    let events: Vec<Value> = json
        .stdout
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    is_patch(events.last().unwrap()["submission"].as_str().unwrap());
    assert!(json.stderr.is_empty(), "{json}");

    let kept = Host::new().args(["demo", "--keep"]).run().expect(0);
    let folder = &left(&kept)[0];
    assert_eq!(listed(&kept).stdout.lines().count(), 2);
    assert!(kept.stderr.contains(folder.to_str().unwrap()), "{kept}");
    assert!(folder.join("demo.traj.json").is_file() && folder.join("demo.events.jsonl").is_file());
    assert_eq!(
        git(&folder.join("slugify"), &["status", "--short"]).trim(),
        "M slugify.sh"
    );
}

#[test]
fn a_missing_tool_or_temporary_folder_is_reported() {
    let tools = Host::new();
    let shell = tools.dir().join("sh");
    std::os::unix::fs::symlink("/bin/sh", &shell).unwrap();
    let path = shell.parent().unwrap().to_owned();
    tools
        .arg("demo")
        .env("PATH", &path)
        .run()
        .expect(1)
        .says(&["`git`", "install it"]);
    let host = Host::new().arg("demo").env("TMPDIR", "/nonexistent");
    host.run()
        .expect(1)
        .says(&["can't make a temporary folder", "`TMPDIR`"]);
}

#[test]
fn it_can_be_interrupted() {
    let mut running = Host::new().arg("demo").spawn();
    running.until("the second step", |run| run.stderr().contains("step 2"));
    running.signal(Signal::INT);
    let run = running.wait().expect(130);
    assert_eq!(left(&run), [] as [PathBuf; 0]);
    assert!(Path::new(&run.dir).is_dir());
}

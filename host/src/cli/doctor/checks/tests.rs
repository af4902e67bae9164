//! Tests of the checks with simulated machines.

use super::*;

/// A folder with programs and other files: name, content, mode.
fn folder(files: &[(&str, &str, u32)]) -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    for (name, content, mode) in files {
        let path = folder.path().join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        // The file is written by another process, so that this one has no open descriptor for
        // writing when another test starts a program.
        let script = "printf %s \"$1\" >\"$2\"; chmod $3 \"$2\"";
        let written = Command::new("sh")
            .args(["-c", script, "sh", content])
            .arg(&path)
            .arg(format!("{mode:o}"))
            .status();
        assert!(written.unwrap().success());
    }
    folder
}

#[tokio::test]
async fn commands_run_here() {
    let works = local(None).await;
    assert_eq!(
        (works.name, works.state),
        (LOCAL, ProbeState::Works),
        "{works:?}"
    );
    assert_eq!(works.remedy, "");
}

#[test]
fn shells_and_git() {
    let good = "#!/bin/sh\necho the version; echo more\n";
    let bad = "#!/bin/sh\nexit 3\n";
    for (files, bash, git_state, detail) in [
        (
            &[("bash", good, 0o755), ("git", good, 0o755)][..],
            ProbeState::Works,
            ProbeState::Works,
            "git: the version",
        ),
        (
            &[("bash", bad, 0o755), ("git", bad, 0o755)],
            ProbeState::Limited,
            ProbeState::Missing,
            "does not work",
        ),
        (
            &[("bash", good, 0o644), ("git/x", "", 0o755)],
            ProbeState::Limited,
            ProbeState::Missing,
            "not on `PATH`",
        ),
        (
            &[],
            ProbeState::Limited,
            ProbeState::Missing,
            "not on `PATH`",
        ),
    ] {
        let folder = folder(files);
        let path = folder.path().as_os_str();
        let (shell, git) = (interpreter(path), git(path));
        assert_eq!(
            (shell.state, git.state),
            (bash, git_state),
            "{shell:?} {git:?}"
        );
        assert!(git.detail.contains(detail), "{git:?}");
        for probe in [shell, git] {
            assert_eq!(
                probe.remedy.is_empty(),
                probe.state == ProbeState::Works,
                "{probe:?}"
            );
        }
    }
}

#[test]
fn guardians() {
    let folder = folder(&[
        (
            "good",
            "#!/bin/sh\n[ \"$1\" = __guard ] && ! read line\n",
            0o755,
        ),
        ("bad", "#!/bin/sh\nexit 2\n", 0o755),
        ("plain", "", 0o644),
    ]);
    for (name, works) in [
        ("good", true),
        ("bad", false),
        ("plain", false),
        ("none", false),
    ] {
        let probe = guardian(Some(&folder.path().join(name)));
        assert_eq!(
            probe.state == ProbeState::Missing,
            !works,
            "{name}: {probe:?}"
        );
        assert_eq!(probe.detail.contains("live on"), !works);
    }
    assert_eq!(guardian(None).state, ProbeState::Missing);
}

#[test]
fn versions_of_cgroups() {
    for (files, state, detail) in [
        (
            &["cgroup.controllers"][..],
            ProbeState::Limited,
            "can't be limited",
        ),
        (&["memory/tasks"], ProbeState::Limited, "version 1"),
        (&["unified/cgroup.procs"], ProbeState::Limited, "version 1"),
        (&[], ProbeState::Limited, "none at"),
    ] {
        let files: Vec<_> = files
            .iter()
            .map(|name| format!("sys/fs/cgroup/{name}"))
            .collect();
        let files: Vec<_> = files
            .iter()
            .map(|name| (name.as_str(), "cpu\n", 0o644))
            .collect();
        let probe = cgroups(folder(&files).path());
        assert_eq!(probe.state, state, "{probe:?}");
        assert!(
            probe.detail.contains(detail) && !probe.remedy.is_empty(),
            "{probe:?}"
        );
    }
    let two = folder(&[(
        "sys/fs/cgroup/cgroup.controllers",
        "cpu memory pids\n",
        0o644,
    )]);
    let probe = cgroups(two.path());
    assert_eq!(
        (probe.state, probe.detail.as_str()),
        (ProbeState::Works, "version 2")
    );
}

#[test]
fn folders() {
    let folder = folder(&[("file", "", 0o644)]);
    let at = |name: &str| folder.path().join(name);
    let kept = CacheUse::Trusting;
    assert_eq!(cache(Some(&at("new/deep")), &kept).state, ProbeState::Works);
    assert!(!at("new").exists(), "looking made it");
    assert_eq!(cache(Some(&at("file/x")), &kept).state, ProbeState::Limited);
    assert_eq!(cache(None, &kept).state, ProbeState::Limited);
    let unsafe_here = cache(Some(&at("new/deep")), &CacheUse::None("no login".into()));
    assert_eq!(unsafe_here.state, ProbeState::Limited);
    assert_ne!(temporary(folder.path()).state, ProbeState::Missing);
    assert_eq!(
        folder.path().read_dir().unwrap().count(),
        1,
        "something is left"
    );
    assert_eq!(temporary(&at("missing")).state, ProbeState::Missing);
    assert_eq!(temporary(&at("file")).state, ProbeState::Missing);
}

#[test]
fn small_ones() {
    let probe = keys(["B_KEY", "A_KEY", "B_KEY"].into_iter());
    assert_eq!(
        (probe.state, probe.detail.as_str()),
        (ProbeState::Works, "A_KEY, B_KEY")
    );
    assert_eq!(keys([].into_iter()).state, ProbeState::Limited);
    assert_eq!(leftovers("").state, ProbeState::Works);
    let probe = leftovers("2 processes");
    assert_eq!(probe.state, ProbeState::Limited);
    assert!(probe.remedy.contains("mswea-host gc"));
    let look = |live, colour| Look {
        live,
        redraw: live,
        colour,
        ..Look::default()
    };
    for (look, detail) in [
        (
            look(false, false),
            "none: progress is printed plainly, line by line",
        ),
        (look(true, true), "yes: colours, live progress"),
        (look(true, false), "yes: live progress"),
    ] {
        assert_eq!(terminal(look).detail, detail);
    }
}

//! At every ending the salvage command saves the work as a patch, and the user's index, objects and refs
//! stay unchanged.

use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

use scripted_server::{Scenario, Server, Turn};
use serde_json::Value;

use crate::host::{Host, Signal};
use crate::run::Run;
use crate::story::{commands, git, impatient, repository, submit, turns};

const WORK: &str = "echo more >> kept.txt; mkdir -p new; echo new > 'new/a file.txt'; \
                    printf '\\0\\1' > new/binary; echo no > ignored; echo ignored > .gitignore";

fn salvaged(run: &Run) -> Value {
    run.trajectory()["info"]["mswea"]["salvage"].clone()
}

/// The parts of a repository that must not change: index, objects, refs.
fn untouchable(folder: &Path) -> (Vec<u8>, String, String) {
    (
        fs::read(folder.join(".git/index")).unwrap(),
        git(folder, &["count-objects", "-v"]),
        git(folder, &["for-each-ref"]),
    )
}

#[test]
fn work_is_salvaged_at_every_ending() {
    let work = || Turn::commands(&[WORK]);
    let quiet = Duration::from_secs(30);
    for (name, next, arguments, code) in [
        ("submitted", Turn::commands(&[submit("done")]), &[][..], 0),
        ("limit", work(), &["--step-limit", "1"], 3),
        ("format", Turn::text("talk"), &[], 4),
        ("error", Turn::status(401), &[], 5),
        ("time", work().with_delay(quiet), &["--time-limit", "1"], 3),
        ("signal", work().with_delay(quiet), &[], 130),
    ] {
        let server = Server::start(Scenario::new([work(), next.clone(), next.clone(), next]));
        let host = Host::new().server(&server).task("x").args(arguments);
        let folder = host.dir();
        repository(&folder);
        let before = untouchable(&folder);
        let mut running = host.spawn();
        if code == 130 {
            running.until("the second query", |_| server.served() == 2);
            running.signal(Signal::TERM);
        }
        let run = running.wait().expect(code).nothing_left();
        assert_eq!(untouchable(&folder), before, "{name}");

        let salvage = salvaged(&run);
        assert_eq!(salvage["returncode"], 0, "{name}: {salvage}");
        let patch = salvage["output"].as_str().unwrap();
        for part in [
            "+more",
            "b/new/a file.txt",
            "b/new/binary",
            "+staged by the user",
            "b/.gitignore",
        ] {
            assert!(patch.contains(part), "{name}: `{part}` is not in {patch}");
        }
        assert!(
            !patch.contains("b/ignored") && !patch.contains("traj.json\n+++"),
            "{patch}"
        );
        // The patch is recorded once, and git can apply it.
        assert_eq!(run.events("salvaged").len(), 1, "{name}");
        let clean = tempfile::tempdir().unwrap();
        let (from, to) = (folder.to_str().unwrap(), clean.path().to_str().unwrap());
        git(&folder, &["clone", "--quiet", from, to]);
        fs::write(clean.path().join("salvage.patch"), patch).unwrap();
        git(clean.path(), &["apply", "salvage.patch"]);
        for file in ["kept.txt", "new/a file.txt", "new/binary", "staged.txt"] {
            let (ours, theirs) = (
                fs::read(folder.join(file)),
                fs::read(clean.path().join(file)),
            );
            assert_eq!(ours.unwrap(), theirs.unwrap(), "{name}: {file}");
        }
    }
}

#[test]
fn without_changes_the_salvaged_patch_is_empty() {
    // There is no repository, or a repository without a change.
    for prepare in [None, Some(&["init", "--quiet", "--template="][..])] {
        let server = commands(&[]);
        let host = Host::new()
            .server(&server)
            .args(["-t", "x", "-o", "../traj.json"]);
        if let Some(arguments) = prepare {
            git(&host.dir(), arguments);
        }
        let run = host.run().expect(0);
        let salvage = salvaged(&run);
        assert_eq!(
            (&salvage["output"], &salvage["returncode"]),
            (&"".into(), &0.into())
        );
    }
    // A run that ends before its first query runs no salvage command.
    let server = turns([]);
    let run = Host::new()
        .server(&server)
        .task("x")
        .args(["--cwd", "gone", "-c", "agent.salvage_command=touch ran"])
        .run()
        .expect(6);
    assert!(salvaged(&run).is_null());
}

#[test]
fn the_salvage_command_can_be_set() {
    let server = commands(&["echo work > file"]);
    let run = Host::new()
        .server(&server)
        .task("x")
        .args(["-c", "agent.salvage_command=cat file; exit 7"])
        .run()
        .expect(0);
    let salvage = salvaged(&run);
    assert_eq!(
        (&salvage["output"], &salvage["returncode"]),
        (&"work\n".into(), &7.into())
    );

    let server = commands(&[]);
    let unset = ["-c", "agent.salvage_command=null"];
    let run = Host::new()
        .server(&server)
        .task("x")
        .args(unset)
        .run()
        .expect(0);
    assert!(salvaged(&run).is_null());

    // A salvage command that hangs is ended, and its output until then is kept.
    let server = Server::start(Scenario::always(Turn::status(400)));
    let begun = Instant::now();
    let hangs = "agent.salvage_command=echo half; (setsid sleep 300 &); sleep 301";
    let run = impatient(&server)
        .args(["-c", hangs, "-c", "agent.salvage_timeout=0.3"])
        .run()
        .expect(5)
        .nothing_left();
    assert!(begun.elapsed() < Duration::from_secs(5));
    let salvage = salvaged(&run);
    assert_eq!(salvage["output"], "half\n");
    assert_eq!(salvage["returncode"], -1, "{salvage}");
}

/// The patch of a run whose model gives `command` and then reaches a limit.
fn patch_of(prepare: &str, command: &str, arguments: &[&str]) -> (Run, String) {
    let server = Server::start(Scenario::always(Turn::commands(&[command])));
    let host =
        Host::new()
            .server(&server)
            .args(["--step-limit", "1", "-t", "x", "-o", "../traj.json"]);
    let folder = host.dir();
    git(&folder, &["init", "--quiet", "--template="]);
    fs::write(folder.join("a.txt"), "one\ntwo\nthree\n").unwrap();
    git(&folder, &["add", "a.txt"]);
    git(&folder, &["commit", "--quiet", "--message=first"]);
    let prepared = std::process::Command::new("sh")
        .args(["-ec", prepare])
        .current_dir(&folder)
        .status();
    assert!(prepared.unwrap().success(), "{prepare}");
    let run = host.args(arguments).run().expect(3);
    let patch = salvaged(&run)["output"].as_str().unwrap().to_owned();
    (run, patch)
}

#[test]
fn the_patch_counts_from_the_commit_at_the_start() {
    for prepare in [
        "true",
        "git config diff.noprefix true; git config diff.context 0; git config color.ui always; git config diff.external /bin/false",
        "git config core.fsmonitor /no/such; echo '* filter=x' >.gitattributes; git config filter.x.clean /no/such; git config filter.x.required true",
    ] {
        let (_, patch) = patch_of(
            prepare,
            "echo t >>a.txt; git -c core.fsmonitor= -c filter.x.required=false -c filter.x.clean= -c user.name=n -c user.email=e commit -qam m; echo n >n.txt",
            &[],
        );
        for part in [
            "diff --git a/a.txt b/a.txt",
            " one\n two\n three\n+t\n",
            "+++ b/n.txt",
        ] {
            assert!(
                patch.contains(part),
                "{prepare}: `{part}` is not in {patch}"
            );
        }
    }
}

#[test]
fn the_ending_names_what_is_not_in_the_patch() {
    let (run, patch) = patch_of(
        "echo mine >>a.txt",
        "mkdir in; git init -q in; echo i >in/i; mkfifo pipe; printf 'caf\\351\\n' >l",
        &[],
    );
    assert!(
        patch.contains("b/in/i") && patch.contains("GIT binary patch"),
        "{patch}"
    );
    let run = run.says(&[
        "saved changes: `in` is a repository that was made during the run",
        "had changes before the run",
        "`a.txt`",
    ]);
    let notes = salvaged(&run)["extra"]["notes"].as_array().unwrap().len();
    assert!(notes >= 2, "{}", salvaged(&run));
    // Without its repository, the files themselves are kept.
    let (run, patch) = patch_of("true", "echo t >>a.txt; rm -rf .git", &[]);
    run.says(&[
        "the repository that was there at the start is gone",
        "archive",
    ]);
    assert_eq!(patch, "");
}

#[test]
fn mini_s_files_are_saved_too() {
    let config = "agent:\n  system_template: s\n  instance_template: '{{task}}'\n";
    let server = Server::start(Scenario::always(Turn::commands(&["echo t >>kept.txt"])));
    let host = Host::new().file("mini.yaml", config).server(&server).args([
        "-c",
        "mini.yaml",
        "--step-limit",
        "1",
        "-t",
        "x",
        "-o",
        "../traj.json",
    ]);
    repository(&host.dir());
    let run = host.run().expect(3);
    assert!(salvaged(&run)["output"].as_str().unwrap().contains("+t\n"));
    assert_eq!(run.trajectory()["info"]["submission"], "");
}

#[test]
fn nothing_of_a_repository_runs_before_a_command_and_nothing_is_saved() {
    let server = Server::start(Scenario::always(Turn::text("talk")));
    let host = Host::new()
        .server(&server)
        .args(["-t", "x", "-o", "../traj.json"]);
    let folder = host.dir();
    repository(&folder);
    git(&folder, &["config", "core.fsmonitor", "touch ../ran"]);
    git(&folder, &["config", "filter.x.clean", "touch ../ran; cat"]);
    fs::write(folder.join(".gitattributes"), "* filter=x\n").unwrap();
    let run = host.run().expect(4);
    assert!(salvaged(&run).is_null(), "{}", salvaged(&run));
    assert!(!folder.join("../ran").exists());
}

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

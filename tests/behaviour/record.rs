//! The files of a run: the host checks that it can write them before the first request, renews them
//! during the run, and keeps them whole when commands of the run change them.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::time::SystemTime;

use scripted_server::{Fault, Scenario, Server, Turn};

use crate::host::{Host, Signal};
use crate::story::{commands, git, repository, turns};

/// All files below a folder, with content and time of change.
fn contents(folder: &Path) -> BTreeMap<String, (Vec<u8>, Option<SystemTime>)> {
    let mut all = BTreeMap::new();
    for entry in fs::read_dir(folder).unwrap().flatten() {
        let path = entry.path();
        let name = path.to_string_lossy().into_owned();
        if path.is_dir() {
            all.extend(contents(&path));
            all.insert(name, (Vec::new(), None));
        } else {
            let changed = entry.metadata().unwrap().modified().unwrap();
            all.insert(name, (fs::read(&path).unwrap(), Some(changed)));
        }
    }
    all
}

#[test]
fn a_trajectory_that_can_not_be_written_is_refused_before_the_first_request() {
    let server = commands(&[]);
    for output in [
        "new/",
        "old",
        "old/",
        "file/traj.json",
        "file/",
        "old/..",
        "",
    ] {
        let run = Host::new()
            .server(&server)
            .file("old/x", "")
            .file("file", "")
            .args(["-t", "x", "-o", output])
            .run()
            .expect(2)
            .says(&["can't write the trajectory"]);
        assert!(!run.dir.join("new").exists(), "{output}");
    }
    assert_eq!(server.served(), 0);
}

#[test]
fn trajectories_with_other_endings_have_separate_journals() {
    let server = Server::start(Scenario::always(Turn::commands(&[
        "echo COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT",
    ])));
    let folder = tempfile::tempdir().unwrap();
    for _ in 0..2 {
        let runs = ["out", "out.json", "out.traj.json"].map(|name| {
            let host = Host::new().server(&server).args(["-t", "x", "-o"]);
            host.arg(folder.path().join(name)).run().expect(0)
        });
        for run in &runs {
            assert_eq!(run.trajectory()["info"]["mswea"]["run_id"], *run.run_id());
            assert_eq!(run.events("run_ended").len(), 1);
        }
    }
    // Three trajectories, three journals, and the three journals of the first round.
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 9);
}

#[test]
fn a_run_that_is_refused_changes_no_file() {
    let server = commands(&[]);
    let first = Host::new().server(&server).task("x").run().expect(0);
    let before = contents(&first.dir);
    for (arguments, code) in [
        (&["--plugin", "./gone.wasm"][..], 7),
        (&["-c", "pipeline.parser=nobody"], 7),
        (&["-c", "agent.instance_template={{"], 2),
        (&["-c", "agent.step_limit=many"], 2),
        (
            &[
                "-c",
                "environment.image=x",
                "--environment-class",
                "nowhere",
            ],
            2,
        ),
    ] {
        for output in ["traj.json", "new/deep/traj.json"] {
            let run = Host::new()
                .server(&server)
                .args(["-t", "x", "-o"])
                .arg(first.dir.join(output))
                .args(arguments)
                .run();
            assert!([code, 6].contains(&run.status), "{run}");
            assert_eq!(contents(&first.dir), before, "{run}");
        }
    }
}

/// Changes of the files by commands: each list is the commands of one run.
const HARMS: [&[&str]; 8] = [
    &["git stash -uq; git stash pop -q"],
    &["git stash -uq", "git stash pop -q"],
    &["git clean -qfdx"],
    &["sed -i s/a/b/ traj.events.jsonl traj.json"],
    &["mv traj.events.jsonl other; mv traj.json another"],
    &["mv traj.events.jsonl other; mkfifo traj.events.jsonl; rm traj.json; mkfifo traj.json"],
    &[": >traj.events.jsonl; : >traj.json"],
    &["echo more >>traj.events.jsonl; ln -sf kept.txt traj.json"],
];

#[test]
fn the_files_of_a_run_survive_changes_by_its_commands() {
    for harm in HARMS {
        let mut script = vec!["echo mine >mine.txt".to_owned()];
        script.extend(harm.iter().map(|command| {
            format!("git() {{ command git -c user.name=t -c user.email=t@t \"$@\"; }}; {command}")
        }));
        script.push("echo last".to_owned());
        let script: Vec<&str> = script.iter().map(String::as_str).collect();
        let server = commands(&script);
        let host = Host::new().server(&server).task("x");
        repository(&host.dir());
        let run = host.run().expect(0).says(&["a command has"]).nothing_left();
        assert_eq!(run.exit_status(), "Submitted", "{harm:?}");
        assert_eq!(run.trajectory()["info"]["mswea"]["complete"], true);
        let seqs: Vec<u64> = run
            .journal()
            .iter()
            .map(|event| event["seq"].as_u64().unwrap())
            .collect();
        let all: Vec<u64> = (1..=seqs.len() as u64).collect();
        assert_eq!(seqs, all, "{harm:?}");
        assert_eq!(run.events("output").len(), script.len() + 1, "{harm:?}");
        assert_eq!(run.events("run_ended").len(), 1, "{harm:?}");
        // The files of the user are as the commands left them.
        assert_eq!(git(&run.dir, &["stash", "list"]), "", "{harm:?}");
        let kept = fs::read_to_string(run.dir.join("kept.txt")).unwrap();
        assert_eq!(kept, "first\n", "{harm:?}");
        let mine = run.dir.join("mine.txt").exists();
        assert_eq!(mine, !harm[0].contains("clean"), "{harm:?}");
        // The journal went on in the state folder for a while. There, only the link for `runs list` and the digests are left.
        let state = run.dir.join("../home/.local/state/mswea-host/runs");
        let mut left: Vec<_> = fs::read_dir(state)
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        left.sort();
        let id = run.run_id();
        let expected = [format!("{id}.digests"), format!("{id}.run")];
        assert_eq!(left, expected, "{harm:?}");
    }
}

#[test]
fn the_salvaged_patch_does_not_contain_the_files_of_the_run() {
    for workspace in [false, true] {
        let server = Server::start(Scenario::commands(&[
            "echo work >work.txt; git add -A",
            "echo more >>work.txt; exit 1",
            "echo COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT",
        ]));
        let host = Host::new()
            .server(&server)
            .args(["-t", "x", "-o", "sub/traj.json"])
            .file("sub/tracked", "t\n")
            .file(
                "sub/traj.events.jsonl.1",
                "{\"format\":\"mswea-journal-2\"}\n",
            )
            .file("other/traj.json", "{\"mine\": 1}\n");
        let folder = host.dir();
        repository(&folder);
        let host = if workspace {
            host.args([
                "-c".to_owned(),
                format!("workspace.path={}", folder.display()),
            ])
        } else {
            host
        };
        let run = host.run().expect(0);
        let salvage = run.trajectory()["info"]["mswea"]["salvage"].clone();
        let patch = salvage["output"].as_str().unwrap();
        for part in ["+more", "b/work.txt"] {
            assert!(patch.contains(part), "{workspace}: {patch}");
        }
        for part in [
            "sub/traj.json",
            "events.jsonl",
            "mswea-journal",
            "mswea-tmp",
        ] {
            assert!(!patch.contains(part), "{workspace}: {part} in {patch}");
        }
        // A file of the user with such a name is in the patch, except with `workspace.path`, whose base
        // includes it.
        assert_eq!(patch.contains("other/traj.json"), !workspace, "{patch}");
    }
}

#[test]
fn a_trajectory_is_there_from_the_start_and_renewed() {
    let server = turns([
        Turn::commands(&["echo one"]),
        Turn::commands(&["sleep 2.2"]),
        Turn::fault(Fault::Silence),
    ]);
    let mut running = Host::new().server(&server).task("x").spawn();
    running.until("the first query", |_| server.served() > 0);
    // Before the first reply there is a trajectory, without an exit status.
    let first = fs::read(running.dir().join("traj.json")).unwrap();
    let first: serde_json::Value = serde_json::from_slice(&first).unwrap();
    assert_eq!(first["info"]["exit_status"], "");
    running.until("the third query", |_| server.served() == 3);
    let seen = |run: &crate::host::Running| {
        let text = fs::read(run.dir().join("traj.json")).unwrap();
        let value: serde_json::Value = serde_json::from_slice(&text).unwrap();
        value["messages"].as_array().unwrap().len()
    };
    running.until("a trajectory of both steps", |run| seen(run) == 6);
    running.signal(Signal::KILL);
    let run = running.wait();
    assert_eq!(run.trajectory()["info"]["mswea"]["complete"], false);
    assert_eq!(run.trajectory()["info"]["model_stats"]["api_calls"], 3);
}

/// A run that is killed before its first step does not leave the trajectory of an earlier run.
#[test]
fn a_killed_run_is_not_taken_for_the_one_before() {
    let server = turns([]);
    let first = Host::new().server(&server).task("first").run().expect(0);
    let server = turns([Turn::fault(Fault::Silence)]);
    let mut running = Host::new()
        .server(&server)
        .args(["-t", "second", "-o"])
        .arg(first.dir.join("traj.json"))
        .spawn();
    running.until("the first query", |_| server.served() > 0);
    running.signal(Signal::KILL);
    let second = running.wait();
    assert_eq!(second.exit_status(), "");
    let own = &second.trajectory()["info"]["mswea"];
    assert_eq!(
        (&own["task"], &own["complete"]),
        (&"second".into(), &false.into())
    );
    assert_eq!(own["run_id"], *second.run_id());
}

#[test]
fn a_pipe_in_place_of_the_trajectory_is_not_waited_for() {
    for what in ["mkfifo", "ln -s /dev/zero", "ln -s /etc/hostname"] {
        let server = commands(&[&format!("rm -f traj.json; {what} traj.json")]);
        let run = Host::new().server(&server).task("x").run().expect(0);
        assert_eq!(run.exit_status(), "Submitted");
        let there = fs::symlink_metadata(run.dir.join("traj.json")).unwrap();
        assert!(there.is_file(), "{what}");
    }
    // A device that the user names is written to.
    let server = commands(&[]);
    let host = Host::new()
        .server(&server)
        .args(["-t", "x", "-o", "/dev/stdout"]);
    let run = host.run().expect(0);
    assert!(run.stdout.contains("\"trajectory_format\""), "{run}");
    assert!(run.stdout.contains("done"), "{run}");
}

#[test]
fn exit_codes_can_be_those_of_mini_swe_agent() {
    let limit = ["--step-limit", "1"];
    for (flag, variable, arguments, turn, code) in [
        (None, None, &limit[..], Turn::commands(&["echo a"]), 3),
        (Some("mini"), None, &limit, Turn::commands(&["echo a"]), 0),
        (None, Some("mini"), &limit, Turn::commands(&["echo a"]), 0),
        (
            Some("mswea"),
            Some("mini"),
            &limit,
            Turn::commands(&["echo a"]),
            3,
        ),
        (Some("mini"), None, &[], Turn::status(401), 1),
        (None, None, &[], Turn::status(401), 5),
    ] {
        let server = turns([turn.clone(), turn]);
        let mut host = Host::new().server(&server).task("x").arg("--json");
        host = host
            .args(arguments)
            .args(["--on-end", "echo code $MSWEA_EXIT_CODE"]);
        if let Some(scheme) = flag {
            host = host.args(["--exit-codes", scheme]);
        }
        if let Some(scheme) = variable {
            host = host.env("MSWEA_EXIT_CODES", scheme);
        }
        let run = host.run().expect(code).says(&[&format!("code {code}")]);
        let last: serde_json::Value =
            serde_json::from_str(run.stdout.lines().last().unwrap()).unwrap();
        assert_eq!(last["exit_code"], code);
    }
    Host::new()
        .args(["--exit-codes", "other", "-t", "x"])
        .run()
        .expect(2)
        .says(&["mswea, mini"]);
}

#[test]
fn a_run_that_waits_for_the_disk_ends_as_any_other() {
    let server = commands(&["echo one", "echo two"]);
    let host = Host::new().server(&server).task("x").arg("--fsync");
    let run = host.run().expect(0);
    assert_eq!(run.exit_status(), "Submitted");
    assert_eq!(run.events("output").len(), 3);
}

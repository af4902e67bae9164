//! Commands that replace the folder of the run's files by a link, or make folders with the names of the
//! host's temporary files.

use std::fs;
use std::path::{Path, PathBuf};

use crate::host::Host;
use crate::needs::Need;
use crate::run::Run;
use crate::story::commands;

/// A run with `-o out/o.traj.json` whose first command is `swap`. The folder `victim`, beside the run's
/// folder, has two files with the names of the run's files.
fn swapped(swap: &str, arguments: &[&str]) -> (Run, PathBuf) {
    let server = commands(&[swap, "echo two"]);
    let host = Host::new()
        .server(&server)
        .args(["-t", "x", "-o", "out/o.traj.json"])
        .args(arguments)
        .file("../victim/o.traj.json", "kept")
        .file("../victim/o.events.jsonl", "kept");
    let victim = host.dir().join("../victim");
    (host.run(), victim)
}

#[track_caller]
fn untouched(victim: &Path, run: &Run) {
    for name in ["o.traj.json", "o.events.jsonl"] {
        let text = fs::read_to_string(victim.join(name)).unwrap();
        assert_eq!(text, "kept", "{name}\n{run}");
    }
    assert_eq!(fs::read_dir(victim).unwrap().count(), 2, "{run}");
}

#[track_caller]
fn is_whole(trajectory: &Path, journal: &Path) {
    let text = fs::read(trajectory).unwrap();
    let value: serde_json::Value = serde_json::from_slice(&text).unwrap();
    assert_eq!(value["info"]["mswea"]["complete"], true);
    let text = fs::read_to_string(journal).unwrap();
    assert!(text.contains("\"event\":\"run_ended\""), "{text}");
}

#[test]
fn a_link_in_place_of_the_folder_is_not_followed() {
    for arguments in [&[][..], &["-c", "environment.sandbox=landlock"]] {
        if !arguments.is_empty() && !Need::Landlock.is_met() {
            continue;
        }
        for harm in ["", "; rm out2/o.*", "; echo more >>out2/o.events.jsonl"] {
            let swap = format!("mv out out2; ln -s ../victim out{harm}");
            let (run, victim) = swapped(&swap, arguments);
            let run = run
                .expect(0)
                .says(&["a command has moved the folder", "work/out2`"]);
            untouched(&victim, &run);
            let moved = run.dir.join("out2");
            is_whole(&moved.join("o.traj.json"), &moved.join("o.events.jsonl"));
        }
    }
}

#[test]
fn files_whose_folder_is_removed_go_to_the_state_folder() {
    let (run, victim) = swapped("rm -r out; ln -s ../victim out", &[]);
    let run = run.expect(0).says(&["the trajectory is"]);
    untouched(&victim, &run);
    let state = run.dir.join("../home/.local/state/mswea-host/runs");
    let mut there: Vec<PathBuf> = fs::read_dir(state)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .collect();
    there.sort();
    // The digests, the journal, the link to the journal's first path, and the trajectory.
    assert_eq!(there.len(), 4, "{there:?}");
    is_whole(&there[3], &there[1]);
    // The run is listed once, and its id leads to its journal.
    let told = Host::after(&run).args(["runs", "list", "--json"]).run();
    let runs: serde_json::Value = serde_json::from_str(&told.expect(0).stdout).unwrap();
    assert_eq!(runs.as_array().unwrap().len(), 1, "{runs}");
    let id = runs[0]["run_id"].as_str().unwrap();
    assert_eq!(runs[0]["status"], "Submitted", "{runs}");
    let name = there[1].file_name().unwrap().to_str().unwrap();
    assert_eq!(name, format!("{id}.events.jsonl"));
    let told = Host::after(&run).args(["runs", "show", id]).run().expect(0);
    assert!(told.stdout.contains("Submitted"), "{told}");
}

#[test]
fn folders_named_like_the_temporary_files_do_no_harm() {
    for harm in [
        "mkdir out/.o.traj.json.mswea-tmp out/.o.events.jsonl.mswea-tmp",
        "mkdir -p out/.o.traj.json.mswea-tmp/x out/.o.events.jsonl.mswea-tmp/x; rm out/o.*",
    ] {
        let (run, _) = swapped(harm, &[]);
        let run = run.expect(0);
        let out = run.dir.join("out");
        is_whole(&out.join("o.traj.json"), &out.join("o.events.jsonl"));
        assert_eq!(fs::read_dir(&out).unwrap().count(), 4, "{run}");
    }
}

#[test]
fn a_trajectory_that_leads_to_its_own_journal_is_refused() {
    let server = commands(&[]);
    let host = Host::new()
        .server(&server)
        .args(["-t", "x", "-o", "o.traj.json"])
        .file("o.events.jsonl", "kept");
    std::os::unix::fs::symlink("o.events.jsonl", host.dir().join("o.traj.json")).unwrap();
    let run = host
        .run()
        .expect(2)
        .says(&["own journal", "o.events.jsonl"]);
    let text = fs::read_to_string(run.dir.join("o.events.jsonl")).unwrap();
    assert_eq!(text, "kept");
    assert_eq!(server.served(), 0);
}

//! `runs list`, `runs show` and `runs rm`, also with foreign files in the state folder.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;

use scripted_server::{Fault, Turn};
use serde_json::{Value, json};

use crate::host::{Host, Signal};
use crate::run::Run;
use crate::story::{commands, turns};

/// The runs in the state folder that this run used.
fn state(run: &Run) -> std::path::PathBuf {
    run.root.path().join("home/.local/state/mswea-host/runs")
}

fn listed(run: &Run) -> Vec<Value> {
    let told = Host::after(run).args(["runs", "list", "--json"]).run();
    let told = told.expect(0);
    serde_json::from_str(&told.stdout).unwrap()
}

/// The runs are: submitted with `-o`, submitted without it, killed, still running.
#[test]
fn all_runs_of_a_user_are_listed_the_newest_first() {
    let server = commands(&["echo one"]);
    let first = Host::new()
        .server(&server)
        .task("the first")
        .run()
        .expect(0);
    let server = commands(&[]);
    Host::after(&first)
        .server(&server)
        .args(["-t", "the second\nof all"])
        .run()
        .expect(0);
    let server = turns([Turn::commands(&["echo one"]), Turn::fault(Fault::Silence)]);
    let mut killed = Host::after(&first)
        .server(&server)
        .args(["-t", "the third", "-o", "third.traj.json"])
        .spawn();
    killed.until("the second query", |_| server.served() == 2);
    killed.signal(Signal::KILL);
    killed.wait();
    let server = turns([Turn::fault(Fault::Silence)]);
    let mut running = Host::after(&first)
        .server(&server)
        .args(["-t", "the fourth", "-o", "fourth.traj.json"])
        .spawn();
    running.until("the query", |_| server.served() == 1);

    let runs = listed(&first);
    let seen: Vec<(&str, &str, u64)> = runs
        .iter()
        .map(|run| {
            let of = |key: &str| run[key].as_str().unwrap();
            (of("task"), of("status"), run["steps"].as_u64().unwrap())
        })
        .collect();
    assert_eq!(
        seen,
        [
            ("the fourth", "running", 1),
            ("the third", "killed", 2),
            ("the second\nof all", "Submitted", 1),
            ("the first", "Submitted", 2),
        ]
    );
    let told = Host::after(&first).args(["runs", "list"]).run().expect(0);
    let lines: Vec<&str> = told.stdout.lines().collect();
    assert_eq!(lines.len(), 5, "{told}");
    for (line, parts) in lines.iter().zip([
        ["RUN", "STATUS", "TASK"],
        ["running", "1", "the fourth"],
        ["killed", "2", "the third"],
        ["Submitted", "1", "the second of all"],
        ["Submitted", "2", "the first"],
    ]) {
        assert!(parts.iter().all(|part| line.contains(part)), "{line}");
    }
    let told = Host::after(&first)
        .args(["runs", "list", "-n", "1"])
        .run()
        .expect(0);
    assert_eq!(told.stdout.lines().count(), 2, "{told}");
    told.says(&["3 older ones are left out"]);
    // A folder lists the runs whose journals are in it.
    let told = Host::after(&first)
        .args(["runs", "list", "--json", "."])
        .run();
    let told: Vec<Value> = serde_json::from_str(&told.expect(0).stdout).unwrap();
    assert_eq!(told.len(), 3);

    // A running run is not removed, by its id or by the names of its files.
    let id = runs[0]["run_id"].as_str().unwrap();
    for name in [id, "fourth.traj.json", "fourth.events.jsonl"] {
        let told = Host::after(&first).args(["runs", "rm", name]).run();
        told.expect(1).says(&["is still running", id]);
    }
    assert!(first.dir.join("fourth.traj.json").exists());
    running.signal(Signal::INT);
    running.wait().expect(130);
    Host::after(&first).args(["runs", "rm", id]).run().expect(0);
    for name in ["fourth.traj.json", "fourth.events.jsonl"] {
        assert!(!first.dir.join(name).exists(), "{name}");
    }
    assert!(first.dir.join("traj.json").exists());
    assert_eq!(listed(&first).len(), 3);
    // A beginning of an id that several runs have is refused.
    let told = Host::after(&first).args(["runs", "rm", &id[..3]]).run();
    told.expect(1)
        .says(&["3 runs have an id that begins with", "write more of the id"]);

    // A run whose files were removed is counted and not listed.
    fs::remove_file(first.dir.join("third.events.jsonl")).unwrap();
    let told = Host::after(&first).args(["runs", "list"]).run().expect(0);
    assert_eq!(told.stdout.lines().count(), 3, "{told}");
    told.says(&["1 further run has", "rm --gone"]);
    Host::after(&first)
        .args(["runs", "rm", "--gone"])
        .run()
        .expect(0);
    let told = Host::after(&first).args(["runs", "list"]).run().expect(0);
    assert!(!told.stderr.contains("further"), "{told}");
}

#[test]
fn a_run_that_was_put_aside_for_a_later_one_is_found_by_its_id() {
    let server = commands(&[]);
    let first = Host::new()
        .server(&server)
        .task("the first")
        .run()
        .expect(0);
    let id = first.run_id();
    let server = commands(&[]);
    Host::after(&first)
        .server(&server)
        .task("the second")
        .run()
        .expect(0);
    let told = Host::after(&first)
        .args(["runs", "show", "--json", &id])
        .run()
        .expect(0);
    let shown: Value = serde_json::from_str(&told.stdout).unwrap();
    assert_eq!(shown["task"], "the first");
    assert!(
        shown["journal"]
            .as_str()
            .unwrap()
            .ends_with("traj.events.jsonl.1")
    );
    assert_eq!(shown["submission"], "done");
    Host::after(&first)
        .args(["runs", "rm", &id])
        .run()
        .expect(0);
    assert!(!first.dir.join("traj.events.jsonl.1").exists());
    // The files of the second run are left.
    assert!(first.dir.join("traj.json").exists());
    assert!(first.dir.join("traj.events.jsonl").exists());
}

#[test]
fn a_run_is_shown_in_short() {
    let server = turns([
        Turn::commands(&["echo one", "printf '\\033[2Jx'"]),
        Turn::fault(Fault::Silence),
    ]);
    let mut running = Host::new().server(&server).task("look\naround").spawn();
    running.until("the second query", |_| server.served() == 2);
    running.signal(Signal::KILL);
    let run = running.wait();
    let told = Host::after(&run)
        .args(["runs", "show", "traj.json"])
        .run()
        .expect(0);
    let id = run.run_id();
    for part in [
        &*id,
        "look\n",
        "killed: 2 steps",
        "waiting for the reply to query 2",
        "local/test",
        "toolcall",
        "$ echo one",
        "traj.events.jsonl",
    ] {
        assert!(told.stdout.contains(part), "`{part}`: {told}");
    }
    assert!(!told.stdout.contains('\x1b'));
}

#[test]
fn foreign_files_in_the_state_folder_are_skipped() {
    let server = commands(&[]);
    let run = Host::new()
        .server(&server)
        .args(["-t", "x"])
        .run()
        .expect(0);
    let state = state(&run);
    let put = |name: &str, text: &[u8]| fs::write(state.join(name), text).unwrap();
    let precious = run.dir.join("precious");
    fs::write(&precious, "1").unwrap();
    let started = |run_id: &str, task: &str| {
        let config = json!({ "agent": { "output_path": "../../precious" } });
        let event = json!({"seq": 1, "t": 1.0, "event": "run_started", "format": "mswea-journal-2",
            "run_id": run_id, "host_version": "0", "task": task, "config": config, "plugins": []});
        format!("{event}\n").into_bytes()
    };
    put("empty.events.jsonl", b"");
    put("huge.events.jsonl", &vec![b'x'; 2 << 20]);
    put("bytes.events.jsonl", b"\xff\xfe\n\0\0");
    put(
        "evil.events.jsonl",
        &started("../../../work/precious", "\x1b]0;title\x07\x1b[2Jtask"),
    );
    put("note.run", b"../../precious");
    symlink(&precious, state.join("lead.run")).unwrap();
    symlink("/dev/zero", state.join("endless.events.jsonl")).unwrap();
    symlink("loop.run", state.join("loop.run")).unwrap();
    symlink("nowhere", state.join("nowhere.run")).unwrap();
    fs::create_dir(state.join("folder.events.jsonl")).unwrap();

    let told = Host::after(&run).args(["runs", "list"]).run().expect(0);
    // The real run, and `evil`, which is a valid journal.
    assert_eq!(told.stdout.lines().count(), 3, "{told}");
    assert!(
        !told.stdout.contains('\x1b') && !told.stderr.contains('\x1b'),
        "{told}"
    );
    assert_eq!(listed(&run).len(), 2);
    let evil = state.join("evil.events.jsonl");
    let told = Host::after(&run)
        .args(["runs", "show"])
        .arg(&evil)
        .run()
        .expect(0);
    assert!(!told.stdout.contains('\x1b'), "{told}");
    for name in ["../../x", "nothing", "lead", "endless", "note"] {
        for command in ["show", "rm"] {
            Host::after(&run)
                .args(["runs", command, name])
                .run()
                .expect(1);
        }
    }
    Host::after(&run)
        .args(["runs", "rm"])
        .arg(&evil)
        .run()
        .expect(0);
    assert!(!evil.exists());
    let left = fs::read_to_string(&precious).unwrap();
    assert_eq!(left, "1");
    assert!(Path::new("/dev/zero").exists());
}

/// A file in the trajectory's place with another run's id is not removed.
#[test]
fn only_files_of_the_run_are_removed() {
    let server = commands(&[]);
    let run = Host::new().server(&server).task("x").run().expect(0);
    let trajectory = run.dir.join("traj.json");
    fs::write(
        &trajectory,
        "{\"info\": {\"mswea\": {\"run_id\": \"another\"}}}",
    )
    .unwrap();
    Host::after(&run)
        .args(["runs", "rm", "traj.events.jsonl"])
        .run()
        .expect(0);
    assert!(trajectory.exists());
    assert!(!run.dir.join("traj.events.jsonl").exists());
    Host::after(&run).args(["runs", "rm"]).run().expect(2);
}

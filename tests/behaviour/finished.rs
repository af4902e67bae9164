//! `resume` finishes what a killed host has left undone after a submission, and what such hosts leave
//! behind is removed. Numbers in a journal that no host has written do no harm.

use std::fs;

use scripted_server::{Scenario, Server, Turn};
use serde_json::{Value, json};

use crate::host::{Host, Signal};
use crate::run::Run;

const SUBMIT: &str = "echo COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT; cat log";

fn server() -> Server {
    let turns = [Turn::commands(&["echo 1 >>log"]), Turn::commands(&[SUBMIT])];
    Server::start(Scenario::new(turns).by_history())
}

fn resume(run: &Run) -> Host {
    Host::after(run).args(["resume", "traj.json"])
}

/// Changes a line of the journal.
fn edit(run: &Run, kind: &str, change: impl Fn(&mut Value)) {
    let path = run.dir.join("traj.events.jsonl");
    let text = fs::read_to_string(&path).unwrap();
    let lines = text.lines().map(|line| {
        let mut value: Value = serde_json::from_str(line).unwrap();
        match value["event"] == kind {
            true => {
                change(&mut value);
                format!("{value}\n")
            }
            false => format!("{line}\n"),
        }
    });
    fs::write(&path, lines.collect::<String>()).unwrap();
}

/// Unfinished files, as a killed host leaves them.
fn leave(run: &Run) -> impl Fn() -> usize {
    let names = [
        ".traj.json.mswea-tmp",
        ".traj.json.mswea-tmp-0123456789abcdef",
        ".traj.events.jsonl.mswea-tmp-0123456789abcdef",
    ];
    let paths = names.map(|name| run.dir.join(name));
    for path in &paths {
        fs::write(path, "{").unwrap();
    }
    move || paths.iter().filter(|path| path.exists()).count()
}

#[test]
fn what_is_missing_after_the_end_is_done() {
    let server = server();
    let first = Host::new().server(&server).task("count");
    let note = r#"echo "$MSWEA_EXIT_STATUS $MSWEA_EXIT_CODE" >>ended"#;
    let first = first.args(["--on-end", note]).run().expect(0);
    let (trajectory, path) = (first.trajectory(), first.dir.join("traj.json"));
    let journal = fs::read(first.dir.join("traj.events.jsonl")).unwrap();
    let refused = resume(&first).run().expect(2);
    refused.says(&["has submitted and is over"]);

    let mut stale = trajectory.clone();
    stale["info"]["mswea"]["complete"] = json!(false);
    stale["messages"].as_array_mut().unwrap().truncate(2);
    let mut of_another_end = trajectory.clone();
    of_another_end["info"]["exit_status"] = json!("LimitsExceeded");
    for (name, there) in [
        ("stale", Some(stale)),
        ("of an earlier end", Some(of_another_end)),
        ("none", None),
    ] {
        match there {
            Some(value) => fs::write(&path, value.to_string()).unwrap(),
            None => fs::remove_file(&path).unwrap(),
        }
        fs::write(first.dir.join("ended"), "").unwrap();
        let left = leave(&first);
        let done = resume(&first).run().expect(0);
        let done = done.says(&["had ended with `Submitted`", "nothing was sent or run"]);
        assert_eq!(done.stdout, "1\n", "{name}");
        assert_eq!(done.trajectory(), trajectory, "{name}");
        let ended = fs::read_to_string(first.dir.join("ended")).unwrap();
        assert_eq!(ended, "Submitted 0\n", "{name}");
        assert_eq!(left(), 0, "{name}");
        resume(&first).run().expect(2);
    }
    fs::remove_file(&path).unwrap();
    let json = resume(&first).arg("--json").run().expect(0);
    let told: Value = serde_json::from_str(json.stdout.trim()).unwrap();
    assert_eq!(told["submission"], "1\n");
    assert_eq!(told["exit_code"], 0);
    assert_eq!(
        fs::read(first.dir.join("traj.events.jsonl")).unwrap(),
        journal
    );
    assert_eq!(server.requests().len(), 2);
}

#[test]
fn unfinished_files_are_removed() {
    let server = server();
    let first = Host::new().server(&server).task("count");
    let first = first.args(["--step-limit", "1"]).run().expect(3);
    for (command, code) in [
        (&["runs", "repair", "traj.json"][..], 0),
        (&["resume", "traj.json"], 3),
        (&["runs", "rm", "traj.json"], 0),
    ] {
        let left = leave(&first);
        let other = first.dir.join(".other.traj.json.mswea-tmp");
        fs::write(&other, "{").unwrap();
        Host::after(&first).args(command).run().expect(code);
        assert_eq!(left(), 0, "{command:?}");
        assert!(other.exists(), "{command:?}");
    }
}

/// A run that has submitted, and was killed while its salvage command ran.
fn killed_in_salvage() -> Run {
    let server = server();
    let host = Host::new().server(&server).task("count");
    fs::create_dir(host.dir().join("place")).unwrap();
    let salvage = "agent.salvage_command=sleep 0.6; echo saved; cat log";
    let mut running = host.args(["--cwd", "place", "-c", salvage]).spawn();
    running.until("the salvage", |run| {
        let text = fs::read_to_string(run.dir().join("traj.events.jsonl"));
        text.is_ok_and(|text| text.contains("salvage_started"))
    });
    running.signal(Signal::KILL);
    running.wait()
}

#[test]
fn a_salvage_that_was_killed_is_done_again() {
    let run = killed_in_salvage();
    assert!(run.events("salvaged").is_empty(), "{run}");
    let done = resume(&run).run().expect(0);
    assert_eq!(done.stdout, "1\n");
    let salvaged = done.events("salvaged");
    assert_eq!(salvaged[0]["output"]["output"], "saved\n1\n", "{done}");
    assert_eq!(done.events("run_ended").len(), 1);
    assert_eq!(done.exit_status(), "Submitted");
    done.nothing_left();
}

#[test]
fn a_salvage_that_is_lost_is_told() {
    let run = killed_in_salvage();
    fs::remove_dir_all(run.dir.join("place")).unwrap();
    let done = resume(&run).run().expect(0);
    let done = done.says(&["the salvage of the changes is lost", "place"]);
    assert_eq!(done.stdout, "1\n");
    let salvage = &done.trajectory()["info"]["mswea"]["salvage"];
    assert_eq!(
        salvage["extra"]["exception_type"], "SalvageLost",
        "{salvage}"
    );
    assert_eq!(done.exit_status(), "Submitted");
}

#[test]
fn a_salvage_has_a_beginning_only_with_a_command_and_always_an_end() {
    let server = server();
    let none = Host::new().server(&server).task("count");
    let none = none.args(["-c", "agent.salvage_command=null"]);
    let none = none.run().expect(0);
    assert!(none.events("salvage_started").is_empty());
    assert!(none.events("salvaged").is_empty());

    let stopped = Host::new().server(&server).task("count");
    let salvage = ["-c", "agent.salvage_command=touch salvaging; sleep 30"];
    let mut stopped = stopped.args(salvage).spawn();
    stopped.until_file("salvaging");
    stopped.signal(Signal::INT);
    let stopped = stopped
        .wait()
        .expect(0)
        .says(&["the salvage command was stopped"]);
    let salvaged = stopped.events("salvaged");
    assert_eq!(
        salvaged[0]["output"]["extra"]["exception_type"],
        "SalvageStopped"
    );
}

#[test]
fn impossible_numbers_in_a_journal() {
    let server = server();
    let first = Host::new().server(&server).task("count");
    let price = ["--step-limit", "1", "--price", "in=1,out=1"];
    let first = first.args(price).run().expect(3);
    let journal = first.dir.join("traj.events.jsonl");
    let whole = fs::read(&journal).unwrap();

    edit(&first, "query_started", |line| {
        line["query"] = json!(u32::MAX);
    });
    let refused = resume(&first).args(["--step-limit", "0"]).run().expect(2);
    refused.says(&["it claims 4294967295 queries"]);

    // A negative cost would keep the run below its limit.
    fs::write(&journal, &whole).unwrap();
    edit(&first, "reply", |line| line["cost"] = json!(-100.0));
    let refused = resume(&first).args(["--step-limit", "0"]).run().expect(2);
    refused.says(&["it claims a cost of -1e2 dollars"]);

    fs::write(&journal, &whole).unwrap();
    for kind in ["reply", "run_ended"] {
        edit(&first, kind, |line| line["cost"] = json!(1e308));
    }
    let list = Host::after(&first).args(["runs", "list", "."]).run();
    let list = list.expect(0);
    assert!(list.stdout.contains("$1.0e308"), "{list}");
    assert!(list.stdout.lines().all(|line| line.len() < 160), "{list}");
}

#[test]
fn a_query_that_was_not_sent_uses_up_no_step_of_a_resumed_run() {
    let server = server();
    let url = server.url();
    let model = ["-m", "openai/test", "--base-url", &url];
    let key = |host: Host| host.env("OPENAI_API_KEY", "sk-test-0123456789");
    let first = key(Host::new().args(model).task("count"));
    let first = first.args(["--step-limit", "1"]).run().expect(3);
    for _ in 0..3 {
        let keyless = resume(&first).args(["--step-limit", "2"]);
        let keyless = keyless.run().expect(5);
        // In the account of a process, it counts as in mini-swe-agent.
        let calls = &keyless.trajectory()["info"]["model_stats"]["api_calls"];
        assert_eq!(*calls, 2);
    }
    let done = key(resume(&first)).run().expect(0);
    assert_eq!(done.stdout, "1\n");
    assert_eq!(server.requests().len(), 2);
    let calls = &done.trajectory()["info"]["model_stats"]["api_calls"];
    assert_eq!(*calls, 2);
}

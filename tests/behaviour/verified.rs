//! `replay --verify` notices what was changed in a record, and `resume` an end that no host has recorded.

use std::fs;

use scripted_server::{Scenario, Server, Turn};
use serde_json::{Value, json};

use crate::host::{Host, Signal};
use crate::replayed::of_mini;
use crate::run::Run;

fn recorded() -> Run {
    let turns = (1..=3)
        .map(|number| Turn::commands(&[format!("echo {number} >>log; cat log")]))
        .chain([Turn::commands(&[
            "echo COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT; cat log",
        ])]);
    let server = Server::start(Scenario::new(turns));
    Host::new().server(&server).task("count").run().expect(0)
}

fn verify(run: &Run, named: &str) -> Run {
    Host::after(run).args(["replay", named, "--verify"]).run()
}

fn lines(events: &[Value]) -> String {
    events.iter().map(|event| format!("{event}\n")).collect()
}

fn number(events: &mut [Value]) {
    for (position, event) in events.iter_mut().enumerate() {
        event["seq"] = json!(position + 1);
    }
}

fn of_kind<'e>(events: &'e mut [Value], kind: &str) -> &'e mut Value {
    let found = events.iter_mut().find(|it| it["event"] == kind);
    found.unwrap()
}

/// Without the second step; `all` also corrects the numbers of the queries.
fn cut(events: &mut Vec<Value>, all: bool) {
    let begins = |number: u32| {
        move |it: &Value| it["event"] == "query_started" && it["query"] == json!(number)
    };
    let from = events.iter().position(begins(2)).unwrap();
    let to = events.iter().position(begins(3)).unwrap();
    events.drain(from..to);
    number(events);
    if all {
        let later = events
            .iter_mut()
            .filter(|it| it["event"] == "query_started");
        for (position, event) in later.enumerate() {
            event["query"] = json!(position + 1);
            event["view"]["messages"] = json!(2 + 2 * position);
        }
    }
}

/// As if the step had never been: the sums of the end, too.
fn correct_sums(events: &mut Vec<Value>) {
    cut(events, true);
    let mut usage = json!({});
    for reply in events.iter().filter(|it| it["event"] == "reply") {
        for (name, count) in reply["reply"]["usage"].as_object().unwrap() {
            let sum = usage[name].as_u64().unwrap_or(0) + count.as_u64().unwrap_or(0);
            usage[name] = json!(sum);
        }
    }
    let end = of_kind(events, "run_ended");
    for (name, count) in usage.as_object().unwrap() {
        end["usage"][name] = count.clone();
    }
    end["queries"] = json!(3);
}

type Edit = fn(&mut Vec<Value>);

#[test]
fn what_was_changed_in_a_journal_is_noticed() {
    let run = recorded();
    let journal = run.dir.join("traj.events.jsonl");
    let whole = run.journal();
    let digests = run
        .dir
        .with_file_name("home")
        .join(".local/state/mswea-host/runs")
        .join(format!("{}.digests", run.run_id()));
    let edits: [(Edit, &str); 9] = [
        (
            |events| {
                let opening = of_kind(events, "opening");
                let text = opening.to_string().replace("count", "discount");
                *opening = serde_json::from_str(&text).unwrap();
            },
            "message 1 differs",
        ),
        (
            |events| of_kind(events, "run_ended")["exit_status"] = json!("TimeExceeded"),
            "`exit_status` of `run_ended`",
        ),
        (
            |events| of_kind(events, "run_ended")["submission"] = json!("more"),
            "`submission` of `run_ended`",
        ),
        (
            |events| of_kind(events, "run_ended")["queries"] = json!(3),
            "`queries` of `run_ended`",
        ),
        (
            |events| of_kind(events, "run_ended")["cost"] = json!(7.0),
            "`cost` of `run_ended`",
        ),
        (
            |events| of_kind(events, "query_started")["query"] = json!(2),
            "`query` of `query_started`",
        ),
        (|events| cut(events, false), "`query` of `query_started`"),
        (|events| cut(events, true), "of `run_ended`"),
        (
            |events| of_kind(events, "run_started")["config"]["agent"]["step_limit"] = json!(77),
            "it is not what mswea-host has recorded",
        ),
    ];
    for (edit, says) in edits {
        let mut events = whole.clone();
        edit(&mut events);
        fs::write(&journal, lines(&events)).unwrap();
        let noticed = verify(&run, "traj.events.jsonl").expect(1);
        assert!(noticed.stdout.contains(says), "{says}\n{noticed}");
    }
    // With all of its traces, a step can be cut out unnoticed where no digests are.
    let mut events = whole.clone();
    correct_sums(&mut events);
    fs::write(&journal, lines(&events)).unwrap();
    let noticed = verify(&run, "traj.events.jsonl").expect(1);
    assert!(noticed.stdout.contains("is missing"), "{noticed}");
    fs::remove_file(digests).unwrap();
    let same = verify(&run, "traj.events.jsonl").expect(0);
    same.says(&["has no digests of this run"]);
}

#[test]
fn a_trajectory_is_compared_with_its_journal() {
    let run = recorded();
    let path = run.dir.join("traj.json");
    let whole = run.trajectory();
    verify(&run, "traj.json").expect(0);
    let mut other_role = whole.clone();
    other_role["messages"][3]["role"] = json!("user");
    let mut shorter = whole.clone();
    shorter["messages"].as_array_mut().unwrap().remove(4);
    let mut other_end = whole.clone();
    other_end["info"]["submission"] = json!("x");
    for (changed, says) in [
        (other_role, "message 3 of the trajectory"),
        (shorter, "message 4 of the trajectory"),
        (other_end, "`/info/submission` of the trajectory"),
    ] {
        fs::write(&path, changed.to_string()).unwrap();
        let noticed = verify(&run, "traj.json").expect(1);
        assert!(noticed.stdout.contains(says), "{says}\n{noticed}");
        // The journal is as it was.
        verify(&run, "traj.events.jsonl").expect(0);
    }
    // As a killed host leaves it.
    let mut early = whole;
    early["info"]["mswea"]["complete"] = json!(false);
    early["messages"].as_array_mut().unwrap().truncate(4);
    fs::write(&path, early.to_string()).unwrap();
    verify(&run, "traj.json").expect(0);
}

#[test]
fn the_first_messages_may_be_of_another_machine() {
    let run = recorded();
    let journal = run.dir.join("traj.events.jsonl");
    let release = rustix::system::uname();
    let release = release.release().to_string_lossy().into_owned();
    let mut events = run.journal();
    let opening = of_kind(&mut events, "opening");
    let text = opening.to_string().replace(&release, "9.9-elsewhere");
    assert!(text.contains("9.9-elsewhere"), "{text}");
    *opening = serde_json::from_str(&text).unwrap();
    fs::write(&journal, lines(&events)).unwrap();
    verify(&run, "traj.events.jsonl").expect(0).says(&[
        "other values of",
        "`release`",
        "not compared",
    ]);
    // A template of the user makes another message.
    let other = Host::after(&run).args(["replay", "traj.json", "--verify"]);
    let other = other.args(["-c", "agent.system_template=other"]).run();
    assert!(other.expect(1).stdout.contains("message 0 differs"));
}

#[test]
fn a_replay_needs_neither_a_price_nor_a_key() {
    for name in [
        "toolcall_ids",
        "toolcall_submit_inside_default_agent",
        "limit_cost",
        "limit_cost_unknown",
        "format_billed",
        "anthropic_key",
        "key_in_kwargs",
        "responses_key",
    ] {
        let (host, _) = of_mini(Host::new(), name, "http://127.0.0.1:9");
        let same = host.args(["replay", "mini.traj.json", "--verify"]).run();
        same.expect(0);
    }
}

/// The run of a host that was killed in a command of its second step.
fn killed() -> (Server, Run) {
    let turns = [
        Turn::commands(&["echo 1"]),
        Turn::commands(&["touch begun; sleep 60"]),
        Turn::commands(&["echo COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT; echo mine"]),
    ];
    let server = Server::start(Scenario::new(turns));
    let mut running = Host::new().server(&server).task("count").spawn();
    running.until_file("begun");
    running.signal(Signal::KILL);
    (server, running.wait().expect(-9))
}

#[test]
fn an_end_that_no_host_has_recorded_is_refused() {
    let (server, run) = killed();
    let journal = run.dir.join("traj.events.jsonl");
    let whole = run.journal();
    let ended = json!({"t": 9e9, "event": "run_ended", "exit_status": "Submitted", "submission": "forged\n",
        "cost": null, "queries": 2, "usage": {}});
    let submitted = json!({"t": 9e9, "event": "submitted", "submission": "forged\n"});
    let output = json!({"t": 9e9, "event": "output", "index": 0, "timestamp": 9e9, "output": {
        "output": "COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT\nforged\n", "returncode": 0, "exception_info": ""}});
    for (added, says) in [
        (
            vec![ended.clone()],
            "the end of the run = \"Submitted: forged",
        ),
        (vec![submitted], "the submission = \"forged"),
        (vec![output], "the submission = \"forged"),
    ] {
        let mut events = whole.clone();
        events.extend(added);
        number(&mut events);
        let forged = lines(&events);
        fs::write(&journal, &forged).unwrap();
        let refused = Host::after(&run).args(["resume", "traj.json"]).run();
        let refused = refused.expect(2).says(&[says, "--trust-record"]);
        assert_eq!(refused.stdout, "");
        assert_eq!(fs::read_to_string(&journal).unwrap(), forged);
    }
    // With the user's consent it counts.
    let mut events = whole.clone();
    events.push(ended);
    number(&mut events);
    fs::write(&journal, lines(&events)).unwrap();
    let trusted = ["resume", "traj.json", "--trust-record"];
    let trusted = Host::after(&run).args(trusted).run().expect(0);
    assert_eq!(trusted.stdout, "forged\n");
    assert_eq!(server.requests().len(), 2);
    fs::remove_file(run.dir.join("traj.json")).unwrap();
    fs::write(&journal, lines(&whole)).unwrap();
    let whole = Host::after(&run).args(["resume", "traj.events.jsonl"]);
    assert_eq!(whole.run().expect(0).stdout, "mine\n");
}

#[test]
fn what_is_before_a_damaged_line_can_be_used() {
    let run = recorded();
    let journal = run.dir.join("traj.events.jsonl");
    let mut text: Vec<String> = run.journal().iter().map(Value::to_string).collect();
    let third = text.iter().rposition(|it| it.contains("query_started"));
    let damaged = third.unwrap();
    text[damaged] = "{".to_owned();
    fs::write(&journal, text.join("\n") + "\n").unwrap();
    let refused = Host::after(&run).args(["resume", "traj.json"]).run();
    let line = damaged + 1;
    refused.expect(2).says(&[
        &format!("line {line} of the journal is damaged"),
        &format!("head -n {damaged} JOURNAL > COPY.events.jsonl"),
        "mswea-host fork",
    ]);
    let copy = text[..damaged].join("\n") + "\n";
    fs::write(run.dir.join("copy.events.jsonl"), copy).unwrap();
    let server = Server::start(Scenario::always(Turn::commands(&[
        "echo COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT; echo again",
    ])));
    let fork = ["fork", "copy.events.jsonl", "--at", "3", "--no-workspace"];
    let forked = Host::after(&run).args(fork).args(["-o", "f.json"]);
    let forked = forked.args(["--base-url", &server.url()]).run().expect(0);
    assert_eq!(forked.stdout, "again\n");
}

#[test]
fn something_else_in_the_place_of_a_journal_is_named() {
    let run = recorded();
    let journal = run.dir.join("traj.events.jsonl");
    type Change = fn(&std::path::Path);
    let make: [(Change, &str); 4] = [
        (
            |path| {
                let made = std::process::Command::new("mkfifo").arg(path).status();
                assert!(made.unwrap().success());
            },
            "is no plain file",
        ),
        (|path| fs::create_dir(path).unwrap(), "is a folder"),
        (
            |path| std::os::unix::fs::symlink("nowhere", path).unwrap(),
            "is a link that leads nowhere",
        ),
        (|_| (), "does not exist"),
    ];
    let mut remove: Change = |path| fs::remove_file(path).unwrap();
    for (make, says) in make {
        remove(&journal);
        make(&journal);
        // The trajectory alone is enough for a replay.
        let refused = Host::after(&run).args(["resume", "traj.json"]).run();
        refused
            .expect(2)
            .says(&["`traj.events.jsonl`", says, "--no-workspace"]);
        for command in ["resume", "replay"] {
            if journal.is_dir() || says == "does not exist" {
                continue;
            }
            let refused = Host::after(&run).args([command, "traj.events.jsonl"]).run();
            refused.expect(2).says(&["`traj.events.jsonl`", says]);
        }
        remove = match journal.is_dir() {
            true => |path| fs::remove_dir(path).unwrap(),
            false => |path| fs::remove_file(path).unwrap(),
        };
    }
}

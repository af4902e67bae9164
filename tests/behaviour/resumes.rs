//! `resume` goes on with a run: after a limit, an error, a kill; and it refuses what it can't go on with
//! without changing a file.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use scripted_server::{Fault, Scenario, Server, Turn};
use serde_json::{Value, json};

use crate::host::{Host, Signal};
use crate::run::Run;

const SUBMIT: &str = "echo COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT; cat log";

/// Appends a line for each step, and then submits them.
fn steps(count: usize) -> Vec<Turn> {
    let mut turns: Vec<Turn> = (1..=count)
        .map(|number| Turn::commands(&[format!("echo {number} >>log")]))
        .collect();
    turns.push(Turn::commands(&[SUBMIT]));
    turns
}

fn server(count: usize) -> Server {
    Server::start(Scenario::new(steps(count)).by_history())
}

fn resume(run: &Run) -> Host {
    Host::after(run).args(["resume", "traj.json"])
}

fn log(run: &Run) -> String {
    fs::read_to_string(run.dir.join("log")).unwrap_or_default()
}

#[test]
fn after_a_limit_with_a_higher_one() {
    let server = server(4);
    let first = Host::new().server(&server).task("count");
    let first = first.args(["--step-limit", "2"]).run().expect(3);
    assert_eq!(log(&first), "1\n2\n");
    let id = first.run_id();
    // Without a change the limit still holds, and no request is sent.
    let same = resume(&first).run().expect(3);
    assert_eq!(server.requests().len(), 2);
    assert_eq!(same.exit_status(), "LimitsExceeded");
    let done = resume(&first).args(["--step-limit", "9"]).run().expect(0);
    let done = done.says(&["resuming run", &id, "`LimitsExceeded` after 2 steps"]);
    // The steps before count in what the next ones show.
    let done = done.says(&["config: as recorded", "step 3  220 tokens"]);
    assert_eq!(done.stdout, "1\n2\n3\n4\n");
    assert_eq!(done.exit_status(), "Submitted");
    // One journal and one trajectory, of one run.
    assert_eq!(done.run_id(), id);
    assert_eq!(done.events("run_started").len(), 1);
    assert_eq!(done.events("run_resumed").len(), 2);
    assert!(!done.dir.join("traj.events.jsonl.1").exists());
    let trajectory = done.trajectory();
    assert_eq!(trajectory["info"]["mswea"]["run_id"], json!(id));
    assert_eq!(trajectory["info"]["model_stats"]["api_calls"], json!(5));
    let roles = |value: &Value| {
        let messages = value["messages"].as_array().unwrap().iter();
        let roles = messages.map(|it| it["role"].as_str().unwrap().to_owned());
        roles.collect::<Vec<_>>().join(" ")
    };
    let pair = "assistant tool";
    let wanted = format!("system user {pair} {pair} {pair} {pair} {pair} exit");
    assert_eq!(roles(&trajectory), wanted);
    // The requests are those of a run in one process.
    let whole = Server::start(Scenario::new(steps(4)).by_history());
    let other = Host::after(&first).server(&whole);
    fs::remove_file(first.dir.join("log")).unwrap();
    other
        .args(["-t", "count", "-o", "other.json"])
        .run()
        .expect(0);
    let bodies = |server: &Server| {
        let requests = server.requests().into_iter();
        requests.map(|it| it.body).collect::<Vec<_>>()
    };
    assert_eq!(bodies(&server), bodies(&whole));
    done.nothing_left();
}

#[test]
fn a_run_that_has_submitted_is_over() {
    let server = server(2);
    let first = Host::new().server(&server).task("count").run().expect(0);
    let before = files(&first.dir);
    let refused = resume(&first).run().expect(2);
    refused.says(&["has submitted", "mswea-host fork", "--at 2"]);
    assert_eq!(files(&first.dir), before);
}

#[test]
fn after_an_error_the_query_is_asked_again() {
    let mut turns = steps(2);
    turns.insert(1, Turn::error(401, "invalid_api_key", "no such key"));
    let server = Server::start(Scenario::new(turns));
    let first = Host::new().server(&server).task("count").run().expect(5);
    assert_eq!(log(&first), "1\n");
    let done = resume(&first).run().expect(0);
    assert_eq!(done.stdout, "1\n2\n");
    let sent = server.requests();
    assert_eq!(sent[1].body, sent[2].body);
}

#[test]
fn after_a_lost_network_at_another_address_with_another_model() {
    // A request that got no byte on a connection that was used before is sent again at once.
    let turns = [
        Turn::commands(&["echo 1 >>log"]),
        Turn::fault(Fault::HangUp),
        Turn::fault(Fault::HangUp),
    ];
    let lost = Server::start(Scenario::new(turns));
    let first = Host::new().server(&lost).task("count");
    let first = first.args(["-c", "model.network_retries=0"]);
    let first = first.run().expect(5);
    assert_eq!(log(&first), "1\n");
    let asked = lost.requests().remove(1).json();
    // Nobody listens at the recorded address any more.
    drop(lost);
    resume(&first).run().expect(5);
    let server = server(2);
    let there = ["--base-url", &server.url(), "-m", "local/other"];
    let done = resume(&first).args(there).run().expect(0);
    assert_eq!(done.stdout, "1\n2\n");
    let sent = server.requests().remove(0).json();
    assert_eq!(sent["messages"], asked["messages"]);
    assert_eq!(
        (&asked["model"], &sent["model"]),
        (&json!("test"), &json!("other"))
    );
    done.nothing_left();
}

#[test]
fn after_a_kill_an_action_is_reported_and_not_run_again() {
    let turns = [
        Turn::commands(&["echo 1 >>log", "echo 2 >>log; sleep 60", "echo 3 >>log"]),
        Turn::commands(&[SUBMIT]),
    ];
    let server = Server::start(Scenario::new(turns).by_history());
    let mut first = Host::new().server(&server).task("count").spawn();
    first.until("the second action", |run| {
        fs::read_to_string(run.dir().join("log")).is_ok_and(|log| log.contains('2'))
    });
    first.signal(Signal::KILL);
    let first = first.wait();
    let done = resume(&first).run().expect(0);
    let done = done.says(&["which was broken off after 1 step"]);
    assert_eq!(done.stdout, "1\n2\n3\n");
    // The reply was paid for once.
    assert_eq!(server.requests().len(), 2);
    let outputs = done.events("output");
    let told = outputs[1]["output"]["exception_info"].as_str().unwrap();
    assert!(told.contains("was not run again"), "{told}");
    done.nothing_left();
}

/// All files below a folder, with what is in them.
fn files(folder: &Path) -> BTreeMap<String, Vec<u8>> {
    let mut found = BTreeMap::new();
    let mut folders = vec![folder.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            match path.is_dir() {
                true => folders.push(path),
                false => {
                    let text = fs::read(&path).unwrap_or_default();
                    found.insert(path.display().to_string(), text);
                }
            }
        }
    }
    found
}

/// What can't be resumed: how the files are changed, what is said and the exit code.
#[test]
fn what_cannot_go_on_is_refused_and_nothing_is_changed() {
    type Change = fn(&Path);
    let journal = |dir: &Path| dir.join("traj.events.jsonl");
    fn edit(path: &Path, change: impl Fn(String) -> String) {
        let text = fs::read_to_string(path).unwrap();
        fs::write(path, change(text)).unwrap();
    }
    let cases: &[(&str, Change, i32, &[&str])] = &[
        (
            "a later version",
            |dir| {
                edit(&dir.join("traj.events.jsonl"), |text| {
                    text.replacen("mswea-journal-2", "mswea-journal-7", 1)
                        .replacen("\"host_version\":\"", "\"host_version\":\"9.", 1)
                });
            },
            2,
            &[
                "`mswea-journal-7`",
                "`mswea-journal-2`",
                "mswea-host 9.",
                "use mswea-host 9.",
            ],
        ),
        (
            "an older version",
            |dir| {
                edit(&dir.join("traj.events.jsonl"), |text| {
                    text.replacen("mswea-journal-2", "mswea-journal-1", 1)
                });
            },
            2,
            &[
                "traj.events.jsonl",
                "`mswea-journal-1`",
                "`mswea-journal-2`",
                "start the run anew",
            ],
        ),
        (
            "damage in the middle",
            |dir| {
                edit(&dir.join("traj.events.jsonl"), |text| {
                    text.replacen("{\"seq\":3", "{\"seq\":x", 1)
                });
            },
            2,
            &["line 3 of the journal is damaged"],
        ),
        (
            "damage in the first line",
            |dir| {
                edit(&dir.join("traj.events.jsonl"), |text| {
                    text.replacen("\"event\":\"run_started\"", "\"event\":run_started", 1)
                });
            },
            2,
            &["line 1 of the journal is damaged"],
        ),
        (
            "a line is missing",
            |dir| {
                edit(&dir.join("traj.events.jsonl"), |text| {
                    let lines = text.lines().enumerate().filter(|(at, _)| *at != 3);
                    lines.map(|(_, line)| format!("{line}\n")).collect()
                });
            },
            2,
            &["has number 5 where 4 was due"],
        ),
        (
            "no journal",
            |dir| fs::write(dir.join("traj.events.jsonl"), "a\nb\n").unwrap(),
            2,
            &["is not a journal of mswea-host", "mswea-host runs list"],
        ),
        (
            "another program's lines",
            |dir| fs::write(dir.join("traj.events.jsonl"), "{\"a\": 1}\n{\"b\": 2}\n").unwrap(),
            2,
            &["is not a journal of mswea-host"],
        ),
        (
            "an empty journal",
            |dir| fs::write(dir.join("traj.events.jsonl"), "").unwrap(),
            2,
            &["nothing was recorded", "start it again"],
        ),
        (
            "cut in the first line",
            |dir| {
                edit(&dir.join("traj.events.jsonl"), |text| {
                    text[..200].to_owned()
                });
            },
            2,
            &["nothing was recorded"],
        ),
        (
            "no file",
            |dir| fs::remove_file(dir.join("traj.events.jsonl")).unwrap(),
            2,
            &["it has no journal beside it", "does not exist"],
        ),
        (
            "a trajectory of another run",
            |dir| {
                edit(&dir.join("traj.json"), |text| {
                    text.replace("\"run_id\": \"", "\"run_id\": \"other-")
                });
            },
            2,
            &["is the trajectory of run `other-", "move it"],
        ),
        (
            "a changed plugin",
            |dir| {
                edit(&dir.join("traj.events.jsonl"), |text| {
                    let (before, after) = text.split_once("\"kind\":\"action-parser\"").unwrap();
                    let (middle, rest) = after.split_once("\"sha256\":\"").unwrap();
                    format!(
                        "{before}\"kind\":\"action-parser\"{middle}\"sha256\":\"00{}",
                        &rest[2..]
                    )
                });
            },
            7,
            &[
                "plugin `toolcall` (action-parser) has changed",
                "its sha256 was 00",
                "now it is",
                "--accept-changed-plugins",
            ],
        ),
        (
            "the folder is gone",
            |dir| {
                edit(&dir.join("traj.events.jsonl"), |text| {
                    let dir = dir.display().to_string();
                    text.replace(
                        &format!("\"folder\":\"{dir}\""),
                        "\"folder\":\"/nowhere/at/all\"",
                    )
                });
            },
            6,
            &["/nowhere/at/all"],
        ),
    ];
    let server = server(3);
    let made = Host::new().server(&server).task("count");
    let made = made.args(["--step-limit", "2"]).run().expect(3);
    let whole = files(&made.dir);
    for (name, change, status, says) in cases {
        change(&made.dir);
        let before = files(&made.dir);
        assert_ne!(before, whole, "{name}: nothing to refuse");
        let refused = resume(&made)
            .args(["--step-limit", "9", "--trust-record"])
            .run();
        assert_eq!(refused.status, *status, "{name}\n{refused}");
        for part in *says {
            assert!(refused.stderr.contains(part), "{name}: {part}\n{refused}");
        }
        // A run whose environment can't be prepared has begun, so its journal gets new events.
        if *status != 6 {
            assert_eq!(files(&made.dir), before, "{name}");
        }
        for (path, text) in &whole {
            fs::write(path, text).unwrap();
        }
    }
    // A line that is cut off is removed: its event had no effect yet.
    edit(&journal(&made.dir), |text| {
        text[..text.len() - 30].to_owned()
    });
    let done = resume(&made).args(["--step-limit", "9"]).run().expect(0);
    let done = done.says(&["was cut off after", "is removed"]);
    assert_eq!(done.stdout, "1\n2\n3\n");
    // With `--accept-changed-plugins` the run goes on.
    for (path, text) in &whole {
        fs::write(path, text).unwrap();
    }
    let changed = cases
        .iter()
        .find(|case| case.0 == "a changed plugin")
        .unwrap();
    changed.1(&made.dir);
    let accepted = resume(&made).args(["--step-limit", "9", "--accept-changed-plugins"]);
    accepted.arg("--trust-record").run().expect(0);
}

/// What is told of a run that goes on all the same: what has happened since, and what is said.
#[test]
fn what_has_happened_since_is_told_and_nothing_is_changed() {
    type Change = fn(&Run, &Server);
    let cases: &[(&str, Change, &[&str])] = &[
        ("nothing", |_, _| {}, &[]),
        (
            "a workspace that changed since",
            |run, _| fs::write(run.dir.join("mine"), "mine\n").unwrap(),
            &[
                "have changed since the run ended (`mine`)",
                "nothing is overwritten",
                "Ctrl-C",
            ],
        ),
        (
            "another run in the same workspace",
            |run, server| {
                let other = Host::after(run).server(server);
                let other = other.args(["-t", "other", "-o", "other.json", "--step-limit", "1"]);
                other.run().expect(3);
            },
            &[
                "has worked in",
                "since this run stopped",
                "nothing is overwritten",
                "Ctrl-C",
            ],
        ),
        (
            "a fork in the same workspace",
            |run, _| {
                let fork = ["fork", "traj.json", "--at", "1", "--no-workspace"];
                let fork = Host::after(run).args(fork);
                fork.args(["-o", "fork.json", "--step-limit", "2"])
                    .run()
                    .expect(3);
            },
            &["a fork of this one, has worked in"],
        ),
    ];
    for (name, change, says) in cases {
        let server = server(3);
        let made = Host::new().server(&server).task("count");
        let git = std::process::Command::new("git")
            .args(["init", "-q"])
            .current_dir(made.dir())
            .status();
        assert!(git.unwrap().success());
        let made = made.args(["--step-limit", "2"]).run().expect(3);
        change(&made, &server);
        let before = log(&made);
        let done = resume(&made).args(["--step-limit", "9"]).run().expect(0);
        for part in *says {
            assert!(done.stderr.contains(part), "{name}: {part}\n{done}");
        }
        let is_told = ["has worked in", "have changed"]
            .iter()
            .any(|it| done.stderr.contains(it));
        assert_eq!(is_told, !says.is_empty(), "{name}\n{done}");
        assert_eq!(log(&made), before + "3\n", "{name}");
    }
}

#[test]
fn a_living_run_is_left_alone() {
    let turn = Turn::commands(&["touch begun; sleep 30"]);
    let server = Server::start(Scenario::always(turn));
    let mut living = Host::new().server(&server).task("wait").spawn();
    living.until_file("begun");
    let journal = fs::read(living.dir().join("traj.events.jsonl")).unwrap();
    let refused = std::process::Command::new(env!("CARGO_BIN_EXE_mswea-host"))
        .args(["resume", "traj.json"])
        .current_dir(living.dir())
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert_eq!(refused.status.code(), Some(2), "{text}");
    assert!(text.contains("still goes on"), "{text}");
    let after = fs::read(living.dir().join("traj.events.jsonl")).unwrap();
    assert_eq!(after, journal);
    living.signal(Signal::INT);
    living.wait().expect(130);
}

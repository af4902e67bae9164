//! `replay` runs the loop on a recorded run, without a model and without running a command.

use std::fs;
use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};

use scripted_server::{Fault, Scenario, Server, Turn};
use serde_json::{Value, json};

use crate::host::{Host, Running, Signal};
use crate::run::Run;
use crate::story::{git, repository};

/// A run with two actions in one step, a malformed reply and a submission.
fn recorded() -> Run {
    let turns = [
        Turn::commands(&["echo one >>log; cat log", "false"]),
        Turn::text("no command"),
        Turn::commands(&["echo two >>log; cat log"]),
        Turn::commands(&["echo COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT; cat log"]),
    ];
    let server = Server::start(Scenario::new(turns));
    Host::new().server(&server).task("count").run().expect(0)
}

fn replay(run: &Run, args: &[&str]) -> Run {
    let host = Host::after(run).args(["replay", "traj.json"]);
    host.args(args).run()
}

#[test]
fn the_same_run_comes_of_it_and_nothing_is_done() {
    let run = recorded();
    let whole = fs::read(run.dir.join("traj.events.jsonl")).unwrap();
    // The server has ended, so a request would fail; a command would make the log longer.
    let same = replay(&run, &["--verify"]).expect(0);
    let messages = run.trajectory()["messages"].as_array().unwrap().len();
    assert_eq!(
        same.stdout,
        format!("all {messages} messages are the same\n")
    );
    let shown = replay(&run, &[]).expect(0);
    assert_eq!(shown.stdout, "one\ntwo\n");
    let events = replay(&run, &["--json"]).expect(0);
    let last = events.stdout.lines().last().unwrap_or_default();
    let last: Value = serde_json::from_str(last).unwrap();
    assert_eq!(
        (&last["type"], &last["exit_code"]),
        (&json!("ended"), &json!(0))
    );
    assert_eq!(
        fs::read_to_string(run.dir.join("log")).unwrap(),
        "one\ntwo\n"
    );
    assert_eq!(fs::read(run.dir.join("traj.events.jsonl")).unwrap(), whole);
    assert_eq!(fs::read_dir(&run.dir).unwrap().count(), 3);
}

/// Writes a recorded trajectory of mini-swe-agent to a file, with `address` for `@URL@`. Also returns the
/// whole recording.
pub fn of_mini(host: Host, name: &str, address: &str) -> (Host, Value) {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/side-by-side/recorded");
    let text = fs::read_to_string(folder.join(name).with_extension("json")).unwrap();
    let value: Value = serde_json::from_str(&text.replace("@URL@", address)).unwrap();
    let trajectory = value["result"]["trajectory"].to_string();
    (host.file("mini.traj.json", trajectory), value)
}

#[test]
fn a_trajectory_of_mini_swe_agent_is_replayed() {
    for name in [
        "toolcall_several",
        "toolcall_submit_inside",
        "format_repeated",
        "text_format_errors",
        "run_timeout_text",
        "anthropic_thinking",
        "responses_format_errors",
        "responses_several",
        "limit_steps",
    ] {
        let (host, _) = of_mini(Host::new(), name, "http://127.0.0.1:9");
        let same = host.args(["replay", "mini.traj.json", "--verify"]).run();
        let same = same.says(&["a trajectory of mini-swe-agent", "not in it"]);
        assert!(
            same.stdout.ends_with("messages are the same\n"),
            "{name}\n{same}"
        );
        assert_eq!(same.status, 0, "{name}\n{same}");
        assert_eq!(fs::read_dir(&same.dir).unwrap().count(), 1, "{name}");
    }
}

#[test]
fn a_trajectory_that_holds_too_little_is_refused() {
    let older = json!({"trajectory_format": "mini-swe-agent-1", "info": {"config": {}}, "messages": [
        {"role": "system", "content": "s"},
        {"role": "user", "content": "t"},
        {"role": "assistant", "content": "```bash\nls\n```"},
        {"role": "user", "content": "<output>a</output>"},
    ]});
    let host = || Host::new().file("mini.traj.json", older.to_string());
    let refused = host().args(["replay", "mini.traj.json"]).run().expect(2);
    refused.says(&["`extra.raw_output`", "mswea-host fork", "--no-workspace"]);
    let refused = host().args(["resume", "mini.traj.json"]).run().expect(2);
    refused.says(&[
        "a trajectory of mini-swe-agent",
        "mswea-host fork",
        "--no-workspace",
    ]);
}

#[test]
fn the_first_difference_is_shown() {
    let run = recorded();
    let journal = run.dir.join("traj.events.jsonl");
    let text = fs::read_to_string(&journal).unwrap();
    let lines = text.lines().map(|line| {
        let mut event: Value = serde_json::from_str(line).unwrap();
        if event["event"] == "observed" && line.contains("two") {
            event["messages"][0]["content"][0]["text"] = "changed by hand".into();
        }
        format!("{event}\n")
    });
    fs::write(&journal, lines.collect::<String>()).unwrap();
    let differs = replay(&run, &["--verify"]).expect(1);
    for part in ["differs", "changed by hand", "two"] {
        assert!(differs.stdout.contains(part), "{differs}");
    }
    let value = replay(&run, &["--verify", "--json"])
        .expect(1)
        .stdout
        .clone();
    let value: Value = serde_json::from_str(&value).unwrap();
    assert_eq!(value["same"], false);
    let recorded = value["difference"]["recorded"].to_string();
    assert!(recorded.contains("changed by hand"), "{recorded}");
}

#[test]
fn another_parser_goes_as_far_as_it_can() {
    let run = recorded();
    let other = replay(&run, &["--verify", "--plugin", "text_regex"]).expect(1);
    assert!(other.stdout.contains("differs"), "{other}");
}

#[test]
fn another_formatter_and_another_processor_show_what_they_make_of_a_run() {
    let run = recorded();
    let formatter = ["--verify", "--plugin", "formatters/swe_agent"];
    let other = replay(&run, &formatter).expect(1);
    assert!(other.stdout.contains("differs"), "{other}");
    // A processor changes what a model would get, and not the messages.
    let n = "plugins.last_n_observations.config.n=1";
    let processor = ["--verify", "--plugin", "last_n_observations", "-c", n];
    let same = replay(&run, &processor).expect(0);
    assert!(same.stdout.ends_with("are the same\n"), "{same}");
}

const SUBMIT: &str = "echo COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT; echo done";

fn call(command: &str) -> Turn {
    Turn::commands(&[command])
}

/// Kills a run once `is_so`.
fn killed(mut running: Running, what: &str, is_so: impl FnMut(&Running) -> bool) -> Run {
    running.until(what, is_so);
    running.signal(Signal::KILL);
    running.wait().expect(-9)
}

fn resumed(run: &Run, args: &[&str]) -> Run {
    let host = Host::after(run).args(["resume", "traj.json"]);
    host.args(args).run().expect(0)
}

fn verified(name: &str, run: &Run, trajectory: &str) {
    let same = Host::after(run).args(["replay", trajectory, "--verify"]);
    let same = same.run();
    assert_eq!(same.status, 0, "{name}\n{same}");
    assert!(same.stdout.starts_with("all "), "{name}\n{same}");
}

/// Runs that were cut in all kinds of ways, verified as they were left, and when they have gone on.
#[test]
fn every_honest_journal_is_verified() {
    fn ended(host: Host, status: i32) -> Run {
        host.run().expect(status)
    }
    type Story = (
        &'static str,
        Vec<Turn>,
        &'static [&'static str],
        fn(Host) -> Run,
    );
    let stories: [Story; 7] = [
        (
            "a limit",
            vec![call("echo one"), call(SUBMIT)],
            &["--step-limit", "1"],
            |host| ended(host, 3),
        ),
        (
            "an error",
            vec![
                call("echo one"),
                Turn::error(401, "invalid_api_key", "no such key"),
                call(SUBMIT),
            ],
            &[],
            |host| ended(host, 5),
        ),
        (
            "malformed replies",
            vec![
                Turn::text("a"),
                Turn::text("b"),
                Turn::text("c"),
                Turn::text("d"),
                call(SUBMIT),
            ],
            &[],
            |host| ended(host, 4),
        ),
        (
            "a kill in a query",
            vec![call("echo one"), Turn::fault(Fault::Silence), call(SUBMIT)],
            &[],
            |host| {
                killed(host.spawn(), "the second query", |run| {
                    // Later, so that the silence is for this request and not for that of `resume`.
                    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
                    let is_old = |event: &Value| {
                        now.as_secs_f64() - event["t"].as_f64().unwrap_or(f64::MAX) > 1.0
                    };
                    let is_second = |event: &Value| event["query"] == json!(2) && is_old(event);
                    run.journal().iter().any(is_second)
                })
            },
        ),
        (
            "a kill in an action",
            vec![
                Turn::commands(&["echo one", "touch begun; sleep 60", "echo three"]),
                call(SUBMIT),
            ],
            &[],
            |host| {
                killed(host.spawn(), "the action", |run| {
                    run.dir().join("begun").exists()
                })
            },
        ),
        (
            "a kill in the salvage",
            vec![call("echo one"), call(SUBMIT)],
            &[
                "--step-limit",
                "1",
                "-c",
                "agent.salvage_command=touch salvaging; sleep 60",
            ],
            |host| {
                killed(host.spawn(), "the salvage", |run| {
                    run.dir().join("salvaging").exists()
                })
            },
        ),
        (
            "an interrupt",
            vec![
                Turn::commands(&["echo one", "touch begun; sleep 60", "echo three"]),
                call(SUBMIT),
            ],
            &[],
            |host| {
                let mut running = host.spawn();
                running.until_file("begun");
                running.signal(Signal::INT);
                running.wait().expect(130)
            },
        ),
    ];
    for (name, turns, args, cut) in stories {
        let server = Server::start(Scenario::new(turns));
        let run = cut(Host::new().server(&server).task("count").args(args));
        verified(name, &run, "traj.json");
        let salvage = "agent.salvage_command=null";
        resumed(&run, &["--step-limit", "9", "-c", salvage]);
        verified(&format!("{name}, resumed"), &run, "traj.json");
    }
}

#[test]
fn a_run_in_a_new_environment_is_verified_and_forked() {
    let turns = ["echo 1", "echo 2", "echo 3", SUBMIT].map(call);
    let server = Server::start(Scenario::new(turns).by_history());
    let host = Host::new().server(&server).task("count");
    let origin = host.dir().join("origin");
    fs::create_dir(&origin).unwrap();
    repository(&origin);
    git(&origin, &["commit", "--quiet", "--message=second"]);
    let url = format!("workspace.repo=file://{}", origin.display());
    let place = "workspace.path=clone";
    let first = host.args(["-c", &url, "-c", place, "--step-limit", "2"]);
    let first = first.run().expect(3);
    fs::remove_dir_all(first.dir.join("clone")).unwrap();
    let moved = resumed(&first, &["--step-limit", "9"]).says(&["is gone"]);
    verified("a new environment", &moved, "traj.json");
    let bodies = || {
        server
            .requests()
            .into_iter()
            .map(|it| it.body)
            .collect::<Vec<_>>()
    };
    let before = bodies();
    let said = String::from_utf8_lossy(&before[2]).into_owned();
    assert!(said.contains("A new one has been made"), "{said}");
    // What the fork asks first is what the run has asked then.
    let fork = [
        "fork",
        "traj.json",
        "--at",
        "2",
        "--no-workspace",
        "-o",
        "fork.json",
    ];
    let fork = Host::after(&moved).args(fork);
    let fork = fork.args(["-c", "workspace.path=another"]).run().expect(0);
    assert_eq!(bodies()[before.len()..], before[2..]);
    verified("a fork of it", &fork, "fork.json");
}

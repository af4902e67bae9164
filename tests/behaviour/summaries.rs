//! Summaries of long outputs (EnIGMA's `SimpleSummarizer` and `LMSummarizer`): killed and replayed runs, limits, and
//! answers that are none.

use std::time::Duration;

use scripted_server::{Fault, Scenario, Server, Turn};
use serde_json::{Value, json};

use crate::enigma::{DONE, with_tools};
use crate::host::{Host, Signal};
use crate::run::Run;

fn seq(count: u32) -> Turn {
    bash(&format!("seq {count}"))
}

fn bash(command: &str) -> Turn {
    Turn::tool_call("bash", json!({ "command": command }))
}

fn done() -> Turn {
    bash(DONE)
}

/// A host that asks for summaries of more than 50 lines.
fn host(server: &Server) -> Host {
    let host = with_tools(server, &["windowed"], None);
    host.args(["-c", "tools.longest_output=50"])
        .args(["-c", "tools.long_outputs=summary"])
        .args(["-c", r#"pipeline.processors=["output_summary"]"#])
}

fn body(server: &Server, request: usize) -> Value {
    server.requests()[request].json()
}

/// The texts of the messages of a request.
fn texts(server: &Server, request: usize) -> Vec<String> {
    let body = body(server, request);
    let messages = body["messages"].as_array().unwrap().iter();
    messages
        .map(|message| match &message["content"] {
            Value::String(text) => text.clone(),
            other => other.to_string(),
        })
        .collect()
}

fn last(server: &Server) -> String {
    let texts = texts(server, server.requests().len() - 1);
    texts.join("\n====\n")
}

#[test]
fn a_killed_run_pays_for_no_summary_twice() {
    // Killed during the question, and behind its answer.
    for (begun, answers) in [
        (
            vec![seq(60)],
            vec![Turn::text("sixty numbers"), seq(2), done()],
        ),
        (
            vec![seq(60), Turn::text("sixty numbers")],
            vec![seq(2), done()],
        ),
    ] {
        let asked = begun.len() as u64 + 1;
        let late = Turn::text("late").with_delay(Duration::from_secs(600));
        let turns = begun.into_iter().chain([late]).chain(answers);
        let server = Server::start(Scenario::new(turns.collect::<Vec<_>>()));
        let running = host(&server).spawn();
        assert!(server.wait_for(asked, Duration::from_secs(60)));
        running.signal(Signal::KILL);
        let killed = running.wait();
        let resumed = Host::after(&killed).args(["resume", "traj.json"]).run();
        let resumed = resumed.expect(0);
        // The question that was cut off is asked again.
        assert_eq!(server.requests().len(), 5, "{asked}: {resumed}");
        let told = last(&server);
        assert!(told.contains("SUMMARY:\nsixty numbers"), "{asked}: {told}");
        assert_eq!(told.matches("SUMMARY:").count(), 1, "{asked}: {told}");
        assert!(told.contains("a new shell was begun"), "{asked}: {told}");
        is_replayed(&resumed);
    }
}

#[test]
fn the_first_command_of_a_new_shell_may_submit() {
    let server = Server::start(Scenario::new([
        seq(2),
        Turn::text("late").with_delay(Duration::from_secs(600)),
        done(),
    ]));
    let running = host(&server).spawn();
    assert!(server.wait_for(2, Duration::from_secs(60)));
    running.signal(Signal::KILL);
    let killed = running.wait();
    let resumed = Host::after(&killed).args(["resume", "traj.json"]).run();
    assert_eq!(resumed.expect(0).stdout, "done\n");
}

/// The same run comes of its record, without a request and without a command.
fn is_replayed(run: &Run) {
    let host = Host::after(run).args(["replay", "traj.json", "--verify"]);
    let same = host.run().expect(0);
    assert!(same.stdout.ends_with("messages are the same\n"), "{same}");
}

#[test]
fn an_opened_output_is_there_after_a_kill() {
    let turns = [
        seq(60),
        Turn::text("late").with_delay(Duration::from_secs(600)),
        Turn::tool_call("scroll_down", json!({})),
        done(),
    ];
    let server = Server::start(Scenario::new(turns));
    let host = with_tools(&server, &["windowed"], None);
    let host = host
        .args(["-c", "tools.longest_output=50"])
        .args(["-c", "tools.long_outputs=open"])
        .args(["-c", "tools.env_variables.WINDOW=\"40\""]);
    let running = host.spawn();
    assert!(server.wait_for(2, Duration::from_secs(60)));
    running.signal(Signal::KILL);
    let killed = running.wait();
    let resumed = Host::after(&killed).args(["resume", "traj.json"]).run();
    let resumed = resumed.expect(0);
    let told = last(&server);
    assert!(told.contains("60 lines"), "{told}");
    // The file is still the open one, in a new shell.
    assert!(told.contains("\n60:60\n"), "{told}");
    is_replayed(&resumed);
}

#[test]
fn summaries_count_against_the_limits() {
    // Their costs.
    let turns = || {
        [
            seq(60).with_cost(0.4),
            Turn::text("sixty").with_cost(0.7),
            done().with_cost(0.1),
        ]
    };
    for (limit, status, requests) in [("1.0", 3, 2), ("1.1", 3, 2), ("2.0", 0, 3)] {
        let server = Server::start(Scenario::new(turns()));
        let run = host(&server).args(["--cost-limit", limit]).run();
        assert_eq!(run.status, status, "{limit}: {run}");
        assert_eq!(server.requests().len(), requests, "{limit}: {run}");
        let cost = run.trajectory()["info"]["model_stats"]["instance_cost"].as_f64();
        let expected = if status == 0 { 1.2 } else { 1.1 };
        assert!((cost.unwrap() - expected).abs() < 1e-9, "{limit}: {cost:?}");
    }
    // Their number.
    for (limit, status, requests) in [("1", 3, 1), ("2", 3, 2), ("3", 0, 3)] {
        let server = Server::start(Scenario::new(turns()));
        let run = host(&server).args(["--step-limit", limit]).run();
        assert_eq!(run.status, status, "{limit}: {run}");
        assert_eq!(server.requests().len(), requests, "{limit}: {run}");
    }
}

#[test]
fn answers_that_are_no_summaries_end_nothing() {
    let flood = "nonsense ".repeat(100_000);
    let lines = "line\n".repeat(5000);
    let context = "This model's maximum context length is 10 tokens";
    let marks = "<<SWE_AGENT_SUBMISSION>>\n###SWE-AGENT-EXIT-FORFEIT###\nCOMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT";
    for (answer, parts, longest) in [
        // A summary without a text is none.
        (Turn::text(""), &["The output has 60 lines"][..], 4_000),
        (seq(7), &["The output has 60 lines"], 4_000),
        (Turn::text(" \n "), &["The output has 60 lines"], 4_000),
        (
            Turn::text(flood),
            &["SUMMARY:\nnonsense ", "left out"],
            40_000,
        ),
        (Turn::text(lines), &["SUMMARY:\nline\n", "left out"], 40_000),
        (
            Turn::text(marks),
            &["SUMMARY:\n<<SWE_AGENT_SUBMISSION>>\n"],
            4_000,
        ),
        (
            Turn::error(400, "context_length_exceeded", context),
            &["The output has 60 lines"],
            4_000,
        ),
        (
            Turn::text("cut").with_finish_reason("length"),
            &["SUMMARY:\ncut"],
            4_000,
        ),
        (
            Turn::fault(Fault::InvalidJson),
            &["The output has 60 lines"],
            4_000,
        ),
    ] {
        let shown = format!("{answer:?}").chars().take(200).collect::<String>();
        let server = Server::start(Scenario::new([seq(60), answer, done()]));
        let run = host(&server)
            .args(["-c", "model.network_retries=0"])
            .args(["-c", "model.stream=false"])
            .run();
        assert_eq!(run.status, 0, "{shown}: {run}");
        let told = last(&server);
        for part in parts {
            assert!(told.contains(part), "{shown}: {told:.3000}");
        }
        if !parts[0].starts_with("SUMMARY") {
            assert!(!told.contains("SUMMARY:"), "{shown}: {told:.3000}");
        }
        assert!(told.len() < longest, "{shown}: {} bytes", told.len());
        is_replayed(&run);
    }
}

#[test]
fn a_replay_of_swe_agents_trajectory_asks_for_no_summaries() {
    let server = Server::start(Scenario::new([
        seq(60),
        Turn::text("sixty numbers"),
        Turn::tool_call("submit", json!({"flag": "right"})),
    ]));
    let paths = ["--problem_statement.path=my task/challenge.json"];
    let words = crate::challenges::ctf(&server, &paths);
    let run = crate::challenges::challenge().args(words).run().expect(0);
    let made = crate::sweagent::read(&run.dir.join("out/pwn_WarmUp/pwn_WarmUp.traj"));
    assert_eq!(made["info"]["model_stats"]["api_calls"], 3);
    let traj = "--traj_path=out/pwn_WarmUp/pwn_WarmUp.traj";
    let words = ["sweagent", "run-replay", traj, "--output_dir=again"];
    let again = Host::after(&run).args(words).run().expect(0);
    assert_eq!(server.requests().len(), 3, "{again}");
    let again = crate::sweagent::read(&run.dir.join("again/pwn_WarmUp/pwn_WarmUp.traj"));
    assert_eq!(again["info"]["exit_status"], "submitted");
    let actions = |made: &Value| -> Vec<Value> {
        let steps = made["trajectory"].as_array().unwrap().iter();
        steps.map(|step| step["action"].clone()).collect()
    };
    assert_eq!(actions(&again), actions(&made));
}

//! Faults of servers: one message with cause and remedy, exit code 5, and a trajectory with all steps
//! before the fault.

use std::thread;
use std::time::{Duration, Instant};

use scripted_server::{Fault, Scenario, Server, Turn};
use serde_json::json;

use crate::host::Host;
use crate::story::{impatient, patience, submit, turns};

/// A server that answers the first request with a command, and every later one with this turn.
fn after_a_step(turn: Turn) -> Server {
    let mut first = Turn::commands(&["echo worked"]);
    first.matching = Some(0);
    let mut turn = turn;
    turn.matching = Some(1);
    Server::start(Scenario::new([first, turn]).by_history())
}

#[test]
fn servers_that_fail() {
    let fault = Turn::fault;
    let table: Vec<(&str, Turn, &str, u64, &[&str])> = vec![
        (
            "400",
            Turn::status(400),
            "BadRequestError",
            1,
            &["(400)", "model_kwargs`"],
        ),
        (
            "401",
            Turn::status(401),
            "AuthenticationError",
            1,
            &["(401)", "key"],
        ),
        (
            "403",
            Turn::status(403),
            "PermissionDeniedError",
            1,
            &["(403)", "another key"],
        ),
        (
            "404",
            Turn::status(404),
            "NotFoundError",
            1,
            &["(404)", "base_url`"],
        ),
        (
            "408",
            Turn::status(408),
            "Timeout",
            2,
            &["(408)", "try again", "2 attempts"],
        ),
        (
            "429",
            Turn::status(429),
            "RateLimitError",
            2,
            &["(429)", "higher limit", "2 attempts"],
        ),
        (
            "500",
            Turn::status(500),
            "InternalServerError",
            2,
            &["(500)", "try again later"],
        ),
        (
            "503",
            Turn::status(503),
            "ServiceUnavailableError",
            2,
            &["(503)", "try again later"],
        ),
        (
            "context",
            Turn::error(
                400,
                "context_length_exceeded",
                "maximum context length is 8192 tokens",
            ),
            "ContextWindowExceededError",
            1,
            &["8192", "history processor"],
        ),
        (
            // The first reply has shown that the address is right, so the cause is the server.
            "html",
            fault(Fault::Html),
            "MalformedResponseError",
            2,
            &["web page", "base_url`"],
        ),
        (
            "html 502",
            fault(Fault::Html).with_status(502),
            "BadGatewayError",
            2,
            &["(502)"],
        ),
        (
            "cut",
            fault(Fault::Cut),
            "APIConnectionError",
            2,
            &["broke off in the middle", "check the network"],
        ),
        (
            "no end",
            fault(Fault::NoDone),
            "MalformedResponseError",
            2,
            &["broke off its answer"],
        ),
        (
            "stall",
            fault(Fault::Stall),
            "Timeout",
            2,
            &["sent nothing", "raise `model.idle_timeout`"],
        ),
        (
            "silence",
            fault(Fault::Silence),
            "Timeout",
            2,
            &["no response", "raise `model.first_byte_timeout`"],
        ),
        (
            "hang-up",
            fault(Fault::HangUp),
            "APIConnectionError",
            2,
            &["closed the connection", "log"],
        ),
        (
            "empty body",
            fault(Fault::EmptyBody),
            "MalformedResponseError",
            2,
            &["empty body", "proxy"],
        ),
        (
            "no JSON",
            fault(Fault::InvalidJson),
            "MalformedResponseError",
            2,
            &["answer"],
        ),
        (
            "no choices",
            fault(Fault::NoChoices),
            "MalformedResponseError",
            2,
            &["`choices`"],
        ),
        (
            "error inside",
            fault(Fault::ErrorInBody),
            "InternalServerError",
            2,
            &["error inside"],
        ),
        (
            "huge head",
            fault(Fault::HugeHeaders),
            "MalformedResponseError",
            2,
            &["check `--base-url`"],
        ),
    ];
    let mut cases = Vec::new();
    for case in &table {
        cases.extend([(case, true), (case, false)]);
    }
    // Most of the time they wait, so several run at once.
    for group in cases.chunks(7) {
        thread::scope(|scope| {
            for &((name, turn, status, requests, parts), stream) in group {
                scope.spawn(move || {
                    let server = after_a_step(turn.clone());
                    let mut host = impatient(&server);
                    if !stream {
                        host = host.arg("--no-stream");
                    }
                    let run = host.run().expect(5).says(parts).nothing_left();
                    let errors = run
                        .stderr
                        .lines()
                        .filter(|line| line.starts_with("error: "));
                    assert_eq!(errors.count(), 1, "{name}: {run}");
                    assert_eq!(run.exit_status(), *status, "{name}: {run}");
                    // A connection that is used again and closed without an answer counts as no attempt.
                    let more = u64::from(*name == "hang-up");
                    let served = 1 + requests..=1 + requests + more;
                    assert!(served.contains(&server.served()), "{name}: {run}");
                    assert_eq!(
                        run.events("retry").len() as u64,
                        requests - 1,
                        "{name}: {run}"
                    );
                    let trajectory = run.trajectory();
                    let messages = trajectory["messages"].as_array().unwrap();
                    let roles: Vec<&str> = messages
                        .iter()
                        .map(|message| message["role"].as_str().unwrap())
                        .collect();
                    assert_eq!(
                        roles,
                        ["system", "user", "assistant", "tool", "exit"],
                        "{name}"
                    );
                    assert!(messages[3].to_string().contains("worked"), "{name}");
                });
            }
        });
    }
}

#[test]
fn a_complete_reply_is_used_although_the_connection_stays_open() {
    let submission = submit("done");
    let event = |delta: serde_json::Value, reason: serde_json::Value| {
        let choice = json!({"index": 0, "delta": delta, "finish_reason": reason});
        format!("data: {}\n\n", json!({"choices": [choice], "usage": null}))
    };
    let arguments = json!({"command": submission}).to_string();
    let call = json!([{"index": 0, "id": "c", "type": "function", "function": {"name": "bash", "arguments": arguments}}]);
    let finished =
        event(json!({"tool_calls": call}), json!(null)) + &event(json!({}), json!("tool_calls"));
    let usage =
        "data: {\"choices\":[],\"usage\":{\"prompt_tokens\":7,\"completion_tokens\":5}}\n\n";
    let whole = || Turn::commands(&[submission.as_str()]);
    let longer = |turn: Turn| turn.with_header("content-length", "100000");
    let raw = |text: String| {
        let turn = Turn::status(200).with_header("content-type", "text/event-stream");
        longer(turn.with_body(text))
    };
    let responses: &[&str] = &["-c", "model.model_class=litellm_response"];
    // Flags, the answer, and a fault after it. The time-outs are shorter than the wait for token counts.
    let table: Vec<(&[&str], Turn, Fault)> = vec![
        (&[], whole(), Fault::Stall),
        (&["--no-stream"], longer(whole()), Fault::Stall),
        (responses, whole(), Fault::Stall),
        (&["-m", "anthropic/x"], whole(), Fault::Stall),
        (&["-m", "gemini/x"], whole(), Fault::Stall),
        (&["-m", "openrouter/x"], whole(), Fault::Stall),
        (&[], raw(finished.clone()), Fault::Stall),
        (&[], raw(finished.clone()), Fault::Cut),
        (&[], raw(finished + usage), Fault::Stall),
    ];
    for (flags, turn, fault) in table {
        let server = Server::start(Scenario::new([turn.with_fault(fault).at(1 << 30)]));
        let run = impatient(&server)
            .env("ANTHROPIC_API_KEY", "k")
            .env("GEMINI_API_KEY", "k")
            .env("OPENROUTER_API_KEY", "k")
            .args(flags)
            .run()
            .expect(0);
        assert_eq!(run.stdout, "done\n", "{flags:?}: {run}");
        assert_eq!(server.served(), 1, "{flags:?}: {run}");
        assert!(run.events("retry").is_empty(), "{flags:?}: {run}");
    }
    // An error does not wait for the end of the connection, either.
    let refused = longer(Turn::status(401)).with_fault(Fault::Stall);
    let server = Server::start(Scenario::always(refused.at(1 << 30)));
    let run = impatient(&server).run().expect(5);
    assert_eq!(run.exit_status(), "AuthenticationError", "{run}");
}

#[test]
fn endless_answers_are_cut_off() {
    let endless = Server::start(Scenario::always(Turn::fault(Fault::Endless)));
    impatient(&endless)
        .args(["--no-stream", "-c", "model.max_response_bytes=100000"])
        .run()
        .expect(5)
        .says(&[
            "larger than 100000 bytes",
            "raise `model.max_response_bytes`",
        ]);
    assert_eq!(endless.served(), 1);
    let run = impatient(&endless)
        .args(["-c", "model.network_retries=0"])
        .run()
        .expect(5);
    // Which limit is reached first depends on the machine.
    let ends = [
        "raise `model.total_timeout`",
        "raise `model.max_response_bytes`",
    ];
    assert!(ends.iter().any(|end| run.stderr.contains(end)), "{run}");
}

#[test]
fn a_server_that_cannot_be_reached_ends_the_run() {
    let gone = turns([]);
    let url = gone.url();
    drop(gone);
    let run = patience(Host::new().base_url(&url))
        .task("x")
        .run()
        .expect(5);
    let run = run.says(&[
        "nothing listens at",
        "is the server running? check `--base-url`",
    ]);
    assert_eq!(run.exit_status(), "APIConnectionError");
    patience(Host::new().base_url("http://gone.invalid/v1"))
        .task("x")
        .args(["-c", "model.network_retries=0"])
        .run()
        .expect(5)
        .says(&[
            "gone.invalid",
            "could not be resolved",
            "check `--base-url`",
        ]);
}

#[test]
fn temporary_faults_are_retried() {
    for turn in [
        Turn::status(503),
        Turn::status(408),
        Turn::fault(Fault::Cut).with_text("half of"),
        Turn::fault(Fault::HangUp),
        Turn::fault(Fault::ErrorInStream),
    ] {
        let server = turns([turn]);
        let run = impatient(&server)
            .run()
            .expect(0)
            .says(&["retry 1 of 1", "Submitted"]);
        assert_eq!(run.stdout, "done\n");
        assert_eq!(server.served(), 2);
        assert_eq!(run.trajectory()["info"]["model_stats"]["api_calls"], 1);
    }
}

#[test]
fn retry_after_is_followed_up_to_a_limit() {
    let server = turns([Turn::status(429).with_header("retry-after", "1")]);
    let run = impatient(&server).run().expect(0);
    let requests = server.requests();
    let waited = requests[1].at - requests[0].at;
    assert!((1.0..2.5).contains(&waited.as_secs_f64()), "{waited:?}");
    let retry = &run.events("retry")[0];
    assert_eq!(retry["class"], json!("rate-limited"));

    // A wait of an hour is refused.
    let server = turns([Turn::status(429).with_header("retry-after", "3600")]);
    let asked = Instant::now();
    impatient(&server)
        .run()
        .expect(5)
        .says(&["asks to wait 60 min"]);
    assert!(asked.elapsed() < Duration::from_secs(20));
}

//! Limits: each ends the run in time, keeps the steps so far, and has its exit code.

use std::time::{Duration, Instant};

use scripted_server::{Fault, Recorded, Scenario, Server, Turn};
use serde_json::{Value, json};

use crate::host::Host;
use crate::run::Run;
use crate::story::{roles, submit, turns};

fn always(turn: Turn) -> Server {
    Server::start(Scenario::always(turn))
}

fn cost(run: &Run) -> f64 {
    run.trajectory()["info"]["model_stats"]["instance_cost"]
        .as_f64()
        .unwrap()
}

fn texts(run: &Run) -> Vec<(String, String)> {
    let trajectory = run.trajectory();
    let messages = trajectory["messages"].as_array().unwrap();
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    messages
        .iter()
        .map(|message| (text(&message["role"]), text(&message["content"])))
        .collect()
}

#[test]
fn limits_of_steps_and_cost_end_the_run() {
    let priced = || Turn::commands(&["true"]).with_cost(0.2);
    // 100 tokens in, 10 out
    for (turn, arguments, queries, dollars) in [
        (
            Turn::commands(&["true"]),
            &["--step-limit", "3"][..],
            3,
            None,
        ),
        (priced(), &["-l", "0.5"], 3, Some(0.6)),
        (
            Turn::commands(&["true"]),
            &["-l", "0.25", "--price", "in=900,out=1000"],
            3,
            Some(0.3),
        ),
        (
            Turn::text("no call"),
            &["-l", "0.15", "--price", "in=900,out=1000"],
            2,
            Some(0.2),
        ),
    ] {
        let server = always(turn);
        let run = Host::new().server(&server).task("x").args(arguments).run();
        let run = run.expect(3).says(&["LimitsExceeded"]).nothing_left();
        assert_eq!(server.served(), queries, "{arguments:?}");
        assert_eq!(run.exit_status(), "LimitsExceeded");
        assert_eq!(
            run.trajectory()["info"]["model_stats"]["api_calls"],
            queries
        );
        if let Some(dollars) = dollars {
            assert!((cost(&run) - dollars).abs() < 1e-9, "{}", cost(&run));
        }
        assert_eq!(texts(&run).last().unwrap().0, "exit");
    }
    // The default cost limit can't be enforced without a price; that is reported once.
    let server = turns([Turn::commands(&["true"])]);
    let run = Host::new().server(&server).task("x").run().expect(0);
    assert_eq!(
        run.stderr
            .matches("the price of this model is unknown")
            .count(),
        1,
        "{run}"
    );
    let server = turns([Turn::commands(&["true"])]);
    let run = Host::new()
        .server(&server)
        .task("x")
        .args(["-l", "0"])
        .run()
        .expect(0);
    assert!(!run.stderr.contains("the price of this model"), "{run}");
    // Counts that can't be read are no cost of 0.
    let message = json!({"role": "assistant", "content": "no call"});
    let body = json!({"choices": [{"message": message, "finish_reason": "stop"}], "usage": {"prompt_tokens": -5}});
    let server = always(Turn::status(200).with_body(body));
    let run = Host::new()
        .server(&server)
        .task("x")
        .args(["--price", "in=1,out=1", "-c", "agent.step_limit=2"])
        .run()
        .expect(3);
    let words = "does not say how many tokens";
    assert_eq!(run.stderr.matches(words).count(), 1, "{run}");
}

#[test]
fn the_time_limit_ends_commands_queries_and_waits() {
    let long = "(setsid sleep 300 &); touch started; sleep 301";
    for (turn, parts) in [
        (Turn::commands(&[long, "touch second"]), &["started"][..]),
        (Turn::fault(Fault::Silence), &[]),
        (Turn::fault(Fault::Stall), &[]),
        (Turn::status(429).with_header("retry-after", "60"), &[]),
    ] {
        let server = always(turn);
        let begun = Instant::now();
        let run = Host::new()
            .server(&server)
            .task("x")
            .args(["--time-limit", "1"])
            .run();
        let took = begun.elapsed();
        let run = run.expect(3).says(&["TimeExceeded"]).nothing_left();
        assert!(took < Duration::from_secs(5), "{took:?}");
        assert_eq!(run.exit_status(), "TimeExceeded");
        for name in parts {
            assert!(run.dir.join(name).exists(), "{name}");
        }
        // The action after the one that was cut off is not run; its tool call gets a result.
        assert!(!run.dir.join("second").exists());
        let results = texts(&run)
            .into_iter()
            .filter(|(role, _)| role == "tool")
            .count();
        assert_eq!(results, parts.len() * 2, "{run}");
    }
}

#[test]
fn malformed_replies_get_feedback_and_end_the_run_after_three_in_a_row() {
    let server = turns([
        Turn::text("I only talk"),
        Turn::text("and talk"),
        Turn::commands(&["true"]),
    ]);
    let run = Host::new().server(&server).task("x").run().expect(0);
    let bodies: Vec<Value> = server.requests().iter().map(Recorded::json).collect();
    // The feedback is sent, the rejected reply is not.
    assert_eq!(roles(&bodies[1]), ["system", "user", "user"]);
    assert_eq!(roles(&bodies[2]), ["system", "user", "user", "user"]);
    let feedback = bodies[1]["messages"][2]["content"].as_str().unwrap();
    assert!(feedback.contains("call the tool `bash`"), "{feedback}");
    assert_eq!(run.events("rejected").len(), 2);

    // Three malformed replies in a row end the run, and each of them is charged.
    let vectors: [(&[&str], Turn); 3] = [
        (&[], Turn::text("I only talk")),
        (
            &["-c", "text"],
            Turn::text("```mswea_bash_command\na\n```\n```mswea_bash_command\nb\n```"),
        ),
        (&[], Turn::tool_call("bash", "{\"command\": ")),
    ];
    for (arguments, turn) in vectors {
        let server = always(turn);
        let price = ["--price", "in=900,out=1000"];
        let run = Host::new()
            .server(&server)
            .task("x")
            .args(arguments)
            .args(price)
            .run();
        let run = run.expect(4).says(&["RepeatedFormatError"]).nothing_left();
        assert_eq!(
            (server.served(), run.exit_status().as_str()),
            (3, "RepeatedFormatError")
        );
        assert!((cost(&run) - 0.3).abs() < 1e-9, "{}", cost(&run));
    }
    // A good reply in between resets the count.
    let bad = || Turn::text("I only talk");
    let good = || Turn::commands(&["true"]);
    let server = turns([bad(), bad(), good(), bad(), bad(), good()]);
    Host::new().server(&server).task("x").run().expect(0);
    let server = always(bad());
    let limit = ["-c", "agent.max_consecutive_format_errors=1"];
    Host::new()
        .server(&server)
        .task("x")
        .args(limit)
        .run()
        .expect(4);
    assert_eq!(server.served(), 1);
}

#[test]
fn unusable_answers_that_were_billed_are_charged() {
    // Both attempts are counted: 2 × (100 tokens in + 10 out)
    let server = always(Turn::fault(Fault::NoChoices));
    let run = crate::story::impatient(&server)
        .args(["--price", "in=900,out=1000"])
        .run()
        .expect(5);
    assert_eq!(
        run.trajectory()["info"]["mswea"]["usage"]["input_tokens"],
        200
    );
    assert!((cost(&run) - 0.2).abs() < 1e-9, "{}", cost(&run));
}

#[test]
fn actions_after_a_submission_are_not_run_but_answered() {
    let end = submit("done");
    let server = always(Turn::commands(&["echo first", &end, "touch never"]));
    let run = Host::new().server(&server).task("x").run().expect(0);
    assert!(!run.dir.join("never").exists());
    let told = texts(&run);
    let results: Vec<&str> = told
        .iter()
        .filter(|(role, _)| role == "tool")
        .map(|(_, text)| text.as_str())
        .collect();
    assert_eq!(results.len(), 3, "{told:?}");
    assert!(results[0].contains("first"));
    assert!(results[2].contains("action was not executed"), "{told:?}");
    assert_eq!(
        told.last().unwrap(),
        &("exit".to_owned(), "done".to_owned())
    );
}

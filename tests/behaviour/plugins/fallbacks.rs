//! How a run continues when a plugin fails: by kind, through the real binary.

use scripted_server::{Scenario, Server, Turn};
use serde_json::{Value, json};

use super::guests::hostile;
use crate::host::Host;
use crate::run::Run;

const SUBMIT: &str = "echo COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT; echo the-work";

/// A host whose `role` is the hostile plugin with this config.
pub fn host(server: &Server, role: &str, config: &Value) -> Host {
    let host = Host::new().server(server).task("do it");
    host.args(plugin(role, config))
}

fn plugin(role: &str, config: &Value) -> [String; 4] {
    let path = hostile().to_str().unwrap();
    let value = match role {
        "processors" | "policies" => json!([path]).to_string(),
        _ => path.to_owned(),
    };
    [
        "-c".to_owned(),
        format!("pipeline.{role}={value}"),
        "-c".to_owned(),
        format!("plugins.hostile.config={config}"),
    ]
}

/// A short deadline for deeds that exceed it, a long one for the others.
fn deadline(deed: &str) -> [&'static str; 2] {
    match deed {
        "loop" => ["-c", "plugins.hostile.deadline_ms=300"],
        _ => ["-c", "plugins.hostile.deadline_ms=60000"],
    }
}

fn server(commands: &[&str]) -> Server {
    Server::start(Scenario::commands(commands))
}

/// The conversation of request `index` as JSON text.
fn conversation(server: &Server, index: usize) -> String {
    server.requests()[index].json()["messages"].to_string()
}

#[track_caller]
fn fault(run: &Run, parts: &[&str]) {
    let faults = run.events("plugin_fault");
    let first = faults
        .first()
        .unwrap_or_else(|| panic!("no fault was recorded\n{run}"));
    assert_eq!(first["plugin"], "hostile");
    let message = first["message"].as_str().unwrap();
    for part in parts {
        assert!(message.contains(part), "`{part}`: {message}\n{run}");
        assert!(run.stderr.contains(part), "`{part}` is not shown\n{run}");
    }
}

#[test]
fn a_parser_that_fails_is_a_malformed_reply() {
    for (deed, part) in [
        ("panic", "the guest's last words, in `parse`"),
        ("loop", "still running after 300 ms"),
        ("bad-json", "`action.extra` is not JSON"),
        ("error", "the parser gives up"),
    ] {
        // The parser fails on the third reply; a new instance parses the fourth.
        let server = server(&["echo one", "echo two", "touch never", SUBMIT]);
        let config = json!({"at": "parse", "do": deed, "from": 3, "then": "nothing"});
        let run = host(&server, "parser", &config)
            .args(deadline(deed))
            .run()
            .expect(0)
            .nothing_left();
        fault(&run, &["plugin `hostile` failed in `parse`", part]);
        assert_eq!(run.events("rejected").len(), 1, "{run}");
        assert_eq!(server.served(), 4);
        assert!(
            conversation(&server, 3).contains("failed in `parse`"),
            "{run}"
        );
        assert!(!run.dir.join("never").exists());
        assert!(run.stdout.contains("the-work"), "{run}");
    }
}

#[test]
fn a_parser_that_fails_twice_in_a_row_ends_the_run() {
    let server = Server::start(Scenario::always(Turn::commands(&["true"])));
    let config = json!({"at": "parse", "do": "panic"});
    let run = host(&server, "parser", &config)
        .run()
        .expect(7)
        .says(&["the parser failed twice in a row"]);
    assert_eq!(run.exit_status(), "PluginError");
    assert_eq!(server.served(), 2);
}

#[test]
fn a_formatter_that_fails_is_replaced_by_a_plain_one() {
    for (deed, part) in [
        ("panic", "the guest's last words, in `format`"),
        (
            "bomb",
            "more than 32 MiB of memory (`plugins.hostile.memory_mb` raises the limit)",
        ),
        ("drop", "has no message of role `tool`"),
        ("invent", "`nobody-called`, which none of the actions has"),
        ("error", "the formatter gives up"),
    ] {
        let server = server(&["echo one-$((1+1))", SUBMIT]);
        let config = json!({"at": "format", "do": deed});
        let run = host(&server, "formatter", &config)
            .args(["-c", "plugins.hostile.memory_mb=32"])
            .run()
            .expect(0);
        fault(&run, &["`hostile`", part]);
        let told = conversation(&server, 1);
        assert!(
            told.contains("one-2") && !told.contains("formatted:"),
            "{told}"
        );
    }
    // While it behaves, it is used.
    let server = server(&["echo one", SUBMIT]);
    let run = host(&server, "formatter", &json!({})).run().expect(0);
    assert!(conversation(&server, 1).contains("formatted: one"));
    assert!(!run.stderr.contains("plugins have failed"), "{run}");
}

#[test]
fn a_line_at_the_end_says_how_often_plugins_have_failed() {
    for (flag, status) in [("-q", "Submitted"), ("-v", "Submitted"), ("--json", "")] {
        let server = server(&["echo one", "echo two", SUBMIT]);
        let config = json!({"at": "format", "do": "error"});
        let run = host(&server, "formatter", &config)
            .arg(flag)
            .run()
            .expect(0);
        let said = "warning: plugins have failed in this run: `hostile` 3 times";
        // After it, only the trajectory is named.
        let mut last = run.stderr.trim_end().lines().rev().take(2);
        assert!(last.any(|line| line.contains(said)), "{flag}: {run}");
        assert!(run.stderr.contains(status), "{run}");
    }
}

#[test]
fn a_line_at_the_end_of_a_batch_says_how_often_plugins_have_failed() {
    let server = Server::start(Scenario::commands(&["echo one", SUBMIT]).by_history());
    let config = json!({"at": "format", "do": "error"});
    let files = |host: Host| {
        let rows = r#"{"instance_id": "a", "problem_statement": "p"}"#;
        let tasks = "{\"id\": \"a\", \"task\": \"t\"}\n{\"id\": \"b\", \"task\": \"t\"}\n";
        host.file("data/test.jsonl", rows).file("i.jsonl", tasks)
    };
    for (words, count) in [
        (&["batch", "run", "out", "--instances", "i.jsonl"][..], 4),
        (
            &[
                "swebench",
                "--subset",
                "data",
                "--split",
                "test",
                "-o",
                "out",
                "-c",
                "environment={\"environment_class\": \"local\", \"cwd\": \".\"}",
            ],
            2,
        ),
    ] {
        for flag in ["-q", "--json"] {
            let run = files(Host::new().args(words).server(&server))
                .args(plugin("formatter", &config))
                .args(["-l", "0", flag])
                .run()
                .expect(0);
            let said =
                format!("warning: plugins have failed in this batch: `hostile` {count} times");
            assert_eq!(run.stderr.matches(&said).count(), 1, "{flag}: {run}");
        }
    }
}

#[test]
fn a_processor_that_fails_leaves_the_view_as_it_was() {
    let commands = ["echo one", "echo two", SUBMIT];
    let plain = server(&commands);
    Host::new().server(&plain).task("do it").run().expect(0);
    for (deed, part) in [
        ("panic", "the guest's last words, in `apply`"),
        ("loop", "still running after 300 ms"),
        ("unpair", "broke the pairing of tool calls and results"),
        ("range", "its change starts at message"),
        ("range-max", "its change starts at message 4294967295"),
        ("places", "its change has a message for place"),
        (
            "places-json",
            "`change.extra.places` is not a list of indices",
        ),
        (
            "big",
            "returned more than 1 MiB (`plugins.hostile.max_output_mb` raises the limit)",
        ),
        ("bad-json", "`message.extra` is not JSON"),
    ] {
        let server = server(&commands);
        let config = json!({"at": "apply", "do": deed, "size": 2 << 20});
        let run = host(&server, "processors", &config)
            .args(deadline(deed))
            .args(["-c", "plugins.hostile.max_output_mb=1"])
            .run()
            .expect(0);
        fault(&run, &["`hostile`", part]);
        assert_eq!(server.served(), plain.served());
        for index in 1..3 {
            // The first two messages contain names of folders and versions.
            let tail = |server: &Server| {
                server.requests()[index].json()["messages"]
                    .as_array()
                    .unwrap()[2..]
                    .to_vec()
            };
            assert_eq!(tail(&server), tail(&plain), "`{deed}`, request {index}");
        }
    }
    // While it behaves, it is used.
    let server = server(&commands);
    let config = json!({"at": "apply", "do": "mark"});
    host(&server, "processors", &config).run().expect(0);
    assert!(conversation(&server, 0).contains("marked"));
}

#[test]
fn a_call_whose_result_was_dropped_at_the_end_is_not_sent() {
    let server = server(&["echo one", SUBMIT]);
    let config = json!({"at": "apply", "do": "unpair-last"});
    let run = host(&server, "processors", &config).run().expect(0);
    fault(&run, &["broke the pairing of tool calls and results"]);
    assert!(conversation(&server, 1).contains("one"));
}

#[test]
fn a_processors_questions_are_answered_recorded_and_bounded() {
    let server = Server::start(Scenario::new([
        Turn::text("it was a summary"),
        Turn::commands(&[SUBMIT]),
    ]));
    let config = json!({"at": "apply", "do": "ask", "size": 1});
    let run = host(&server, "processors", &config).run().expect(0);
    assert_eq!(
        (run.events("asked").len(), run.events("ask_reply").len()),
        (1, 1)
    );
    assert!(conversation(&server, 0).contains("what was that?"));
    assert!(conversation(&server, 1).contains("answered: it was a summary"));

    let mut turns = vec![Turn::text("more?"); 8];
    turns.push(Turn::commands(&[SUBMIT]));
    let server = Server::start(Scenario::new(turns));
    let config = json!({"at": "apply", "do": "ask", "size": 1000});
    let run = host(&server, "processors", &config).run().expect(0);
    assert_eq!(run.events("asked").len(), 8);
    fault(&run, &["more than 8 queries in one step"]);
}

#[test]
fn a_repeated_question_of_a_processor_is_answered_from_the_record() {
    for (size, bounded) in [(5, false), (2_000, true)] {
        let server = Server::start(Scenario::new([
            Turn::text("it was a summary"),
            Turn::commands(&["true"]),
            Turn::commands(&[SUBMIT]),
        ]));
        // The processor asks the same question `size` times in each step.
        let config = json!({"at": "apply", "do": "ask-again", "size": size});
        let run = host(&server, "processors", &config).run().expect(0);
        let counts = (run.events("asked").len(), run.events("ask_reply").len());
        assert_eq!(counts, (1, 1), "{size}");
        assert_eq!(server.requests().len(), 3, "{size}");
        if bounded {
            fault(&run, &["more than 1000 queries in one step"]);
        } else {
            assert!(conversation(&server, 2).contains("answered: it was a summary"));
        }
    }
}

#[test]
fn a_policy_that_fails_denies() {
    for (deed, part) in [
        ("panic", "the guest's last words, in `judge`"),
        ("exit", "it called `exit("),
        ("bad-json", "`action.extra` must be a JSON object"),
        ("error", "the policy gives up"),
    ] {
        let server = server(&["echo one", "touch never", SUBMIT]);
        let config = json!({"at": "judge", "do": deed, "from": 2});
        let run = host(&server, "policies", &config)
            .args(["--step-limit", "2"])
            .run()
            .expect(3);
        fault(&run, &["plugin `hostile` failed in `judge`", part]);
        assert!(!run.dir.join("never").exists(), "`{deed}`\n{run}");
        assert_eq!(run.events("denied")[0]["policy"], "hostile");
    }
    let server = server(&["touch never", SUBMIT]);
    let config = json!({"at": "judge", "do": "panic"});
    let run = host(&server, "policies", &config)
        .args(["--step-limit", "2"])
        .run()
        .expect(3);
    assert!(!run.dir.join("never").exists());
    assert!(
        conversation(&server, 1).contains("the policy `hostile` failed, so the action is denied")
    );
}

#[test]
fn a_denial_and_a_question_without_a_person_stop_the_action() {
    for (deed, part) in [("deny", "not on my watch"), ("ask", "is that so?")] {
        let server = server(&["touch never", SUBMIT]);
        let config = json!({"at": "judge", "do": deed});
        let run = host(&server, "policies", &config)
            .args(["--step-limit", "2"])
            .run()
            .expect(3);
        assert!(run.events("plugin_fault").is_empty(), "{run}");
        assert!(!run.dir.join("never").exists());
        assert!(conversation(&server, 1).contains(part));
    }
}

/// An adapter with the server's host granted.
pub fn adapter(server: &Server, config: &Value) -> Host {
    host(server, "adapter", config)
        .arg("--allow-host")
        .arg(server.address().to_string())
}

#[test]
fn an_adapter_that_fails_once_is_replaced_and_gets_the_whole_history() {
    for (at, deed) in [
        ("query", "panic"),
        ("head", "panic"),
        ("feed", "loop"),
        ("finish", "recurse"),
        ("finish", "bad-json"),
    ] {
        let server =
            Server::start(Scenario::commands(&["echo one", "echo two", SUBMIT]).by_history());
        // The second instance would fail in its third call, which the run does not reach.
        let config = json!({"at": at, "do": deed, "from": 3});
        let run = adapter(&server, &config)
            .args(deadline(deed))
            .run()
            .expect(0);
        fault(&run, &[&format!("plugin `hostile` failed in `{at}`")]);
        let last = server.requests().last().unwrap().json();
        assert!(
            last["messages"].to_string().contains("echo")
                || last["messages"].as_array().unwrap().len() >= 6
        );
        assert!(run.stdout.contains("the-work"), "{run}");
    }
}

#[test]
fn an_adapter_that_fails_twice_ends_the_run_with_7() {
    for (at, deed, part) in [
        ("query", "panic", "the guest's last words, in `query`"),
        ("query", "loop", "still running after 300 ms"),
        ("head", "bomb", "more than 32 MiB of memory"),
        ("feed", "recurse", "its stack overflowed"),
        ("finish", "claim", "failed in `finish`"),
        ("finish", "bad-json", "`reply.response` is not JSON"),
    ] {
        let server = Server::start(Scenario::always(Turn::commands(&["true"])));
        let run = adapter(&server, &json!({"at": at, "do": deed}))
            .args(deadline(deed))
            .args(["-c", "plugins.hostile.memory_mb=32"])
            .run()
            .expect(7)
            .nothing_left();
        assert_eq!(run.exit_status(), "PluginError");
        let said = [
            "plugin `hostile` failed in",
            part,
            "a fresh instance of the plugin failed as well",
        ];
        let run = run.says(&said);
        assert!(server.served() <= 2, "{run}");
        assert_eq!(run.events("query_failed")[0]["class"], "plugin");
    }
}

#[test]
fn a_cost_that_is_no_number_is_not_added() {
    let server = server(&[SUBMIT]);
    let run = adapter(&server, &json!({"at": "finish", "do": "poison"}))
        .run()
        .expect(0);
    assert!(run.events("run_ended")[0]["cost"].is_null(), "{run}");
}

#[test]
fn the_log_of_a_plugin_is_bounded_in_every_role() {
    for (role, at) in [
        ("parser", "parse"),
        ("formatter", "format"),
        ("processors", "apply"),
        ("policies", "judge"),
        ("adapter", "finish"),
    ] {
        let server = server(&["echo one", SUBMIT]);
        let run = host(&server, role, &json!({"at": at, "do": "flood"}))
            .args(deadline("flood"))
            .arg("--allow-host")
            .arg(server.address().to_string())
            .run()
            .expect(0)
            .says(&["bytes of log were dropped", "`log_kb`"]);
        assert!(run.events("plugin_fault").is_empty(), "{run}");
        assert!(run.stderr.len() < 600_000, "{} bytes", run.stderr.len());
    }
}

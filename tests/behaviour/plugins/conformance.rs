//! For every first-party plugin, a run with `--fresh-instances` (which discards the instance after every
//! call) gives the same requests and messages as a run without it.
//!
//! The plugins are those that `plugin list` names, so a new plugin without a case fails.

use scripted_server::{Scenario, Server, Turn, Usage};
use serde_json::{Value, json};

use crate::host::Host;
use crate::run::Run;

const SUBMIT: &str = "echo COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT; echo the-work";

const COMPACT: [&str; 6] = [
    "-c",
    r#"pipeline.processors=["compaction"]"#,
    "-c",
    "plugins.compaction.config.budget_tokens=8000",
    "-c",
    "plugins.compaction.config.keep_last=2",
];

const SUMMARISED: [&str; 12] = [
    "-c",
    r#"pipeline.processors=["output_summary"]"#,
    "-c",
    "environment.session=true",
    "-c",
    r#"tools.bundles=["windowed"]"#,
    "-c",
    "tools.root=tools-root",
    "-c",
    "tools.long_outputs=summary",
    "-c",
    "tools.longest_output=200",
];

/// Steps with long outputs, each of which is followed by the question for its summary.
fn long_outputs() -> Scenario {
    Scenario::new([
        Turn::commands(&["seq 1 300"]),
        Turn::text("the summary of three hundred lines"),
        Turn::commands(&["echo short"]),
        Turn::commands(&["seq 1 400"]),
        Turn::text("the summary of four hundred lines"),
        Turn::commands(&[SUBMIT]),
    ])
}

/// Steps whose contexts grow beyond 8,000 tokens as the server reports them. The third request asks for a
/// summary.
fn filling() -> Scenario {
    let step = |command: &str, tokens: u64| {
        Turn::commands(&[command]).with_usage(Usage {
            prompt_tokens: tokens,
            completion_tokens: 20,
            ..Usage::default()
        })
    };
    Scenario::new([
        step("seq 1 3000", 1_000),
        step("seq 1 3000", 7_000),
        Turn::text("the summary of what was done"),
        step("echo third", 3_000),
        step(SUBMIT, 3_100),
    ])
}

/// One call in each reply.
fn single_calls() -> Scenario {
    Scenario::new([
        Turn::commands(&["echo first"]),
        Turn::text("no call at all"),
        Turn::commands(&["echo third; exit 3"]),
        Turn::commands(&[SUBMIT]),
    ])
}

const MARKED: [&str; 2] = ["-c", r#"pipeline.processors=["cache_control"]"#];

/// Runs in which a plugin has an effect in several steps.
struct Case {
    flags: Vec<String>,
    scenario: Scenario,
    /// A part of the requests that shows that the plugin has done its work.
    shows: &'static str,
}

fn case(flags: &[&str], scenario: Scenario, shows: &'static str) -> Case {
    Case {
        flags: flags.iter().map(|flag| (*flag).to_owned()).collect(),
        scenario,
        shows,
    }
}

fn tool_calls() -> Scenario {
    steps("true")
}

/// Five steps, one of them malformed, two with two calls, one that prints a lot.
fn steps(extra: &str) -> Scenario {
    Scenario::new([
        Turn::commands(&["echo first"]),
        Turn::text("no call at all"),
        Turn::commands(&["echo second", "echo third; exit 3"]),
        Turn::commands(&["seq 1 6000"]),
        Turn::commands(&[extra, "echo fourth"]),
        Turn::commands(&[SUBMIT]),
    ])
}

/// Three steps, two of them with thoughts.
fn thinking() -> Scenario {
    Scenario::new([
        Turn::commands(&["echo first"]).with_reasoning("hm"),
        Turn::commands(&["echo second", "echo third; exit 3"]).with_reasoning("so"),
        Turn::commands(&[SUBMIT]),
    ])
}

fn fences() -> Scenario {
    Scenario::new([
        Turn::fenced("echo first"),
        Turn::text("no command at all"),
        Turn::fenced("echo second; exit 3"),
        Turn::fenced("seq 1 6000"),
        Turn::fenced(SUBMIT),
    ])
}

fn cases(plugin: &str) -> Vec<Case> {
    match plugin {
        "openai" => vec![
            case(&[], tool_calls(), "third"),
            case(&["--no-stream"], tool_calls(), "third"),
            case(&["-c", "text"], fences(), "second"),
        ],
        "anthropic" => {
            let adapter = ["-c", "pipeline.adapter=anthropic"];
            let marked = [&adapter[..], &MARKED].concat();
            vec![
                case(&adapter, tool_calls(), "tool_result"),
                case(
                    &[&adapter[..], &["--no-stream"]].concat(),
                    tool_calls(),
                    "third",
                ),
                case(&adapter, thinking(), "signature-1"),
                case(&marked, tool_calls(), "ephemeral"),
            ]
        }
        "openai_responses" => {
            let adapter = ["-c", "pipeline.adapter=openai_responses"];
            let stateless = [
                &adapter[..],
                &["-c", "plugins.openai_responses.config.stateless=true"],
            ]
            .concat();
            vec![
                case(&adapter, tool_calls(), "function_call_output"),
                case(
                    &[&adapter[..], &["--no-stream"]].concat(),
                    tool_calls(),
                    "third",
                ),
                case(&stateless, thinking(), "sealed-1"),
            ]
        }
        "openrouter" => {
            let adapter = ["-c", "pipeline.adapter=openrouter"];
            let responses = [
                &adapter[..],
                &["-c", "plugins.openrouter.config.api=responses"],
            ];
            vec![
                case(&adapter, thinking(), "\"include\":true"),
                case(
                    &[&adapter[..], &["--no-stream"]].concat(),
                    tool_calls(),
                    "third",
                ),
                case(&responses.concat(), thinking(), "sealed-1"),
            ]
        }
        "gemini" => {
            let adapter = ["-c", "pipeline.adapter=gemini"];
            vec![
                case(&adapter, tool_calls(), "functionResponse"),
                case(
                    &[&adapter[..], &["--no-stream"]].concat(),
                    tool_calls(),
                    "third",
                ),
                case(&adapter, thinking(), "signature-1"),
            ]
        }
        "cache_control" => vec![
            case(&MARKED, tool_calls(), "ephemeral"),
            case(
                &[
                    &MARKED[..],
                    &["-c", "plugins.cache_control.config.mode=last_n"],
                ]
                .concat(),
                tool_calls(),
                "ephemeral",
            ),
        ],
        "replay" => vec![case(&["-m", "replay/script.json"], tool_calls(), "")],
        "toolcall" => vec![case(
            &["-c", "pipeline.parser=toolcall"],
            tool_calls(),
            "third",
        )],
        "text_regex" => vec![case(&["-c", "text"], fences(), "second")],
        "jinja" => vec![
            case(&["-c", "pipeline.formatter=jinja"], tool_calls(), "elided"),
            case(&["-c", "text"], fences(), "elided"),
        ],
        "last_n_observations" => vec![case(
            &[
                "-c",
                r#"pipeline.processors=["last_n_observations"]"#,
                "-c",
                "plugins.last_n_observations.config.n=2",
            ],
            tool_calls(),
            "Old environment output",
        )],
        "blocklist" => vec![case(
            &["-c", r#"pipeline.policies=["blocklist"]"#],
            steps("vim file"),
            "is blocked here",
        )],
        "swe_agent_parsers" => vec![case(
            &["-c", "pipeline.parser=swe_agent_parsers"],
            single_calls(),
            "third",
        )],
        "thought_action" => vec![case(
            &["-c", "text", "-c", "pipeline.parser=thought_action"],
            fences(),
            "second",
        )],
        "swe_agent" => vec![case(
            &["-c", "pipeline.formatter=swe_agent"],
            tool_calls(),
            "third",
        )],
        "remove_regex" => vec![case(
            &[
                "-c",
                r#"pipeline.processors=["remove_regex"]"#,
                "-c",
                r#"plugins.remove_regex.config.remove=["sec[a-z]+"]"#,
            ],
            tool_calls(),
            "third",
        )],
        "swe_agent_history" => vec![case(
            &[
                "-c",
                r#"pipeline.processors=["swe_agent_history"]"#,
                "-c",
                "plugins.swe_agent_history.config.type=closed_window",
            ],
            tool_calls(),
            "third",
        )],
        "compaction" => vec![case(&COMPACT, filling(), "the summary of what was done")],
        "output_summary" => vec![case(
            &SUMMARISED,
            long_outputs(),
            "the summary of three hundred lines",
        )],
        "confirm" => vec![case(
            &["-c", r#"pipeline.policies=["confirm"]"#],
            steps("sudo true"),
            "third",
        )],
        new => panic!("`{new}` has no case: add one here, with several steps in which it matters"),
    }
}

/// The value without what differs between any two runs: times, and the name of the test's folder.
fn settled(value: &Value, run: &Run) -> Value {
    let folder = run.dir.parent().unwrap().to_str().unwrap();
    match value {
        Value::String(text) => text.replace(folder, "FOLDER").into(),
        Value::Array(list) => list.iter().map(|value| settled(value, run)).collect(),
        Value::Object(map) => map
            .iter()
            .filter(|(key, _)| !["timestamp", "t", "duration", "created"].contains(&key.as_str()))
            .map(|(key, value)| (key.clone(), settled(value, run)))
            .collect::<serde_json::Map<_, _>>()
            .into(),
        other => other.clone(),
    }
}

/// The requests, the messages of the trajectory, and the submission.
fn play(case: &Case, fresh: bool) -> (Value, Value, String) {
    let server = Server::start(case.scenario.clone());
    let replies = json!({"replies": [
        {"content": "one", "tool_calls": [{"command": "echo first"}]},
        {"content": "two", "tool_calls": [{"command": "echo second"}, {"command": "exit 3"}]},
        {"content": "three", "tool_calls": [{"command": SUBMIT}]},
    ]});
    let mut host = Host::new()
        .file("script.json", replies.to_string())
        .server(&server)
        .task("do it");
    if case.flags.first().is_some_and(|flag| flag == "-m") {
        host = Host::new()
            .file("script.json", replies.to_string())
            .task("do it");
    }
    if fresh {
        host = host.arg("--fresh-instances");
    }
    let run = host.args(&case.flags).run().expect(0);
    assert!(run.events("plugin_fault").is_empty(), "{run}");
    let requests = server
        .requests()
        .iter()
        .map(scripted_server::Recorded::json)
        .collect();
    let messages = settled(&run.trajectory()["messages"], &run);
    (settled(&requests, &run), messages, run.stdout.clone())
}

#[test]
fn fresh_instances_change_nothing() {
    let run = Host::new()
        .args(["plugin", "list", "--json"])
        .run()
        .expect(0);
    let plugins: Vec<Value> = serde_json::from_str(&run.stdout).unwrap();
    assert!(plugins.len() >= 12, "{run}");
    for plugin in plugins {
        let name = plugin["name"].as_str().unwrap();
        // The component of a variant has a case, and the conformance kit examines each variant.
        let has_own = ["thought_action", "remove_regex"].contains(&name);
        if !plugin["variant_of"].is_null() && !has_own {
            continue;
        }
        for case in cases(name) {
            let kept = play(&case, false);
            let fresh = play(&case, true);
            assert_eq!(kept.0, fresh.0, "`{name}`, {:?}: requests", case.flags);
            assert_eq!(kept.1, fresh.1, "`{name}`, {:?}: messages", case.flags);
            assert_eq!(kept.2, fresh.2, "`{name}`, {:?}: stdout", case.flags);
            assert!(kept.2.contains("the-work"), "`{name}`, {:?}", case.flags);
            let sent = kept.0.to_string();
            assert!(
                sent.contains(case.shows),
                "`{name}`, {:?}: {sent}",
                case.flags
            );
        }
    }
}

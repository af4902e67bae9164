//! `sweagent`: bad input names the file, the line and the remedy.

use scripted_server::{Scenario, Server, Turn};
use serde_json::{Value, json};

use crate::host::Host;

const CONFIG: &str = "agent:
  templates:
    instance_template: 'Do: {{problem_statement}}'
  tools:
    bundles:
      - path: b/one
      - path: tools/submit
  model: {name: openai/m, api_key: k, per_instance_cost_limit: 0}
env: {deployment: {type: local}}
";

const MANIFEST: &str = "tools:
  one:
    signature: 'one <what>'
    docstring: does it
    arguments:
      - {name: what, type: string, required: true}
state_command: _state
";

fn host() -> Host {
    Host::new()
        .file("mine.yaml", CONFIG)
        .file("b/one/config.yaml", MANIFEST)
        .file("b/one/bin/one", "#!/bin/sh\necho \"did $1\"\n")
        .file("b/one/bin/_state", "#!/bin/sh\necho '{}'\n")
}

fn run(host: Host, server: &Server, more: &[&str]) -> Host {
    host.args(["sweagent", "run", "--config=mine.yaml", "--output_dir=out"])
        .arg(format!("--agent.model.api_base={}", server.url()))
        .args(["--problem_statement.text=t", "--problem_statement.id=i"])
        .args(more)
}

#[test]
fn what_is_wrong_in_a_run_has_file_line_and_remedy() {
    let bundle = "b/one/config.yaml";
    let more = "  two: {}\n  two: {}\nstate_command";
    for (file, text, code, parts) in [
        (
            "mine.yaml",
            CONFIG.replace("b/one", "b/none"),
            &[2][..],
            &["b/none", "config.yaml", "mine.yaml:6"][..],
        ),
        (
            "mine.yaml",
            CONFIG.replace("tools/submit", "b/other"),
            &[2],
            &["b/other/config.yaml:2:3", "`one`", "b/one/config.yaml"],
        ),
        (
            bundle,
            MANIFEST.replace("state_command", more),
            &[2],
            &["b/one/config.yaml:8:3", "`two` is there twice", "rename"],
        ),
        (
            bundle,
            MANIFEST.replace("<what>", "<what"),
            &[2],
            &["b/one/config.yaml:3:", "command `one`", "signature"],
        ),
        (
            "b/one/install.sh",
            "echo words\nfalse\n".to_owned(),
            &[6],
            &[
                "b/one/install.sh: it failed with exit code 1",
                "words",
                "correct the script",
            ],
        ),
        (
            "b/one/install.sh",
            "sleep 60\n".to_owned(),
            &[6],
            &[
                "b/one/install.sh: it did not end within 1 seconds",
                "tools.install_timeout`",
            ],
        ),
        (
            "b/one/bin/_state",
            "#!/bin/sh\necho oops\n".to_owned(),
            &[6],
            &["b/one/config.yaml:7:16", "`_state`", "JSON object"],
        ),
        (
            "mine.yaml",
            CONFIG.replace("{{problem_statement}}", "{{problem_statment}}"),
            &[2],
            &[
                "set by mine.yaml:3",
                "`problem_statment`",
                "`problem_statment|default('')`",
            ],
        ),
    ] {
        let server = Server::start(Scenario::new([Turn::tool_call("submit", json!({}))]));
        let host = host()
            .file("b/other/config.yaml", "tools:\n  one: {signature: one}\n")
            .file("b/other/bin/one", "#!/bin/sh\n")
            .file(file, &text);
        let done = run(host, &server, &["--agent.tools.install_timeout=1"]).run();
        assert!(code.contains(&done.status), "{text}\n{done}");
        done.says(parts);
        assert_eq!(server.requests().len(), 0, "{text}");
    }
}

#[test]
fn the_model_is_told_of_its_wrong_arguments() {
    let server = Server::start(Scenario::new([
        Turn::tool_call("one", json!({})),
        Turn::tool_call("one", json!({"what": "a", "how": "b"})),
        Turn::tool_call("one", json!({"what": "it"})),
        Turn::tool_call("submit", json!({})),
    ]));
    run(host(), &server, &[]).run().expect(0);
    let told: Vec<String> = server
        .requests()
        .iter()
        .map(|it| serde_json::from_slice::<Value>(&it.body).unwrap())
        .map(|it| {
            it["messages"]
                .as_array()
                .unwrap()
                .last()
                .unwrap()
                .to_string()
        })
        .collect();
    for (place, parts) in [
        (1, &["lacks arguments: `what`"][..]),
        (2, &["`how`"]),
        (3, &["did it"]),
    ] {
        for part in parts {
            assert!(
                told[place].contains(part),
                "{place} {part}: {}",
                told[place]
            );
        }
    }
}

#[test]
fn a_model_without_tools_is_told_with_the_parser_to_use() {
    let refusal = "tools is not supported by this model";
    let server = Server::start(Scenario::new([Turn::error(
        400,
        "invalid_request",
        refusal,
    )]));
    let done = run(host(), &server, &[]).run().expect(5);
    done.says(&[refusal, "agent.tools.parse_function"]);
}

#[test]
fn the_broken_line_of_a_file_of_instances_is_named() {
    let instance = |place: usize| {
        json!({"instance_id": format!("i{place}"), "problem_statement": "t"}).to_string()
    };
    let lines = |broken: &str, end: &str| {
        let lines = (1..=20).map(|place| match place == 17 {
            true => format!("{broken}\n"),
            false => instance(place) + end + "\n",
        });
        lines.collect::<String>()
    };
    let in_list = |text: String| format!("[\n{}]\n", text.trim_end().trim_end_matches(','));
    let in_yaml = |text: String| {
        let lines = text.lines().map(|line| format!("- {line}\n"));
        lines.collect::<String>()
    };
    let unnamed = r#"{"problem_statement": "t"}"#;
    let typo = r#"{"instance_id": "x", "problem_statment": "t"}"#;
    let broken = r#"{"instance_id": "x", problem_statement"}"#;
    for (file, text, parts) in [
        (
            "a.jsonl",
            lines(broken, ""),
            &["a.jsonl:17:", "no JSON", "each line is one instance"][..],
        ),
        (
            "a.jsonl",
            lines(unnamed, ""),
            &["a.jsonl:17:", "`instance_id`"],
        ),
        (
            "a.jsonl",
            lines(typo, ""),
            &["a.jsonl:17:", "no `problem_statement`"],
        ),
        (
            "a.json",
            in_list(lines(broken, ",")),
            &["a.json:18:", "JSON"],
        ),
        (
            "a.json",
            in_list(lines(&format!("{unnamed},"), ",")),
            &["a.json:18:", "`instance_id`"],
        ),
        ("a.yaml", in_yaml(lines(broken, "")), &["a.yaml:17:", "`x`"]),
        (
            "a.yaml",
            in_yaml(lines(typo, "")),
            &["a.yaml:17:", "no `problem_statement`"],
        ),
    ] {
        let server = Server::start(Scenario::new([Turn::tool_call("submit", json!({}))]));
        let done = host()
            .file(file, text)
            .file(
                "mine.yaml",
                CONFIG
                    .lines()
                    .filter(|it| !it.starts_with("env"))
                    .fold(String::new(), |all, it| all + it + "\n"),
            )
            .args([
                "sweagent",
                "run-batch",
                "--config=mine.yaml",
                "--output_dir=out",
            ])
            .arg(format!("--agent.model.api_base={}", server.url()))
            .args([
                "--instances.deployment.type=local",
                &format!("--instances.path={file}"),
            ])
            .run()
            .expect(2);
        done.says(parts);
        assert_eq!(server.requests().len(), 0);
    }
}

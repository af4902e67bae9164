//! `sweagent shell`: a person at a terminal can take over.

use scripted_server::{Scenario, Server, Turn};
use serde_json::json;

use crate::host::Host;
use crate::needs::Need;
use crate::terminal::Terminal;

const CONFIG: &str = "agent:
  type: shell
  templates: {instance_template: '{{problem_statement}}'}
  tools: {bundles: [{path: tools/submit}]}
  model: {name: openai/m, api_key: k, per_instance_cost_limit: 0}
";

#[test]
fn a_person_takes_over_and_gives_back() {
    let server = Server::start(Scenario::new([
        Turn::tool_call("bash", json!({"command": "echo begun >a.txt; sleep 100"})),
        Turn::tool_call("submit", json!({})),
    ]));
    let host = Host::new().file("mine.yaml", CONFIG);
    let host = host.args(["sweagent", "shell", "--config=mine.yaml", "-p", "fix it"]);
    let said = host.run().expect(2);
    said.says(&["needs a terminal", "`mswea-host sweagent run`"]);
    if !Need::Docker.is_met() {
        return;
    }
    let repo = "repo/b.txt";
    let host = Host::new().file("mine.yaml", CONFIG).file(repo, "b\n");
    let host = host
        .args([
            "sweagent",
            "shell",
            "--config=mine.yaml",
            "-p",
            "fix it",
            "-r",
            "repo",
            "--",
        ])
        .args(["--env.deployment.image=mswea-test/bash"])
        .arg(format!("--agent.model.api_base={}", server.url()));
    let Some(terminal) = Terminal::start(host, 100, 40) else {
        return;
    };
    terminal.until("sleep 100");
    terminal.until("running");
    terminal.keys(&["C-c"]);
    terminal.until("interrupted · Enter");
    terminal.line("/u");
    terminal.until("your command ·");
    terminal.line("cat a.txt; echo by hand >c.txt");
    terminal.until("  begun");
    terminal.line("/y");
    terminal.until("wants to finish");
    terminal.line("");
    terminal.ends(0);
    let made = terminal.root().path().join("work/repo/c.txt");
    assert_eq!(std::fs::read_to_string(made).unwrap(), "by hand\n");
}

#[test]
fn the_runs_of_each_repository_have_a_folder_of_their_own() {
    if !Need::Docker.is_met() {
        return;
    }
    let submit = || Turn::tool_call("submit", json!({}));
    let server = Server::start(Scenario::new([submit(), submit()]));
    let mut host = Host::new()
        .file("mine.yaml", CONFIG)
        .file("a/repo/b.txt", "b\n")
        .file("b/repo/b.txt", "b\n");
    let home = host.home();
    for repo in ["a/repo", "b/repo"] {
        let root = host.root.clone();
        // A text and not a missing one.
        let words = [
            "sweagent",
            "shell",
            "--config=mine.yaml",
            "-p",
            "null",
            "-r",
        ];
        let words = host.args(words).arg(repo);
        let words = words.args(["--", "--env.deployment.image=mswea-test/bash"]);
        let words = words.arg(format!("--agent.model.api_base={}", server.url()));
        let Some(terminal) = Terminal::start(words, 100, 40) else {
            return;
        };
        terminal.until("wants to finish");
        terminal.line("");
        terminal.ends(0);
        host = Host::inside(root);
    }
    let folders: Vec<String> = std::fs::read_dir(home.join("sweagent_shell"))
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    assert_eq!(folders.len(), 2, "{folders:?}");
    assert!(
        folders.iter().all(|it| it.starts_with("repo-")),
        "{folders:?}"
    );
    for request in server.requests() {
        assert_eq!(
            request.json()["messages"]
                .to_string()
                .matches("\"null\"")
                .count(),
            1
        );
    }
}

#[test]
fn a_folder_that_can_not_be_mounted_is_refused() {
    let host = Host::new()
        .file("mine.yaml", CONFIG)
        .file("a:b/c.txt", "c\n");
    let host = host.args(["sweagent", "shell", "--config=mine.yaml"]);
    let host = host.args(["-p", "fix it", "-r", "a:b"]);
    let Some(terminal) = Terminal::start(host, 100, 40) else {
        return;
    };
    terminal.until("can't be mounted");
    terminal.until("has no colon");
    terminal.ends(2);
}

#[test]
fn variables_of_the_repository_are_read_only_if_they_are_named() {
    for (named, says) in [
        (None, "`.env` is a file of the repository and is not read"),
        (Some("--env_var_path=.env"), "no `NAME=value`"),
    ] {
        let host = Host::new()
            .file("mine.yaml", CONFIG)
            .file(".env", "OPENAI_API_BASE=http://127.0.0.1:1\nbroken\n");
        let host = host.args(["sweagent", "shell", "--config=mine.yaml"]);
        let host = host.args(["-p", "x", "-r", ".", "--", "--agent.type=retry"]);
        let Some(terminal) = Terminal::start(host.args(named), 200, 40) else {
            return;
        };
        terminal.until(says);
        terminal.ends(2);
    }
}

//! The plugin that a name refers to, and the settings that it gets.

use std::fs;
use std::process::Command;
use std::time::Duration;

use scripted_server::{Scenario, Server, Turn};

use super::guests::{built_in, hostile};
use crate::host::Host;

const SUBMIT: &str = "echo COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT; echo the-work";

/// The entry of the plugin of this kind in the journal's first event.
fn played(run: &crate::run::Run, kind: &str) -> serde_json::Value {
    let started = &run.events("run_started")[0];
    started["plugins"]
        .as_array()
        .unwrap()
        .iter()
        .find(|plugin| plugin["kind"] == kind)
        .unwrap()
        .clone()
}

#[test]
fn a_file_in_the_working_directory_does_not_shadow_a_built_in_plugin() {
    let server = Server::start(Scenario::commands(&[SUBMIT]));
    let other = fs::read(built_in("parsers/text_regex")).unwrap();
    let mut host = Host::new().server(&server).task("t");
    for name in ["toolcall", "jinja", "openai"] {
        host = host.file(name, &other);
    }
    let run = host.run().expect(0);
    assert_eq!(played(&run, "action-parser")["source"], "built-in");
    assert_eq!(played(&run, "action-parser")["name"], "toolcall");
}

#[test]
fn a_bare_name_is_no_file_and_the_message_says_how_to_write_one() {
    let server = Server::start(Scenario::commands(&[SUBMIT]));
    Host::new()
        .server(&server)
        .task("t")
        .file("mine", fs::read(hostile()).unwrap())
        .args(["--plugin", "mine"])
        .run()
        .expect(7)
        .says(&[
            "there is no plugin `mine`",
            "the file of that name is `./mine`",
        ]);
}

#[test]
fn a_name_that_is_nearly_an_entry_s_is_suggested() {
    let path = hostile().display().to_string();
    let config =
        format!("[pipeline]\nparser = \"my-parser\"\n[plugins.my_parser]\npath = \"{path}\"\n");
    let server = Server::start(Scenario::commands(&[SUBMIT]));
    Host::new()
        .server(&server)
        .task("t")
        .file("a.toml", config)
        .args(["-c", "./a.toml"])
        .run()
        .expect(7)
        .says(&[
            "there is no plugin `my-parser`",
            "entries of the config: `my_parser`",
            "did you mean `my_parser`?",
        ]);
    assert_eq!(server.served(), 0);
}

#[test]
fn an_entry_with_a_path_gives_the_plugin_its_name_and_limits() {
    let path = hostile().to_str().unwrap();
    let server = Server::start(Scenario::commands(&[SUBMIT]));
    let config = |lines: &str| {
        format!("[pipeline]\npolicies = [\"mine\"]\n[plugins.mine]\npath = \"{path}\"\n{lines}\n")
    };
    // The config is checked under the entry's name.
    let parser = built_in("parsers/text_regex");
    Host::new()
        .server(&server)
        .task("t")
        .file(
            "a.toml",
            format!(
                "[pipeline]\nparser = \"mine\"\n[plugins.mine]\npath = \"{}\"\nconfig = {{ nonsense = 1 }}\n",
                parser.display()
            ),
        )
        .args(["-c", "a.toml"])
        .run()
        .expect(2)
        .says(&["config of plugin `mine` is invalid", "`nonsense`", "a.toml:5"]);
    // The limits of the entry apply, and messages name the key that raises them.
    let run = Host::new()
        .server(&server)
        .task("t")
        .file(
            "b.toml",
            config("deadline_ms = 300\nconfig = { at = \"judge\", do = \"loop\" }"),
        )
        .args(["-c", "b.toml", "-c", "agent.step_limit=1"])
        .run();
    run.says(&[
        "plugin `mine` failed in `judge`",
        "`plugins.mine.deadline_ms`",
    ]);
}

#[test]
fn an_entry_that_fits_no_plugin_is_reported() {
    let server = Server::start(Scenario::commands(&[SUBMIT]));
    Host::new()
        .server(&server)
        .task("t")
        .args(["-c", "plugins.last_n_observation.config.n=1"])
        .run()
        .expect(0)
        .says(&[
            "`plugins.last_n_observation` has no effect",
            "did you mean `last_n_observations`?",
        ]);
}

#[test]
fn a_pipe_as_a_plugin_is_refused_at_once() {
    let server = Server::start(Scenario::commands(&[SUBMIT]));
    let host = Host::new()
        .server(&server)
        .task("t")
        .timeout(Duration::from_secs(20));
    let pipe = host.dir().join("p.wasm");
    assert!(
        Command::new("mkfifo")
            .arg(&pipe)
            .status()
            .unwrap()
            .success()
    );
    host.args(["-c", "pipeline.parser=mine", "-c"])
        .arg(format!("plugins.mine.path={}", pipe.display()))
        .run()
        .expect(7)
        .says(&["it is a pipe, not a regular file"]);
}

#[test]
fn a_tool_call_without_an_action_gets_a_result() {
    // The parser reads text, and the model also calls a tool.
    let server = Server::start(Scenario::new(vec![
        Turn::tool_call("other", "{}")
            .with_text("Both ways.\n\n```mswea_bash_command\necho hi\n```"),
        Turn::fenced(SUBMIT),
    ]));
    Host::new()
        .server(&server)
        .task("t")
        .args(["-c", "text"])
        .run()
        .expect(0);
    let requests = server.requests();
    let second = requests[1].json();
    let roles: Vec<&str> = second["messages"]
        .as_array()
        .unwrap()
        .iter()
        .map(|message| message["role"].as_str().unwrap())
        .collect();
    assert_eq!(roles, ["system", "user", "assistant", "tool", "user"]);
}

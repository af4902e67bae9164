//! Plugins that are inspected, called by hand, pinned, changed between runs, and measured.

use std::fs;

use scripted_server::{Scenario, Server};
use serde_json::{Value, json};

use super::guests::{built_in, hostile, parser_xml};
use crate::host::Host;
use crate::run::Run;

const SUBMIT: &str = "echo COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT; echo the-work";

fn plugin(arguments: &[&str]) -> Host {
    Host::new().arg("plugin").args(arguments)
}

fn json_of(run: &Run) -> Value {
    serde_json::from_str(&run.stdout).unwrap_or_else(|error| panic!("{error}: {}", run.stdout))
}

#[test]
fn a_function_is_called_with_short_and_with_whole_arguments() {
    let fence = "```mswea_bash_command\nls -l\n```";
    let reply = json!({"message": {"role": "assistant", "content": fence}}).to_string();
    let whole = json!({"reply": {"message": {"role": "assistant", "content": [{"text": fence}],
        "tool_calls": [], "extra": {"a": 1}}}})
    .to_string();
    let output = json!({"actions": [{"command": "ls", "tool_call_id": "c1"}],
        "outputs": [{"output": "a\n", "returncode": 0}]})
    .to_string();
    let wanted = json!({"actions": [{"command": "ls -l"}]});
    for (arguments, expected) in [
        (vec!["text_regex", "parse", &reply], wanted.clone()),
        (vec!["text_regex", "parse", &whole], wanted.clone()),
        (
            vec!["blocklist", "judge", r#"{"command": "ls"}"#],
            json!("allow"),
        ),
        (
            vec![
                "jinja",
                "format",
                &output,
                "-c",
                r#"{"observation_template": "<{{output.output}}>"}"#,
            ],
            json!([{"role": "tool", "content": [{"text": "<a\n>"}], "tool_calls": [],
                    "tool_call_id": "c1"}]),
        ),
    ] {
        let run = plugin(&["call"]).args(&arguments).run().expect(0);
        assert_eq!(json_of(&run), expected, "{arguments:?}");
    }
    // The argument from standard input, and two calls of one instance.
    let run = plugin(&["call", "text_regex", "parse", "-"])
        .stdin(reply.clone())
        .run()
        .expect(0);
    assert_eq!(json_of(&run), wanted);
    let then = format!("parse={reply}");
    let run = plugin(&["call", "text_regex", "tools", "--then", &then])
        .run()
        .expect(0);
    assert!(run.stdout.starts_with("[]\n{"), "{}", run.stdout);
}

#[test]
fn wrong_arguments_are_reported_with_their_place() {
    for (arguments, status, says) in [
        (
            vec!["toolcall", "pars", "{}"],
            2,
            vec!["no function `pars`", "`parse`"],
        ),
        (
            vec!["toolcall", "parse", r#"{"massage": {}}"#],
            2,
            vec!["unknown key `massage`", "did you mean `message`?"],
        ),
        (
            vec![
                "toolcall",
                "parse",
                r#"{"message": {"content": [{"text": 1}]}}"#,
            ],
            2,
            vec!["reply.message.content[0].text", "a text"],
        ),
        (
            vec!["toolcall", "parse", r#"{"usage": {"input_tokens": -1}}"#],
            2,
            vec!["reply.usage.input-tokens", "an integer of 0 to"],
        ),
        (vec!["toolcall", "parse", "{"], 2, vec!["not JSON", "quote"]),
        (
            vec!["toolcall", "tools", "{}"],
            2,
            vec!["has no parameters"],
        ),
        (
            vec!["jinja", "format", "[]"],
            2,
            vec!["`actions`", "`outputs`"],
        ),
        (
            vec!["last_n_observations", "apply", "{}"],
            7,
            vec!["can't be configured", "--config"],
        ),
        (
            vec!["toolcall", "parse", "{}", "-c", "nowhere.json"],
            2,
            vec!["nowhere.json", "JSON object"],
        ),
    ] {
        plugin(&["call"])
            .args(&arguments)
            .run()
            .expect(status)
            .says(&says);
    }
    // An error that the plugin returns is printed as data, with exit code 7.
    let hostile = hostile().to_str().unwrap();
    let config = r#"{"at": "parse", "do": "error"}"#;
    let run = plugin(&["call", hostile, "parse", "{}", "-c", config]).run();
    let run = run.expect(7);
    assert!(json_of(&run)["err"]["code"].is_string(), "{}", run.stdout);
    let config = r#"{"at": "parse", "do": "panic"}"#;
    plugin(&["call", hostile, "parse", "{}", "-c", config])
        .run()
        .expect(7)
        .says(&["failed in `parse`"]);
}

#[test]
fn inspect_shows_the_interface_and_the_tools_that_made_it() {
    let file = parser_xml().to_str().unwrap();
    let run = plugin(&["inspect", file, "--wit"]).run().expect(0);
    for part in [
        "export mswea:plugin/action-parser@0.1.0;",
        "interface mswea:plugin/action-parser@0.1.0 {",
        "record problem {",
        "parse: func(reply: reply) -> result<outcome, plugin-error>;",
        "tools: func() -> list<tool>;",
    ] {
        assert!(run.stdout.contains(part), "{part}\n{}", run.stdout);
    }
    let run = plugin(&["inspect", file, "--json"]).run().expect(0);
    let shown = json_of(&run);
    let tools = shown["producers"]["processed-by"].to_string();
    assert!(tools.contains("wit-component"), "{tools}");
    assert!(shown["wit"].as_str().unwrap().starts_with("world root {"));
    let run = plugin(&["inspect", file]).run().expect(0);
    assert!(run.stdout.contains("made with"), "{}", run.stdout);
}

#[test]
fn a_pinned_plugin_that_has_changed_stops_the_run() {
    let server = Server::start(Scenario::commands(&[SUBMIT, SUBMIT]));
    let bytes = fs::read(built_in("parsers/toolcall")).unwrap();
    let other = fs::read(built_in("parsers/text_regex")).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("mine.wasm");
    let lock = folder.path().join("mswea-plugins.lock");
    let (path_text, lock_text) = (path.to_str().unwrap(), lock.to_str().unwrap());
    fs::write(&path, &bytes).unwrap();
    let pin = |more: &[&str]| plugin(&["pin", "--lock", lock_text]).args(more).run();
    pin(&[path_text, "jinja"])
        .expect(0)
        .says(&["pinned ./mine.wasm", "pinned jinja"]);
    // The lock file beside the config is used, also from another working folder.
    let config = folder.path().join("run.toml");
    fs::write(&config, "[agent]\n").unwrap();
    let config_text = config.to_str().unwrap();
    let run = || {
        Host::new()
            .server(&server)
            .task("t")
            .args(["-c", "default", "-c", config_text, "--plugin", path_text])
            .run()
    };
    run().expect(0);
    assert!(pin(&[]).expect(0).stdout.contains("./mine.wasm"));
    fs::write(&path, &other).unwrap();
    run().expect(7).says(&[
        "plugin `./mine.wasm` has changed since it was pinned",
        "mswea-plugins.lock",
        "(line 6)",
        "mswea-host plugin pin --lock ",
    ]);
    assert_eq!(server.requests().len(), 1, "a second request was sent");
    assert!(pin(&[]).expect(7).stdout.contains("CHANGED"));
    pin(&[path_text]).expect(0).says(&["(it was "]);
    assert!(pin(&[]).expect(0).stdout.contains("holds"));
    pin(&["--remove", path_text]).expect(0);
    pin(&["--remove", path_text])
        .expect(2)
        .says(&["is not pinned", "`jinja`"]);
    fs::write(&lock, "[[plugin]]\nfile = 1\n").unwrap();
    run().expect(7).says(&["lock file", "is invalid"]);
    let digest = "0".repeat(64);
    for (pin, says) in [
        (
            format!("plugin = \"mine.wasm\"\nsha256 = \"{digest}\""),
            "`./mine.wasm`",
        ),
        (
            "plugin = \"./mine.wasm\"\nsha256 = \"00\"".to_owned(),
            "not a SHA-256",
        ),
    ] {
        fs::write(&lock, format!("[[plugin]]\n{pin}\n")).unwrap();
        pin_says(&lock, says);
    }
}

/// A lock file with an invalid pin is refused.
#[track_caller]
fn pin_says(lock: &std::path::Path, says: &str) {
    let run = plugin(&["pin", "--lock", lock.to_str().unwrap()]).run();
    run.expect(2).says(&["is invalid", says]);
}

#[test]
fn control_characters_of_a_plugin_are_not_printed() {
    let run = plugin(&[
        "call",
        "toolcall",
        "parse",
        "{\"message\": {\"content\": \"\u{9b}31m\u{202e}\"}}",
    ]);
    let run = run.run().expect(0);
    assert!(
        !run.stdout.contains(['\u{9b}', '\u{202e}', '\u{1b}']),
        "{run}"
    );
    json_of(&run);
}

#[test]
fn a_file_that_has_changed_between_runs_is_noticed() {
    let server = Server::start(Scenario::commands(&[SUBMIT, SUBMIT]));
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("mine.wasm");
    let cache = folder.path().join("cache");
    let run = || {
        Host::new()
            .server(&server)
            .env("XDG_CACHE_HOME", &cache)
            .task("t")
            .args(["-v", "--plugin", path.to_str().unwrap()])
            .run()
            .expect(0)
    };
    let digest = |run: &Run| {
        let plugins = run.events("run_started")[0]["plugins"].clone();
        let plugins = plugins.as_array().unwrap();
        let parser = plugins
            .iter()
            .find(|plugin| plugin["kind"] == "action-parser");
        parser.unwrap()["sha256"].as_str().unwrap().to_owned()
    };
    let bytes = fs::read(built_in("parsers/toolcall")).unwrap();
    fs::write(&path, &bytes).unwrap();
    let first = run();
    assert!(!first.stderr.contains("has changed"), "{first}");
    // Another custom section makes a different file that does the same.
    let changed = [&bytes[..], &[0, 5, 4], b"more"].concat();
    fs::write(&path, &changed).unwrap();
    let second = run().says(&["plugin `toolcall` has changed since it was last used"]);
    assert_ne!(digest(&first), digest(&second));
    // The compiled code of the earlier file is removed from the cache.
    let list = plugin(&["cache", "list", "--json"])
        .env("XDG_CACHE_HOME", &cache)
        .run()
        .expect(0);
    let listed = json_of(&list);
    let of_file: Vec<&Value> = listed["plugins"]
        .as_array()
        .unwrap()
        .iter()
        .filter(|entry| entry["plugin"].as_str().unwrap().ends_with("mine.wasm"))
        .collect();
    assert_eq!(of_file.len(), 1, "{listed}");
    assert_eq!(of_file[0]["sha256"], digest(&second));
}

#[test]
fn bench_measures_a_plugin_and_the_built_in_one_of_its_kind() {
    let run = plugin(&["bench", parser_xml().to_str().unwrap(), "--json"])
        .run()
        .expect(0);
    let tables = json_of(&run);
    let rows = tables[0]["plugins"].as_array().unwrap();
    assert_eq!(rows.len(), 2);
    assert_eq!(rows[1]["plugin"], "text_regex");
    for row in rows {
        for figure in [
            "/warm/p50_us",
            "/fresh/p50_us",
            "/load_and_first_call_ms",
            "/memory",
            "/size",
        ] {
            let value = row.pointer(figure).and_then(Value::as_f64).unwrap();
            assert!(value > 0.0, "{figure}: {row}");
        }
    }
}

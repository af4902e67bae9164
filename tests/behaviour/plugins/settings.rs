//! Settings of plugins: their config, pins and grants, and the messages for wrong ones.

use std::fs;

use scripted_server::{Scenario, Server};
use serde_json::json;

use super::fallbacks::host;
use super::guests::hostile;
use crate::host::Host;

const SUBMIT: &str = "echo COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT; echo the-work";

#[test]
fn a_wrong_config_is_reported_with_key_file_and_line() {
    let table = [
        (
            "n = \"two\"",
            "mine.toml:6",
            "`n`: \"two\" is not of type \"integer\"",
        ),
        (
            "n = 0",
            "mine.toml:6",
            "`n`: 0 is less than the minimum of 1",
        ),
        (
            "n = 2\npoling = 3",
            "mine.toml:7",
            "unknown key `poling`: did you mean `polling`?",
        ),
        (
            "n = 2\nzzz = 3",
            "mine.toml:7",
            "unknown key `zzz`: known are `n`",
        ),
    ];
    for (lines, place, message) in table {
        let server = Server::start(Scenario::commands(&[SUBMIT]));
        let text = format!(
            "[pipeline]\nprocessors = [\"last_n_observations\"]\n\n# mine\n[plugins.last_n_observations.config]\n{lines}\n"
        );
        let run = Host::new()
            .server(&server)
            .task("t")
            .file("mine.toml", text)
            .args(["-c", "mine.toml"])
            .run()
            .expect(2);
        run.says(&[
            "config of plugin `last_n_observations` is invalid",
            message,
            place,
        ]);
        assert_eq!(server.served(), 0);
    }
}

#[test]
fn a_config_that_the_plugin_refuses_is_reported_with_file_and_line() {
    let path = hostile().to_str().unwrap();
    for (deed, code, parts) in [
        (
            "refuse",
            2,
            [
                "config of plugin `hostile` is invalid: this deed is forbidden",
                "mine.yaml:7",
            ],
        ),
        // These are the plugin's faults, and not the config's.
        (
            "refuse-long",
            7,
            ["plugin `hostile` failed in `configure`: ", "bytes more)"],
        ),
        (
            "panic",
            7,
            [
                "plugin `hostile` failed in `configure`: ",
                "the guest's last words",
            ],
        ),
    ] {
        let server = Server::start(Scenario::commands(&[SUBMIT]));
        let text = format!(
            "pipeline:\n  parser: {path}\nplugins:\n  hostile:\n    config:\n      at: configure\n      do: {deed}\n"
        );
        let run = Host::new()
            .server(&server)
            .task("t")
            .file("mine.yaml", text)
            .args(["-c", "default", "-c", "mine.yaml"])
            .run()
            .expect(code)
            .says(&parts);
        assert_eq!(run.stderr.contains("is invalid"), code == 2, "{run}");
        assert_eq!(server.served(), 0);
    }
}

#[test]
fn a_plugin_with_another_digest_than_the_pinned_one_is_refused() {
    let digest = mswea_host::plugin::digest(&fs::read(hostile()).unwrap());
    for (pin, code) in [
        (digest.clone(), 0),
        (digest.to_uppercase(), 0),
        ("0".repeat(64), 7),
    ] {
        let server = Server::start(Scenario::commands(&[SUBMIT]));
        let run = host(&server, "parser", &json!({}))
            .arg("-c")
            .arg(format!("plugins.hostile.sha256=\"{pin}\""))
            .run()
            .expect(code);
        if code == 7 {
            run.says(&["plugin `hostile` is not the pinned one", &pin, &digest]);
            assert_eq!(server.served(), 0);
        }
    }
}

#[test]
fn a_third_party_adapter_reaches_only_granted_hosts() {
    let server = Server::start(Scenario::commands(&[SUBMIT]));
    let address = server.address().to_string();
    let run = host(&server, "adapter", &json!({})).run().expect(5);
    let path = hostile().display();
    let lines = format!("[plugins.hostile]\npath = \"{path}\"\nallow_hosts = [\"{address}\"]");
    let flag = format!("--allow-host {address}");
    run.says(&["plugin `hostile` may not reach", &lines, &flag]);
    assert_eq!(server.served(), 0);
    // With the printed lines in a config, the plugin may reach the host.
    let run = host(&server, "adapter", &json!({}))
        .file("grant.toml", lines)
        .args(["-c", "grant.toml"])
        .run()
        .expect(0);
    let plugins = &run.events("run_started")[0]["plugins"];
    assert_eq!(plugins[0]["grants"]["hosts"], json!([address]));
    assert_eq!(plugins[0]["name"], "hostile");
    assert_eq!(plugins[0]["sha256"].as_str().unwrap().len(), 64);
}

#[test]
fn a_third_party_adapter_sends_only_granted_secrets() {
    let server = Server::start(Scenario::commands(&[SUBMIT]));
    let config = json!({"secret": "HOSTILE_KEY"});
    let make = || {
        host(&server, "adapter", &config)
            .arg("--allow-host")
            .arg(server.address().to_string())
            .env("HOSTILE_KEY", "sk-hostile-0123456789")
    };
    let path = hostile().display();
    let lines = format!("[plugins.hostile]\npath = \"{path}\"\nsecrets = [\"HOSTILE_KEY\"]");
    make()
        .run()
        .expect(5)
        .says(&["may not use the secret `HOSTILE_KEY`", &lines]);
    assert_eq!(server.served(), 0);
    make()
        .file("grant.toml", lines)
        .args(["-c", "grant.toml"])
        .run()
        .expect(0);
    let requests = server.requests();
    assert_eq!(
        requests[0].header("authorization"),
        Some("Bearer sk-hostile-0123456789")
    );
}

#[test]
fn an_adapter_reads_no_files_through_a_url() {
    let server = Server::start(Scenario::commands(&[SUBMIT]));
    let config = json!({"at": "query", "do": "file-url"});
    let run = host(&server, "adapter", &config)
        .arg("--allow-host")
        .arg(server.address().to_string())
        .run();
    assert_ne!(run.status, 0, "{run}");
    assert!(!run.stderr.contains("root:"), "{run}");
    assert_eq!(server.served(), 0);
}

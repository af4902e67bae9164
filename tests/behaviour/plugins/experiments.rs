//! `plugin diff`, which compares two plugins on recorded runs, and `--shadow`, which runs a candidate
//! beside the plugin of a live run.

use std::fs;

use scripted_server::{Scenario, Server, Turn};
use serde_json::{Value, json};

use super::guests::hostile;
use crate::host::Host;
use crate::run::Run;

const SUBMIT: &str = "echo COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT; echo the-work";

fn fences() -> Scenario {
    Scenario::new([
        Turn::fenced("echo first"),
        Turn::text("no command at all"),
        Turn::fenced("echo second; exit 3"),
        Turn::fenced(SUBMIT),
    ])
}

/// A run of text replies; its folder has the trajectory and the journal.
fn recorded() -> Run {
    let server = Server::start(fences());
    Host::new()
        .server(&server)
        .task("t")
        .args(["-c", "default", "-c", "text"])
        .run()
        .expect(0)
}

fn diff(run: &Run, arguments: &[&str]) -> Run {
    Host::new()
        .args(["plugin", "diff"])
        .args(arguments)
        .arg("--trajectories")
        .arg(&run.dir)
        .run()
}

#[test]
fn two_parsers_are_compared_on_recorded_replies() {
    let run = recorded();
    let same = diff(&run, &["text_regex", "text_regex", "--json"]).expect(0);
    let same: Value = serde_json::from_str(&same.stdout).unwrap();
    assert_eq!(same["counts"]["same"], 4, "{same}");

    // With another fence, the parser finds no actions in the recorded replies.
    let other = r#"{"action_regex": "<run>(.*?)</run>"}"#;
    let folder = tempfile::tempdir().unwrap();
    let page = folder.path().join("report.html");
    let arguments = [
        "text_regex",
        "text_regex",
        "--new-config",
        other,
        "--html",
        page.to_str().unwrap(),
    ];
    let differs = diff(&run, &arguments).expect(0);
    for part in ["echo first", "echo second; exit 3", "different"] {
        assert!(differs.stdout.contains(part), "{}", differs.stdout);
    }
    // `--exit-code` reports a difference.
    let scripted = [&arguments[..], &["--exit-code"]].concat();
    diff(&run, &scripted).expect(1);
    diff(&run, &["text_regex", "text_regex", "--exit-code"]).expect(0);
    assert!(differs.stdout.contains("\nalike\n"), "{}", differs.stdout);
    let page = fs::read_to_string(page).unwrap();
    assert!(page.contains("<svg") && page.contains("echo first"));
    for outside in ["http://", "https://", "<script src", "<link"] {
        let found = page.replace("http://www.w3.org/2000/svg", "");
        assert!(!found.contains(outside), "{outside}");
    }
    for (arguments, says) in [
        (&["text_regex", "jinja"][..], "can't be compared"),
        (
            &["text_regex", "toolcall", "--kind", "formatter"],
            "--kind formatter",
        ),
    ] {
        diff(&run, arguments).expect(2).says(&[says]);
    }
    Host::new()
        .args([
            "plugin",
            "diff",
            "text_regex",
            "toolcall",
            "--trajectories",
            ".",
        ])
        .run()
        .expect(2);
}

#[test]
fn a_shadow_is_recorded_and_changes_nothing() {
    let server = Server::start(fences());
    let run = |more: &[&str]| {
        Host::new()
            .server(&server)
            .task("t")
            .args(["-c", "default", "-c", "text"])
            .args(more)
            .run()
            .expect(0)
    };
    let texts = |run: &Run| -> Vec<String> {
        let trajectory = run.trajectory();
        let messages = trajectory["messages"].as_array().unwrap();
        // The first two messages are the prompts, which contain the folder's name.
        messages[2..]
            .iter()
            .map(|message| message["content"].to_string())
            .collect()
    };
    let alone = run(&[]);
    let server = Server::start(fences());
    let run = |more: &[&str]| {
        Host::new()
            .server(&server)
            .task("t")
            .args(["-c", "default", "-c", "text"])
            .args(more)
            .run()
            .expect(0)
    };
    let shadowed = run(&["--shadow", "toolcall"]);
    assert_eq!(texts(&alone), texts(&shadowed));
    let diverged = shadowed.events("shadow_diverged");
    assert!(!diverged.is_empty(), "{shadowed}");
    let ended = &shadowed.events("shadow_ended")[0];
    assert_eq!(ended["kind"], "action-parser");
    assert_eq!(ended["beside"], "text_regex");
    assert_eq!(ended["summary"]["steps"], 4, "{ended}");
    let plugins = shadowed.events("run_started")[0]["plugins"].clone();
    let shadow = plugins
        .as_array()
        .unwrap()
        .iter()
        .find(|plugin| plugin["shadow"] == json!(true));
    assert_eq!(shadow.unwrap()["name"], "toolcall");
    assert!(shadowed.stderr.contains("toolcall"), "{shadowed}");

    // `plugin diff --shadowed` prints the same, also as HTML and JSON.
    let page = shadowed.dir.join("report.html");
    let report = |more: &[&str]| {
        Host::new()
            .args(["plugin", "diff", "--shadowed"])
            .arg(&shadowed.dir)
            .args(more)
            .run()
    };
    let text = report(&["--html", page.to_str().unwrap()])
        .expect(0)
        .stdout
        .clone();
    assert!(
        text.contains("toolcall") && text.contains("echo first"),
        "{text}"
    );
    assert!(fs::read_to_string(page).unwrap().contains("<svg"));
    let all: Value = serde_json::from_str(&report(&["--json"]).expect(0).stdout).unwrap();
    assert_eq!(all[0]["kind"], "action-parser");
    Host::new()
        .args(["plugin", "diff", "--shadowed"])
        .arg(&alone.dir)
        .run()
        .expect(2)
        .says(&["shadow"]);
}

#[test]
fn a_shadow_that_hangs_or_crashes_does_not_affect_the_run() {
    for deed in ["panic", "loop"] {
        let server = Server::start(Scenario::commands(&["true", "true", SUBMIT]));
        let entry = json!({"path": hostile(), "deadline_ms": 300,
            "config": {"at": "parse", "do": deed}});
        let run = Host::new()
            .server(&server)
            .task("t")
            .args(["-c", "default", "-c", &format!("plugins.mine={entry}")])
            .args(["--shadow", "mine"])
            .run()
            .expect(0);
        assert_eq!(run.exit_status(), "Submitted");
        let faults = run.events("plugin_fault");
        assert!(
            faults.is_empty(),
            "a fault of the shadow is recorded as one of the run's plugins: {faults:?}"
        );
        let ended = run.events("shadow_ended");
        assert!(!ended.is_empty(), "{run}");
    }
}

#[test]
fn an_adapter_has_no_shadow() {
    let server = Server::start(Scenario::commands(&[SUBMIT]));
    Host::new()
        .server(&server)
        .task("t")
        .args(["--shadow", "replay"])
        .run()
        .expect(7)
        .says(&["can't be shadowed", "plugin diff"]);
    assert_eq!(server.requests().len(), 0);
}

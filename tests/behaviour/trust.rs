//! A record that this user's hosts have not written as it is tells `resume` and `fork` nothing: neither where
//! keys are sent, nor what runs, nor what is thrown away.

use std::fs;
use std::path::{Path, PathBuf};

use scripted_server::{Scenario, Server, Turn};
use serde_json::{Value, json};

use crate::host::Host;
use crate::needs::Need;
use crate::replayed::of_mini;
use crate::run::Run;
use crate::views::View;

fn server() -> Server {
    let turns = [
        Turn::commands(&["echo 1 >>log"]),
        Turn::commands(&["echo 2 >>log"]),
        Turn::commands(&["echo COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT; cat log"]),
    ];
    Server::start(Scenario::new(turns).by_history())
}

/// A run that has ended after its first step.
fn first(server: &Server, args: &[&str]) -> Run {
    let host = Host::new().server(server).task("count");
    host.args(["--step-limit", "1"]).args(args).run().expect(3)
}

fn resume(run: &Run) -> Host {
    let host = Host::after(run).args(["resume", "traj.json", "--step-limit", "9"]);
    host.env("OPENAI_API_KEY", "k").env("SECRET_OF_MINE", "k")
}

fn fork(run: &Run) -> Host {
    let args = ["fork", "traj.json", "--at", "1", "--no-workspace"];
    let host = Host::after(run)
        .args(args)
        .args(["-o", "fork.json", "--step-limit", "9"]);
    host.env("OPENAI_API_KEY", "k").env("SECRET_OF_MINE", "k")
}

fn journal(run: &Run) -> PathBuf {
    run.dir.join("traj.events.jsonl")
}

/// Changes the events of one kind.
fn edit(journal: &Path, kind: &str, change: impl Fn(&mut Value)) {
    let text = fs::read_to_string(journal).unwrap();
    let lines = text.lines().map(|line| {
        let mut event: Value = serde_json::from_str(line).unwrap();
        if event["event"] == kind {
            change(&mut event);
        }
        format!("{event}\n")
    });
    let changed: String = lines.collect();
    fs::write(journal, changed).unwrap();
}

fn set(value: &mut Value, path: &str, to: Value) {
    let mut place = value;
    for name in path.split('.') {
        place = &mut place[name];
    }
    *place = to;
}

/// What an editor of the journal may set, and the keys that are named then.
#[test]
fn a_changed_config_is_refused_and_nothing_is_sent_or_run() {
    let elsewhere = Server::start(Scenario::always(Turn::text("hello")).on_any_route());
    let address = format!("http://{}/v1", elsewhere.address());
    let server = server();
    let made = first(&server, &[]);
    let precious = made.dir.join("precious");
    fs::create_dir(&precious).unwrap();
    fs::write(precious.join("file"), "uncommitted").unwrap();
    fs::write(made.dir.join("keys"), "SECRET_OF_MINE=k\n").unwrap();
    let program = made.dir.join("program");
    fs::write(&program, "#!/bin/sh\ntouch done\n").unwrap();
    let whole = fs::read(journal(&made)).unwrap();
    /// Keys that are edited, and what the refusal says of them.
    type Case<'a> = (&'a [(&'a str, Value)], &'a [&'a str]);
    let cases: &[Case<'_>] = &[
        (
            &[("model.base_url", json!(address))],
            &["model.base_url = \"http"],
        ),
        (
            &[("model.api_key_env", json!("SECRET_OF_MINE"))],
            &["model.api_key_env = \"SECRET_OF_MINE\""],
        ),
        (
            &[("model.secrets_file", json!("keys"))],
            &["model.secrets_file"],
        ),
        (
            &[("model.plain_http_hosts", json!(["h"]))],
            &["model.plain_http_hosts"],
        ),
        (
            &[("model.model_kwargs", json!({ "api_base": address }))],
            &["model.model_kwargs.api_base"],
        ),
        (
            &[("run.on_end", json!("touch done\u{1b}[2J"))],
            &["run.on_end = \"touch done\\u001b[2J\""],
        ),
        (
            &[("agent.salvage_command", json!("touch done"))],
            &["agent.salvage_command"],
        ),
        (
            &[
                ("environment.environment_class", json!("docker")),
                ("environment.image", json!("i")),
                ("environment.executable", json!("./program")),
            ],
            &["environment.executable", "environment.image"],
        ),
        (
            &[(
                "workspace",
                json!({ "path": "precious", "reset": true, "base_commit": "HEAD" }),
            )],
            &[
                "workspace.path",
                "workspace.reset = true",
                "workspace.base_commit",
            ],
        ),
        (
            &[(
                "plugins",
                json!({ "mine": { "path": "p.wasm", "secrets": ["SECRET_OF_MINE"] } }),
            )],
            &["plugins.mine.path", "plugins.mine.secrets"],
        ),
        (
            &[("pipeline.parser", json!("./p.wasm"))],
            &["pipeline.parser"],
        ),
        (
            &[("environment.env", json!({ "PATH": "." }))],
            &["environment.env.PATH"],
        ),
        // Nothing that needs consent, but it is not what was recorded.
        (&[("agent.step_limit", json!(7))], &["it was changed since"]),
    ];
    let asked = server.requests().len();
    for (changes, says) in cases {
        edit(&journal(&made), "run_started", |event| {
            for (path, value) in *changes {
                set(&mut event["config"], path, value.clone());
            }
        });
        let edited = fs::read(journal(&made)).unwrap();
        for host in [resume(&made), fork(&made)] {
            let refused = host.run().expect(2);
            let refused = refused
                .says(says)
                .says(&["--trust-record", "nothing was sent"]);
            // An escape sequence of the record would reach the terminal.
            assert!(!refused.stderr.contains('\u{1b}'), "{refused}");
        }
        assert_eq!(fs::read(journal(&made)).unwrap(), edited, "{changes:?}");
        assert!(!made.dir.join("done").exists(), "{changes:?}");
        assert!(!made.dir.join("fork.json").exists(), "{changes:?}");
        assert_eq!(
            fs::read_to_string(precious.join("file")).unwrap(),
            "uncommitted"
        );
        fs::write(journal(&made), &whole).unwrap();
    }
    assert_eq!(server.requests().len(), asked);
    assert!(elsewhere.requests().is_empty());
    // With the user's consent it is done.
    edit(&journal(&made), "run_started", |event| {
        set(&mut event["config"], "run.on_end", json!("touch done"));
    });
    let trusted = resume(&made).arg("--trust-record").run().expect(0);
    assert_eq!(trusted.stdout, "1\n2\n");
    assert!(made.dir.join("done").exists());
}

#[test]
fn what_the_host_has_recorded_goes_on() {
    let server = server();
    let made = first(&server, &["-c", "run.on_end=touch done"]);
    fork(&made).run().expect(0);
    let same = resume(&made).args(["--step-limit", "2"]).run().expect(3);
    // What was changed by a flag is recorded, too.
    let changed = resume(&same).args(["-c", "environment.env.A=b", "--step-limit", "2"]);
    changed.run().expect(3);
    resume(&made).run().expect(0);
    assert!(made.dir.join("done").exists());
    // Nothing is left of it.
    let runs = made
        .dir
        .with_file_name("home")
        .join(".local/state/mswea-host/runs");
    let digests = |id: &str| runs.join(format!("{id}.digests"));
    let id = made.run_id();
    assert!(digests(&id).exists());
    Host::after(&made).args(["runs", "rm", &id]).run().expect(0);
    assert!(!digests(&id).exists());
}

#[test]
fn another_environment_and_actions_that_nobody_asked_for_are_refused() {
    let server = server();
    let made = first(&server, &[]);
    let whole = fs::read_to_string(journal(&made)).unwrap();
    fs::create_dir(made.dir.join("other")).unwrap();
    let other = made.dir.join("other").display().to_string();
    for kind in ["environment_ready", "set_up_done"] {
        edit(&journal(&made), kind, |event| {
            event["handle"] = json!({ "folder": other });
        });
    }
    resume(&made)
        .run()
        .expect(2)
        .says(&["the environment = ", "other"]);
    // The model has said nothing of the kind.
    let events = made.journal();
    let next = events.len() + 1;
    let of_kind = |kind: &str| {
        events
            .iter()
            .find(|it| it["event"] == kind)
            .unwrap()
            .clone()
    };
    let mut added = Vec::new();
    for (at, kind) in ["query_started", "reply", "accepted"]
        .into_iter()
        .enumerate()
    {
        let mut event = of_kind(kind);
        event["seq"] = json!(next + at);
        added.push(event);
    }
    added[0]["query"] = json!(2);
    added[2]["actions"][0]["command"] = json!("touch done");
    let lines = |events: &[Value]| -> String {
        let lines = events.iter().map(|event| format!("{event}\n"));
        lines.collect()
    };
    fs::write(journal(&made), format!("{whole}{}", lines(&added))).unwrap();
    let refused = resume(&made).run().expect(2);
    refused.says(&["an action that has not run = \"touch done\""]);
    let reply = lines(&added[..2]).replace("echo 1 >>log", "touch done");
    assert!(reply.contains("touch done"), "{reply}");
    fs::write(journal(&made), format!("{whole}{reply}")).unwrap();
    let refused = resume(&made).run().expect(2);
    refused.says(&["a reply that was not taken in"]);
    assert!(!made.dir.join("done").exists());
    assert_eq!(server.requests().len(), 1);
}

#[test]
fn a_copy_for_another_user_needs_consent() {
    let server = server();
    let made = first(&server, &[]);
    let copy = |host: Host| {
        let file = |name: &str| fs::read(made.dir.join(name)).unwrap();
        host.file("traj.events.jsonl", file("traj.events.jsonl"))
            .file("traj.json", file("traj.json"))
    };
    let args = ["resume", "traj.json", "--step-limit", "9"];
    let refused = copy(Host::new()).args(args).run().expect(2);
    let refused = refused.says(&[
        "has not recorded",
        "model.base_url",
        "the environment = ",
        "environment.sandbox = \"none\"",
    ]);
    assert_eq!(server.requests().len(), 1);
    let trusted = Host::after(&refused).args(args).args(["--step-limit", "2"]);
    trusted.arg("--trust-record").run().expect(3);
    // By now a host of this user has recorded it.
    Host::after(&refused).args(args).run().expect(0);
}

#[test]
fn without_a_state_folder_consent_is_needed() {
    let server = server();
    let host = Host::new().server(&server).task("count");
    let state = host.home().join("file");
    fs::write(&state, "").unwrap();
    let host = host.env("XDG_STATE_HOME", &state);
    let made = host.args(["--step-limit", "1"]).run().expect(3);
    let again = |run: &Run| resume(run).env("XDG_STATE_HOME", &state);
    again(&made)
        .run()
        .expect(2)
        .says(&["state folder", "--trust-record"]);
    again(&made).arg("--trust-record").run().expect(0);
}

#[test]
fn a_sandboxed_command_cannot_make_an_earlier_run_do_its_work() {
    if !Need::Landlock.is_met() {
        return;
    }
    let server = server();
    let made = first(&server, &[]);
    let command =
        "sed -i 's/\"on_end\":null/\"on_end\":\"touch done\"/' traj.events.jsonl && echo edited";
    let hostile = Server::start(Scenario::new([
        Turn::commands(&[command]),
        Turn::commands(&["echo COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT"]),
    ]));
    let boxed = Host::after(&made).server(&hostile);
    let boxed = boxed.args([
        "-t",
        "help",
        "-o",
        "boxed.json",
        "-c",
        "environment.sandbox=landlock",
    ]);
    boxed.run().expect(0);
    let text = fs::read_to_string(journal(&made)).unwrap();
    assert!(text.contains("touch done"), "{text}");
    let refused = resume(&made).run().expect(2);
    refused.says(&["it was changed since", "run.on_end = \"touch done\""]);
    assert!(!made.dir.join("done").exists());
    // Nor the run itself, if it gives up its sandbox.
    let boxed = first(&server, &["-c", "environment.sandbox=landlock"]);
    edit(&journal(&boxed), "run_started", |event| {
        set(&mut event["config"], "environment.sandbox", json!("none"));
    });
    resume(&boxed)
        .run()
        .expect(2)
        .says(&["environment.sandbox = \"none\""]);
    // Under another id nobody knows it.
    edit(&journal(&boxed), "run_started", |event| {
        event["run_id"] = json!("other");
    });
    fs::remove_file(boxed.dir.join("traj.json")).unwrap();
    let args = ["resume", "traj.events.jsonl"];
    let refused = Host::after(&boxed).args(args).run().expect(2);
    refused.says(&["environment.sandbox = \"none\""]);
}

#[test]
fn a_trajectory_of_another_program_needs_consent() {
    let elsewhere = Server::start(Scenario::always(Turn::text("hello")).on_any_route());
    let address = format!("http://{}", elsewhere.address());
    let (host, _) = of_mini(Host::new(), "toolcall_several", &address);
    let args = ["fork", "mini.traj.json", "--at", "1", "--no-workspace"];
    let host = host.env("OPENAI_API_KEY", "k").args(args);
    let refused = host.args(["-o", "fork.json"]).run().expect(2);
    let refused = refused.says(&["model.model_kwargs.api_base", "environment.sandbox"]);
    assert!(elsewhere.requests().is_empty());
    assert!(!refused.dir.join("fork.json").exists());
}

#[test]
fn a_journal_that_is_a_link_or_a_pipe_is_named_as_such() {
    let server = server();
    let made = first(&server, &[]);
    let elsewhere = made.dir.join("moved.jsonl");
    fs::rename(journal(&made), &elsewhere).unwrap();
    std::os::unix::fs::symlink(&elsewhere, journal(&made)).unwrap();
    let refused = resume(&made).run().expect(2);
    let refused = refused.says(&["can't read the journal", "it is a link", "moved.jsonl"]);
    assert!(!refused.stderr.contains("remove it"), "{refused}");
    fs::remove_file(journal(&made)).unwrap();
    let made_pipe = std::process::Command::new("mkfifo")
        .arg(journal(&made))
        .status();
    assert!(made_pipe.unwrap().success());
    let refused = Host::after(&made)
        .args(["resume", "traj.events.jsonl"])
        .run()
        .expect(2);
    let refused = refused.says(&["can't read the journal", "it is no plain file"]);
    assert!(!refused.stderr.contains("can't write"), "{refused}");
}

/// What a run goes on with is not what was recorded last, if the environment of that did not become ready.
#[test]
fn a_recorded_config_at_the_end_hides_no_other_one() {
    let server = server();
    let made = first(&server, &[]);
    let text = fs::read_to_string(journal(&made)).unwrap();
    let events: Vec<Value> = text
        .lines()
        .map(|it| serde_json::from_str(it).unwrap())
        .collect();
    let (begun, last) = (&events[0], events.last().unwrap());
    let resumed = json!({
        "seq": last["seq"].as_u64().unwrap() + 1, "t": last["t"], "event": "run_resumed",
        "host_version": begun["host_version"], "config": begun["config"], "plugins": begun["plugins"],
    });
    edit(&journal(&made), "run_started", |event| {
        set(&mut event["config"], "run.on_end", json!("touch done"));
    });
    let mut text = fs::read_to_string(journal(&made)).unwrap();
    text.push_str(&format!("{resumed}\n"));
    fs::write(journal(&made), text).unwrap();
    let refused = resume(&made).run().expect(2);
    refused.says(&["it was changed since", "run.on_end"]);
    assert!(!made.dir.join("done").exists());
}

/// The page makes requests anew, of a record from elsewhere only with what is built in.
#[test]
fn a_foreign_record_has_the_page_load_nothing() {
    let server = server();
    let made = first(&server, &[]);
    let whole = fs::read_to_string(journal(&made)).unwrap();
    let edits: [(&str, Value, &str); 8] = [
        ("config.agent.step_limit", json!(7), ""),
        ("config.environment.cwd", json!("/nowhere"), ""),
        (
            "config.plugins",
            json!({ "mine": { "path": "/p.wasm" } }),
            "plugins.mine.path",
        ),
        (
            "config.pipeline.processors",
            json!(["./p.wasm"]),
            "pipeline.processors",
        ),
        ("config.tools.bundles", json!(["/etc"]), "tools.bundles"),
        (
            "config.model.model_name",
            json!("replay//etc/passwd"),
            "model.model_name",
        ),
        (
            "config.model.model_class",
            json!("deterministic"),
            "model.model_class",
        ),
        (
            "plugins",
            json!([{ "name": "x", "kind": "action-policy", "asked": "./p.wasm" }]),
            "--plugin",
        ),
    ];
    let sent = || {
        let view = View::of(Host::after(&made), &["traj.events.jsonl"]);
        let runs = view.runs();
        let id = runs[0]["id"].as_str().unwrap();
        let answer = view.get(&format!("/api/sent?id={id}&step=2"));
        view.end();
        answer
    };
    let own = sent().json();
    assert_eq!(
        (&own["caution"], &own["sent"]),
        (&Value::Null, &json!(2)),
        "{own}"
    );
    // The adapter makes the very body that was sent.
    let body: Value = serde_json::from_str(own["body"].as_str().unwrap()).unwrap();
    assert_eq!(body, server.requests()[0].json());
    for (path, value, refused) in edits {
        edit(&journal(&made), "run_started", |event| {
            set(event, path, value.clone());
        });
        let answer = sent();
        match refused {
            "" => {
                let answer = answer.json();
                let caution = answer["caution"].as_str();
                assert!(
                    caution.is_some_and(|it| it.contains("built-in")),
                    "{answer}"
                );
                assert_eq!(answer["messages"], own["messages"], "{path}");
                assert_eq!(answer["body"], Value::Null, "{path}");
            }
            key => {
                assert_eq!(answer.status, 422, "{path}");
                let says = format!("it has `{key}");
                assert!(answer.body.contains(&says), "{path}: {}", answer.body);
            }
        }
        fs::write(journal(&made), &whole).unwrap();
    }
}

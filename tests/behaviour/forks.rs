//! `fork` begins a new run with the first steps of another one.

use std::fs;
use std::path::Path;

use scripted_server::{Scenario, Server, Turn, Usage};
use serde_json::json;

use crate::host::Host;
use crate::replayed::of_mini;
use crate::run::Run;

fn server() -> Server {
    let turns = (1..=4)
        .map(|number| Turn::commands(&[format!("echo {number} >>log; cat log")]))
        .chain([Turn::commands(&[
            "echo COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT; cat log",
        ])]);
    Server::start(Scenario::new(turns).by_history())
}

fn fork(run: &Run, at: &str) -> Host {
    Host::after(run).args(["fork", "traj.json", "--at", at, "-o", "fork.json"])
}

fn bodies(server: &Server) -> Vec<Vec<u8>> {
    let requests = server.requests().into_iter();
    requests.map(|it| it.body).collect()
}

#[test]
fn the_same_parts_send_the_same_requests() {
    let server = server();
    let first = Host::new().server(&server).task("count").run().expect(0);
    let before = bodies(&server);
    let journal = fs::read(first.dir.join("traj.events.jsonl")).unwrap();
    for at in 0..5_usize {
        // The test restores the file of the workspace.
        let log: String = (1..=at).map(|number| format!("{number}\n")).collect();
        fs::write(first.dir.join("log"), log).unwrap();
        let sent = bodies(&server).len();
        let forked = fork(&first, &at.to_string()).arg("--no-workspace");
        let forked = forked.run().expect(0);
        assert_eq!(bodies(&server)[sent..], before[at..], "--at {at}");
        assert_eq!(forked.stdout, "1\n2\n3\n4\n");
        let started = &forked.events("run_started")[0];
        assert_eq!(
            started["parent"],
            json!({"run_id": first.run_id(), "step": at})
        );
        assert_ne!(forked.run_id(), first.run_id());
        let calls = &forked.trajectory()["info"]["model_stats"]["api_calls"];
        assert_eq!(*calls, json!(5));
        forked.nothing_left();
    }
    assert_eq!(
        fs::read(first.dir.join("traj.events.jsonl")).unwrap(),
        journal
    );
}

#[test]
fn the_same_processors_and_policies_send_the_same_requests() {
    let step = |command: &str, tokens: u64| {
        Turn::commands(&[command]).with_usage(Usage {
            prompt_tokens: tokens,
            completion_tokens: 20,
            ..Usage::default()
        })
    };
    let submit = "echo COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT; echo done";
    let whole = [
        step("seq 1 3000", 1_000),
        step("seq 1 3000", 7_000),
        // The request for it follows the second step.
        Turn::text("the summary of what was done"),
        step("vim; echo third", 3_000),
        step(submit, 3_100),
    ];
    // The first request of a fork after so many steps.
    let forks = [(0, 0), (1, 1), (2, 3), (3, 4)];
    let turns = whole.clone().into_iter();
    let turns = turns.chain(forks.iter().flat_map(|(_, first)| whole[*first..].to_vec()));
    let server = Server::start(Scenario::new(turns));
    let config = [
        r#"pipeline.processors=["compaction","last_n_observations"]"#,
        "plugins.compaction.config.budget_tokens=8000",
        "plugins.compaction.config.keep_last=2",
        "plugins.last_n_observations.config.n=1",
        r#"pipeline.policies=["blocklist"]"#,
    ];
    let config = config.iter().flat_map(|spec| ["-c", spec]);
    let first = Host::new().server(&server).task("count").args(config);
    let first = first.run().expect(0);
    let before = bodies(&server);
    assert_eq!(before.len(), whole.len(), "{first}");
    assert_eq!(first.events("asked").len(), 1);
    assert_eq!(first.events("denied").len(), 1);
    for (at, from) in forks {
        let sent = bodies(&server).len();
        let forked = fork(&first, &at.to_string()).arg("--no-workspace");
        forked.run().expect(0);
        assert!(bodies(&server)[sent..] == before[from..], "--at {at}");
    }
}

#[test]
fn another_model_and_another_parser_go_on_from_the_same_steps() {
    let server = server();
    let first = Host::new().server(&server).task("count").run().expect(0);
    let before = server.requests()[2].json();
    fs::write(first.dir.join("log"), "1\n2\n").unwrap();
    let submit = "echo COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT; cat log";
    let fenced = format!("I am done.\n\n```mswea_bash_command\n{submit}\n```");
    let other = Server::start(Scenario::new([Turn::text(fenced)]));
    let forked = fork(&first, "2").arg("--no-workspace");
    let forked = forked.args(["--base-url", &other.url(), "-m", "local/other"]);
    let forked = forked.args(["--plugin", "text_regex"]).run().expect(0);
    assert_eq!(forked.stdout, "1\n2\n");
    let sent = other.requests().remove(0).json();
    assert_eq!(sent["model"], json!("other"));
    assert_eq!(sent["messages"], before["messages"]);
    // That parser reads no calls, so no tools are offered.
    assert!(before.get("tools").is_some() && sent.get("tools").is_none());
}

#[test]
fn a_run_of_mini_swe_agent_is_forked() {
    for (name, at) in [
        ("toolcall_several", 1),
        ("text_format_errors", 3),
        ("format_no_call", 1),
        ("anthropic_several", 1),
        ("responses_several", 1),
    ] {
        // Only the request is checked, so the server answers with an error.
        let turn = Turn::error(401, "invalid_api_key", "no such key");
        let server = Server::start(Scenario::new([turn]).on_any_route());
        let address = format!("http://{}", server.address());
        let (host, recorded) = of_mini(Host::new(), name, &address);
        let step = at.to_string();
        let fork = ["fork", "mini.traj.json", "-o", "fork.json", "--at", &step];
        let host = host
            .env("OPENAI_API_KEY", "k")
            .env("ANTHROPIC_API_KEY", "k");
        let refused = host.args(fork).run().expect(2);
        let refused = refused.says(&["does not hold the files", "`--no-workspace`"]);
        assert!(!refused.dir.join("fork.json").exists(), "{name}");
        let host = Host::after(&refused).env("OPENAI_API_KEY", "k");
        let host = host.env("ANTHROPIC_API_KEY", "k").args(fork);
        let host = host.arg("--trust-record");
        let forked = host.args(["--no-workspace", "--step-limit", &(at + 1).to_string()]);
        let forked = forked.run().says(&["a trajectory of mini-swe-agent"]);
        let sent = server.requests();
        let sent = sent.first().unwrap_or_else(|| panic!("{name}\n{forked}"));
        let wanted = &recorded["result"]["requests"][at]["body"];
        for key in ["messages", "input", "system"] {
            assert_eq!(sent.json().get(key), wanted.get(key), "{name}: {key}");
        }
        let parent = &forked.events("run_started")[0]["parent"];
        assert_eq!(*parent, json!({"run_id": "mini.traj.json", "step": at}));
    }
}

#[test]
fn a_run_goes_on_with_a_further_message() {
    let server = server();
    let first = Host::new().server(&server).task("count");
    let first = first.args(["--atif", "atif.json"]).run().expect(0);
    let recorded = |dir: &Path| {
        ["traj.events.jsonl", "atif.json"].map(|name| fs::read(dir.join(name)).unwrap())
    };
    let files = recorded(&first.dir);
    let next = [
        "continue",
        "traj.json",
        "-t",
        "-and now?",
        "-o",
        "next.json",
    ];
    // The script's answer to a longer history is its last one.
    let other = Server::start(Scenario::always(Turn::commands(&[
        "echo COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT; echo more",
    ])));
    let host = Host::after(&first)
        .args(next)
        .args(["--run-id", "second.1"]);
    let run = host
        .args(["--base-url", &other.url(), "--trust-record"])
        .run()
        .expect(0);
    assert_eq!(run.stdout, "more\n");
    let sent = other.requests()[0].json()["messages"]
        .as_array()
        .cloned()
        .unwrap();
    let said: Vec<&str> = sent
        .iter()
        .rev()
        .take(2)
        .map(|it| it["content"].as_str().unwrap())
        .collect();
    assert_eq!(said[0], "-and now?");
    // The submission is taken back.
    assert!(said[1].contains("action was not executed"), "{said:?}");
    let trajectory: serde_json::Value =
        serde_json::from_slice(&fs::read(run.dir.join("next.json")).unwrap()).unwrap();
    assert_eq!(trajectory["info"]["model_stats"]["api_calls"], json!(6));
    assert_eq!(trajectory["info"]["mswea"]["run_id"], "second.1");
    assert_eq!(recorded(&run.dir), files);
    for format in ["atif", "html", "md"] {
        let export = Host::after(&run).args(["export", "next.json", "--to", format]);
        let run = export.run().expect(0);
        let text = &run.stdout;
        assert_eq!(text.matches("-and now?").count(), 1, "{format}: {text}");
    }
    let host = Host::after(&run).args(next).args(["--run-id", "../x"]);
    host.run()
        .expect(2)
        .says(&["`--run-id ../x`", "begins with a letter"]);
    // The id of the run that is gone on with, and that of the new run.
    for id in [first.run_id(), "second.1".to_owned()] {
        let host = Host::after(&run).args(next).args(["--run-id", &id]);
        let given = format!("`--run-id {id}`");
        host.run().expect(2).says(&[&given, "a run has this id"]);
    }
}

#[test]
fn a_run_gets_the_id_of_a_flag_which_no_other_run_may_have() {
    let server = server();
    let with = |host: Host, id: &str| host.server(&server).task("count").args(["--run-id", id]);
    let first = with(Host::new(), "mine-1").run().expect(0);
    assert_eq!(first.run_id(), "mine-1");
    let journal = fs::read(first.dir.join("traj.events.jsonl")).unwrap();
    let vectors = [
        ("mine-1", "a run has this id"),
        ("a/b", "an id has letters"),
        ("..", "begins with a letter"),
        ("-x", "begins with a letter"),
        ("", "begins with a letter"),
        ("a b", "an id has letters"),
        ("a\u{1b}[31m", "an id has letters"),
    ];
    for (id, says) in vectors {
        let flag = format!("--run-id={id}");
        let host = Host::after(&first).server(&server).task("count").arg(&flag);
        host.run().expect(2).says(&["--run-id", says]);
    }
    let long = with(Host::after(&first), &"x".repeat(81)).run().expect(2);
    long.says(&["at most 80"]);
    assert_eq!(
        fs::read(first.dir.join("traj.events.jsonl")).unwrap(),
        journal
    );
    // The id of a run whose files are gone is free.
    fs::remove_file(first.dir.join("traj.events.jsonl")).unwrap();
    let again = with(Host::after(&first), "mine-1").run().expect(0);
    assert_eq!(again.run_id(), "mine-1");
    let shown = Host::after(&again).args(["runs", "show", "mine-1"]);
    shown.run().expect(0);
}

#[test]
fn a_trajectory_of_mini_swe_agent_goes_on() {
    let turn = Turn::error(401, "invalid_api_key", "no such key");
    let server = Server::start(Scenario::new([turn]).on_any_route());
    let address = format!("http://{}", server.address());
    // The flag names the server, and not the record.
    let (host, _) = of_mini(Host::new(), "toolcall_several", "http://127.0.0.1:9");
    let next = [
        "continue",
        "mini.traj.json",
        "-t",
        "and now?",
        "-o",
        "next.json",
    ];
    let host = host.env("OPENAI_API_KEY", "k").args(next);
    let base = format!("{address}/v1");
    let refused = host.args(["--base-url", &base]).run().expect(2);
    // What is left to consent to is that commands run on this machine, in no sandbox.
    assert_eq!(refused.stderr.matches("\n  ").count(), 1, "{refused}");
    let refused = refused.says(&["\n  environment.sandbox = \"none\"\n"]);
    assert!(server.requests().is_empty());
    let host = Host::after(&refused).env("OPENAI_API_KEY", "k").args(next);
    host.args(["--base-url", &base, "-c", "environment.sandbox=none"])
        .run()
        .expect(5);
    let sent = server.requests()[0].json()["messages"]
        .as_array()
        .cloned()
        .unwrap();
    assert_eq!(sent.last().unwrap()["content"], "and now?");
    assert!(sent.len() > 4, "{sent:?}");
}

#[test]
fn what_cannot_be_forked_is_refused_and_nothing_is_written() {
    let server = server();
    let first = Host::new().server(&server).task("count").run().expect(0);
    for (at, says) in [
        ("6", &["the run has 5 steps", "`--at 6`", "0 to 5"][..]),
        ("5", &["submits in step 5", "an earlier step"]),
        ("2", &["after step 2 was not recorded", "--no-workspace"]),
    ] {
        let refused = fork(&first, at).run().expect(2).says(says);
        assert!(!refused.dir.join("fork.json").exists(), "{at}");
        assert!(!refused.dir.join("fork.run.events.jsonl").exists(), "{at}");
    }
}

#[test]
fn a_clone_is_made_what_it_was_at_the_end_of_the_run() {
    let server = server();
    let host = Host::new()
        .server(&server)
        .task("count")
        .file("origin/a", "a\n");
    let git = |folder: &str, args: &[&str]| {
        let done = std::process::Command::new("git")
            .args(["-c", "user.name=n", "-c", "user.email=e", "-C", folder])
            .args(args)
            .output()
            .unwrap();
        assert!(done.status.success(), "{done:?}");
    };
    let origin = host.dir().join("origin").display().to_string();
    git(&origin, &["init", "-q", "."]);
    git(&origin, &["add", "."]);
    git(&origin, &["commit", "-qm", "1"]);
    let url = format!("workspace.repo=file://{origin}");
    let first = host.args([
        "-c",
        &url,
        "-c",
        "workspace.path=first",
        "--step-limit",
        "2",
    ]);
    let first = first.run().expect(3);
    let clone = first.dir.join("first/log");
    assert!(clone.exists());
    // `resume` reports files that were changed after the run's end, and uses them as they are.
    let resume = |limit: &str| {
        let host = Host::after(&first).args(["resume", "traj.json", "--step-limit", limit]);
        host.run().expect(3)
    };
    let same = resume("2");
    assert!(!same.stderr.contains("have changed"), "{same}");
    fs::write(&clone, "mine\n").unwrap();
    resume("2").says(&["have changed since the run ended", "nothing is overwritten"]);
    assert_eq!(fs::read_to_string(&clone).unwrap(), "mine\n");
    // A new clone in the place of one that was removed gets its files back. The last end has recorded
    // the changed file.
    fs::remove_dir_all(first.dir.join("first")).unwrap();
    let restored = resume("2");
    assert_eq!(fs::read_to_string(&clone).unwrap(), "mine\n", "{restored}");
    restored.says(&["is gone", "have been restored"]);
    fs::write(&clone, "1\n2\n").unwrap();
    resume("2");
    let forked = fork(&first, "2").args(["--step-limit", "9", "-c", "workspace.path=again"]);
    let forked = forked.run().expect(0);
    assert_eq!(forked.stdout, "1\n2\n3\n4\n");
    // With `--at 0` the run begins with a clone without changes.
    let anew = fork(&first, "0").args(["--step-limit", "9", "-c", "workspace.path=anew"]);
    let anew = anew.run().expect(0);
    assert_eq!(anew.stdout, "1\n2\n3\n4\n");
    // The run's own folder is as it was at the run's end, but after this fork it is not.
    let same = fork(&first, "2").args(["--step-limit", "9"]).run();
    assert_eq!(same.expect(0).stdout, "1\n2\n3\n4\n");
    let refused = fork(&first, "2").args(["--step-limit", "9"]).run();
    let refused = refused.expect(6);
    refused.says(&["changed otherwise", "--no-workspace"]);
    let log = fs::read_to_string(first.dir.join("first/log")).unwrap();
    assert_eq!(log, "1\n2\n3\n4\n");
}

#[test]
fn a_run_that_ended_with_malformed_replies_has_a_new_chance() {
    let malformed = ["a", "b", "c"].map(Turn::text);
    let submits = Turn::commands(&["echo COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT; echo done"]);
    let server = Server::start(Scenario::new(malformed.into_iter().chain([submits])));
    let first = Host::new().server(&server).task("count").run().expect(4);
    let forked = fork(&first, "3").arg("--no-workspace").run().expect(0);
    assert_eq!(forked.stdout, "done\n");
    assert_eq!(server.requests().len(), 4);
}

#[test]
fn what_cannot_be_restored_is_refused_before_a_file_is_touched() {
    let server = server();
    let first = Host::new().server(&server).task("count").run().expect(0);
    let old = first.dir.join("fork.json");
    fs::write(&old, "{}").unwrap();
    let state = first.root.path().join("home/.local/state");
    let files = |folder: &Path| {
        let mut names: Vec<String> = fs::read_dir(folder)
            .into_iter()
            .flatten()
            .map(|it| it.unwrap().path().display().to_string())
            .collect();
        names.sort();
        names
    };
    let runs = state.join("mswea-host/runs");
    let before = (files(&first.dir), files(&runs));
    let refused = fork(&first, "0").run().expect(2);
    refused.says(&["no repository of its own", "`--no-workspace`"]);
    assert_eq!(fs::read_to_string(&old).unwrap(), "{}");
    assert_eq!((files(&first.dir), files(&runs)), before);
    assert_eq!(server.requests().len(), 5);
}

#[test]
fn one_step_is_a_step() {
    let server = server();
    let first = Host::new().server(&server).task("count");
    let first = first.args(["--step-limit", "1"]).run().expect(3);
    let refused = fork(&first, "2").run().expect(2);
    refused.says(&["the run has 1 step, and"]);
    let forked = fork(&first, "1").args(["--no-workspace", "--step-limit", "9"]);
    let forked = forked.run().expect(0);
    forked.says(&["a new run begins with 1 step of run"]);
}

#[test]
fn of_processes_that_begin_at_once_one_gets_the_id() {
    let server = server();
    let first = Host::new().server(&server).task("count").run().expect(0);
    let hosts = (0..6).map(|index| {
        let output = format!("at-once-{index}.traj.json");
        let host = Host::after(&first).server(&server);
        host.args(["-t", "count", "--run-id", "mine", "-o", &output])
            .spawn()
    });
    let hosts: Vec<_> = hosts.collect();
    let mut runs = 0;
    for (index, host) in hosts.into_iter().enumerate() {
        let done = host.wait();
        let began = first
            .dir
            .join(format!("at-once-{index}.events.jsonl"))
            .exists();
        assert_eq!(began, done.status == 0, "{done}");
        if began {
            runs += 1;
        } else {
            done.expect(2).says(&["`--run-id mine`", "has this id"]);
        }
    }
    assert_eq!(runs, 1);
}

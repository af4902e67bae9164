//! Batches: every instance gets exactly one result, whatever is killed; the files of `swebench` are those of
//! mini-swe-agent.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::thread;
use std::time::Duration;

use scripted_server::{After, Scenario, Server, Turn};
use serde_json::Value;

use crate::host::{Host, Signal};
use crate::needs::Need;
use crate::run::Run;

const SUBMIT: &str = "echo COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT; cat steps 2>/dev/null; true";

pub fn instances(count: usize) -> String {
    let lines = (0..count).map(|i| format!("{{\"id\": \"i{i:02}\", \"task\": \"Do {i}\"}}\n"));
    lines.collect()
}

pub fn server(delay: u64) -> Server {
    server_with([delay; 3])
}

/// A server that waits this many milliseconds before its first, second and third reply to an instance.
pub fn server_with(delays: [u64; 3]) -> Server {
    let commands = ["echo one >> steps", "sleep 0.02; echo two >> steps", SUBMIT];
    let turns = commands.into_iter().zip(delays).map(|(command, delay)| {
        Turn::commands(&[command])
            .with_delay(Duration::from_millis(delay))
            .with_cost(0.25)
    });
    // A submission that was cut off is not run again: the model sends another one.
    let scenario = Scenario::new(turns).by_history();
    Server::start(scenario.then(After::Repeat))
}

pub fn batch(host: Host, server: &Server, arguments: &[&str]) -> Host {
    host.args(["batch", "run", "out", "--instances", "i.jsonl"])
        .server(server)
        .args(["-l", "0"])
        .args(arguments)
}

fn json(path: &Path) -> Value {
    let text = fs::read(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    serde_json::from_slice(&text).unwrap()
}

/// The text of each result that there is.
pub fn results(dir: &Path) -> BTreeMap<String, String> {
    let mut found = BTreeMap::new();
    for entry in fs::read_dir(dir).into_iter().flatten().flatten() {
        if let Ok(text) = fs::read_to_string(entry.path().join("result.json")) {
            found.insert(entry.file_name().into_string().unwrap(), text);
        }
    }
    found
}

/// How many instances were begun.
pub fn begun(dir: &Path) -> usize {
    let folders = fs::read_dir(dir).unwrap().flatten();
    let has_journal = |folder: &Path| {
        let id = folder.file_name().unwrap().to_string_lossy().into_owned();
        folder.join(format!("{id}.events.jsonl")).exists()
    };
    folders.filter(|it| has_journal(&it.path())).count()
}

/// How often the run in a journal has submitted.
fn submissions(dir: &Path, id: &str) -> usize {
    let text = fs::read_to_string(dir.join(id).join(format!("{id}.events.jsonl"))).unwrap();
    let of = |line: &&str| line.contains("\"event\":\"submitted\"");
    text.lines().filter(of).count()
}

#[test]
fn exactly_one_result_whatever_is_killed() {
    let kills: u64 = std::env::var("MSWEA_BATCH_KILLS").map_or(4, |kills| kills.parse().unwrap());
    // More than run at a time.
    let count = 40;
    let server = server(20).recording(false);
    let mut host = Host::new().file("i.jsonl", instances(count));
    let out = host.dir().join("out");
    // A batch ends after some kills; then another one begins.
    let mut killed = 0;
    loop {
        let mut done = results(&out);
        let mut last: Option<Run> = None;
        while done.len() < count && killed < kills {
            let mut running = batch(host, &server, &["-w", "32"]).spawn();
            running.until_file("out/batch.json");
            thread::sleep(Duration::from_millis(40 + killed * 37 % 400));
            running.signal(Signal::KILL);
            let run = running.wait();
            killed += 1;
            let now = results(&out);
            for (id, text) in &done {
                assert_eq!(
                    now.get(id),
                    Some(text),
                    "the result of {id} has changed\n{run}"
                );
            }
            done = now;
            host = Host::after(&run);
            last = Some(run);
        }
        let run = batch(host, &server, &["-w", "32"]).run().expect(0);
        drop(last);
        let now = results(&out);
        assert_eq!(now.len(), count, "{run}");
        let preds = json(&out.join("preds.json"));
        assert_eq!(preds.as_object().unwrap().len(), count);
        for (id, text) in &now {
            assert!(
                done.get(id).is_none_or(|before| before == text),
                "{id}\n{run}"
            );
            let result: Value = serde_json::from_str(text).unwrap();
            assert_eq!(result["exit_status"], "Submitted", "{id}: {text}\n{run}");
            assert_eq!(submissions(&out, id), 1, "{id}");
            let submission = result["submission"].as_str().unwrap();
            // A command that was cut off is not run again, so a line may be missing, but none is there twice.
            assert!(
                ["one\ntwo\n", "one\n", "two\n", ""].contains(&submission),
                "{text}"
            );
            assert_eq!(preds[id]["model_patch"], submission);
            let trajectory = json(&out.join(id).join(format!("{id}.traj.json")));
            assert_eq!(trajectory["instance_id"], id.as_str());
            assert_eq!(trajectory["info"]["submission"], submission);
            assert_eq!(trajectory["info"]["mswea"]["run_id"], result["run_id"]);
        }
        host = Host::after(&run);
        if killed >= kills {
            break;
        }
        fs::remove_dir_all(&out).unwrap();
    }
}

#[test]
fn events_and_figures() {
    let server = server(0);
    let host = Host::new().file("i.jsonl", instances(3));
    let run = batch(host, &server, &["-w", "2", "--json", "--slice", ":2"])
        .run()
        .expect(0);
    let events: Vec<Value> = run
        .stdout
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    for id in ["i00", "i01"] {
        let of: Vec<&str> = events
            .iter()
            .filter(|event| event["instance"] == id)
            .map(|event| event["type"].as_str().unwrap())
            .collect();
        assert_eq!(of.first(), Some(&"instance_began"), "{run}");
        assert_eq!(of.last(), Some(&"instance_done"), "{run}");
        for kind in ["recording", "step_started", "action_ended", "ended"] {
            assert!(of.contains(&kind), "{kind}\n{run}");
        }
    }
    let last = events.last().unwrap();
    assert_eq!(last["type"], "batch_ended");
    assert_eq!((&last["done"], &last["exit_code"]), (&2.into(), &0.into()));
    // Nothing is left of these: that is said in one line, also with `-q`.
    let run = batch(Host::after(&run), &server, &["-q", "--slice", ":2"]);
    let run = run.run().expect(0);
    let words = "2 of 2 instances have a result already · 2 Submitted · $1.5000 · results: out/preds.json\n";
    assert_eq!(run.stderr, words, "{run}");
    // The same directory takes further instances, and redoes what it is told to.
    let run = batch(Host::after(&run), &server, &[]).run().expect(0);
    let run = run.says(&[
        "2 of 3 instances have a result already",
        "[1/1] i02: Submitted",
    ]);
    let run = batch(
        Host::after(&run),
        &server,
        &["--redo-status", "submitted", "--filter", "i01"],
    )
    .run()
    .expect(0)
    .says(&["[1/1] i01: Submitted"]);
    assert!(run.dir.join("out/.redone/i01.1/result.json").exists());
    let run = batch(Host::after(&run), &server, &["--redo-status", "Submited"])
        .run()
        .expect(0)
        .says(&["no instance has this exit status; there are `Submitted`"]);
    let look = Host::after(&run)
        .args(["batch", "status", "out", "--json"])
        .run()
        .expect(0);
    let figures: Value = serde_json::from_str(&look.stdout).unwrap();
    assert_eq!(figures["instances"], 3);
    assert_eq!(figures["by_status"][0]["exit_status"], "Submitted");
    assert_eq!(figures["total"]["steps"], 9);
    assert_eq!(figures["total"]["cost"], 2.25);
    assert_eq!(figures["worker"], Value::Null);
    let look = Host::after(&run)
        .args(["batch", "report", "out"])
        .run()
        .expect(0);
    assert!(
        look.stdout.contains("3 of 3 instances have a result"),
        "{look}"
    );
    // A file was lost, or the process was killed before it was there.
    let trajectory = run.dir.join("out/i01/i01.traj.json");
    let before = json(&trajectory);
    fs::remove_file(&trajectory).unwrap();
    batch(Host::after(&look), &server, &[]).run().expect(0);
    assert_eq!(json(&trajectory), before);
}

#[test]
fn infrastructure_is_tried_again_and_errors_are_not() {
    let submit = Turn::commands(&["echo COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT"]);
    let turns = [Turn::status(503), submit, Turn::status(400)];
    let server = Server::start(Scenario::new(turns).then(After::Repeat));
    let host = Host::new().file("i.jsonl", instances(5));
    let no_retries = [
        "-c",
        "model.rate_limit_retries=0",
        "-c",
        "model.network_retries=0",
    ];
    let arguments = ["--retry-wait", "0", "--max-failures", "2"];
    let run = batch(host, &server, &[no_retries.as_slice(), &arguments].concat())
        .run()
        .expect(1)
        .says(&[
            "i00: ServiceUnavailableError, once more",
            "2 instances in a row have failed",
        ]);
    let out = run.dir.join("out");
    let first = json(&out.join("i00/result.json"));
    assert_eq!(
        (&first["exit_status"], &first["attempts"]),
        (&"Submitted".into(), &2.into())
    );
    assert_eq!(results(&out).len(), 3, "{run}");
    let failed = json(&out.join("i01/result.json"));
    assert_eq!(failed["attempts"], 1);
    assert!(failed["error"].is_string());
}

#[test]
fn a_start_up_command_that_fails_is_tried_again_in_a_new_environment() {
    let server = server(0);
    let host = Host::new().file("i.jsonl", instances(2));
    let seen = host.dir().join("seen").display().to_string();
    let startup = format!(
        "run.env_startup_command=echo begun >>steps; mkdir '{seen}'-{{{{ id }}}} || exit 0; echo no mirror; exit 3"
    );
    let run = batch(host, &server, &["-c", &startup, "--retry-wait", "0"])
        .run()
        .expect(0)
        .says(&["i00: EnvironmentError, once more"]);
    let result = json(&run.dir.join("out/i01/result.json"));
    assert_eq!(
        (&result["submission"], &result["attempts"]),
        (&"begun\none\ntwo\n".into(), &2.into())
    );
    let host = Host::new().file("i.jsonl", instances(1));
    let startup = "run.env_startup_command=echo no mirror; exit 3";
    let run = batch(host, &server, &["-c", startup, "--retries", "0"])
        .run()
        .expect(1);
    let result = json(&run.dir.join("out/i00/result.json"));
    assert_eq!(result["exit_status"], "EnvironmentError", "{run}");
    let error = result["error"].as_str().unwrap();
    for part in ["run.env_startup_command", "no mirror", "3"] {
        assert!(error.contains(part), "{error}");
    }
}

#[test]
fn stops_and_limits() {
    let server = server(100);
    let host = Host::new().file("i.jsonl", instances(6));
    let mut running = batch(host, &server, &["-w", "2"]).spawn();
    running.until_file("out/i01/i01.events.jsonl");
    let other = Host::beside(&running);
    batch(other, &server, &[])
        .run()
        .expect(2)
        .says(&["another process works on `out` (process "]);
    running.signal(Signal::INT);
    let run = running
        .wait()
        .expect(130)
        .says(&["no further instance begins", "instances without a result: "]);
    let out = run.dir.join("out");
    let done = results(&out).len();
    assert!(done < 6, "{run}");
    assert_eq!(done, begun(&out), "{run}");
    // Stopped at once; what ran goes on later.
    let mut running = batch(Host::after(&run), &server, &["-w", "2"]).spawn();
    running.until("another instance", |_| begun(&out) > done);
    running.signal(Signal::INT);
    running.until("the first stop", |run| run.stderr().contains("no further"));
    running.signal(Signal::INT);
    let run = running.wait().expect(130).says(&["stopping what runs"]);
    assert!(results(&out).len() < begun(&out), "{run}");
    // The cost so far counts.
    let run = batch(Host::after(&run), &server, &["--total-cost-limit", "0.5"])
        .run()
        .expect(3)
        .says(&["its limit is $0.50", "goes on"]);
    let run = batch(Host::after(&run), &server, &["-w", "3"])
        .run()
        .expect(0);
    assert_eq!(results(&out).len(), 6, "{run}");
    let done = results(&out);
    let resumed = done.keys().filter(|id| {
        let journal = out.join(id).join(format!("{id}.events.jsonl"));
        fs::read_to_string(journal)
            .unwrap()
            .contains("\"event\":\"run_resumed\"")
    });
    assert!(resumed.count() > 0, "no run went on\n{run}");
}

#[test]
fn an_instance_that_takes_too_long() {
    let turn = Turn::commands(&["sleep 0.4"]);
    let server = Server::start(Scenario::always(turn));
    let host = Host::new().file("i.jsonl", instances(1));
    let run = batch(host, &server, &["--instance-timeout", "1"])
        .run()
        .expect(0);
    let result = json(&run.dir.join("out/i00/result.json"));
    assert_eq!(result["exit_status"], "TimeExceeded", "{run}");
}

#[test]
fn swebench_has_the_files_of_mini_swe_agent() {
    if !Need::Docker.is_met() {
        return;
    }
    let rows = [
        r#"{"instance_id": "a__b-1", "problem_statement": "p", "image_name": "mswea-test/bash", "base_commit": "c1"}"#,
        r#"{"instance_id": "a__b-2", "problem_statement": "p", "docker_image": "mswea-test/bash", "base_commit": "c2"}"#,
    ];
    let commands = ["cp /tmp/commit steps", SUBMIT];
    let server = Server::start(Scenario::commands(&commands).by_history());
    let flags = [
        "-l",
        "0",
        "-c",
        "swebench",
        "-c",
        "environment.interpreter=[\"bash\", \"-c\"]",
        "-c",
        "environment.env.GITHUB_TOKEN=sesame",
    ];
    let startup = "run.env_startup_command=echo {{ base_commit }} > /tmp/commit";
    let call = |host: Host, more: &[&str]| {
        host.args(["--split", "test", "--subset", "data"])
            .server(&server)
            .args(flags)
            .args(["-c", startup])
            .args(more)
            .run()
            .expect(0)
    };
    let host = Host::new().file("data/test.jsonl", rows.join("\n"));
    let run = call(host.arg("swebench"), &["-o", "res", "-w", "2"]);
    let res = run.dir.join("res");
    let preds = json(&res.join("preds.json"));
    for (id, commit) in [("a__b-1", "c1\n"), ("a__b-2", "c2\n")] {
        let keys: Vec<&String> = preds[id].as_object().unwrap().keys().collect();
        assert_eq!(keys, ["model_name_or_path", "instance_id", "model_patch"]);
        assert_eq!(preds[id]["model_patch"], commit);
        assert_eq!(preds[id]["model_name_or_path"], "local/test");
        let trajectory = json(&res.join(format!("{id}/{id}.traj.json")));
        assert_eq!(trajectory["instance_id"], id);
        assert_eq!(trajectory["info"]["exit_status"], "Submitted");
    }
    let statuses = fs::read_dir(&res).unwrap().flatten().map(|it| it.path());
    let statuses = statuses.filter(|it| it.to_string_lossy().contains("exit_statuses_"));
    let text = fs::read_to_string(statuses.last().unwrap()).unwrap();
    assert!(
        text.starts_with("instances_by_exit_status:\n    Submitted:\n    - a__b-"),
        "{text}"
    );
    let log = fs::read_to_string(res.join("minisweagent.log")).unwrap();
    assert!(
        log.contains("'environment.env.GITHUB_TOKEN=[redacted]'"),
        "{log}"
    );
    assert!(!log.contains("sesame"), "{log}");
    // Entries of another program are kept, and are not run again.
    let mut preds = preds;
    preds["other"] = preds["a__b-1"].clone();
    fs::write(res.join("preds.json"), preds.to_string()).unwrap();
    let run = call(Host::after(&run).arg("swebench"), &["-o", "res"]);
    let run = run.says(&["2 of 2 instances have a result already"]);
    assert!(json(&res.join("preds.json"))["other"].is_object());
    let run = call(
        Host::after(&run).arg("swebench-single"),
        &["-i", "1", "-o", "one.traj.json"],
    );
    assert_eq!(run.stdout, "c2\n", "{run}");
}

#[test]
fn what_has_failed_is_run_again_and_an_unknown_cost_is_said() {
    let submit = Turn::commands(&["echo COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT"]);
    let scenario = Scenario::new([Turn::status(400), submit]);
    let server = Server::start(scenario.then(After::Repeat));
    let row = |id: &str| format!("{{\"instance_id\": \"{id}\", \"problem_statement\": \"p\"}}\n");
    let call = |host: Host, more: &[&str]| {
        host.args(["swebench", "--subset", "data.jsonl", "-o", "out"])
            .args(["--environment-class", "local", "-c", "environment.cwd="])
            // The preset's is that of an image.
            .args(["-c", "environment.env.BASH_ENV="])
            .server(&server)
            .args(["-l", "0"])
            .args(more)
            .run()
            .expect(0)
    };
    let host = Host::new().file("data.jsonl", row("a__b-1") + &row("a__b-2"));
    let run = call(host, &[]).says(&["1 Submitted", "cost unknown"]);
    let run = call(Host::after(&run), &[]);
    let run = run.says(&["2 of 2 instances have a result already"]);
    assert!(!run.stderr.contains("0/0 done"), "{run}");
    let run = call(Host::after(&run), &["--retry-failed"]);
    let run = run.says(&["[1/1] a__b-1: Submitted"]);
    let run = Host::after(&run)
        .args(["batch", "status", "out"])
        .run()
        .expect(0);
    assert!(run.stdout.contains("2 Submitted\ncost unknown"), "{run}");
    let refused = Host::after(&run)
        .args(["swebench-single", "--subset", "data.jsonl", "-t", "x"])
        .run()
        .expect(2);
    refused.says(&["`--task`", "the task is that of the instance"]);
}

#[test]
fn batches_are_compared_merged_and_exported() {
    let server = server(0);
    let host = Host::new().file("i.jsonl", instances(3));
    let run = batch(host, &server, &["--slice", "0:2"]).run().expect(0);
    let out = run.dir.join("out");
    fs::rename(&out, run.dir.join("a")).unwrap();
    let run = batch(Host::after(&run), &server, &["--slice", "1:3"])
        .run()
        .expect(0);
    fs::rename(&out, run.dir.join("b")).unwrap();
    let call = |run: &Run, arguments: &[&str]| Host::after(run).arg("batch").args(arguments).run();
    let run = call(&run, &["compare", "a", "b", "--json"]).expect(0);
    let made: Value = serde_json::from_str(&run.stdout).unwrap();
    assert_eq!(
        (&made["compared"], &made["both"], &made["p_value"]),
        (&1.into(), &1.into(), &1.0.into())
    );
    let run = call(&run, &["compare", "a", "b"]).expect(0);
    assert!(run.stdout.contains("1 only in the first"), "{run}");
    // The same instance with two results.
    let run = call(&run, &["merge", "all", "a", "b"])
        .expect(2)
        .says(&["have different results of the instance `i01`"]);
    assert!(!run.dir.join("all").exists());
    fs::remove_dir_all(run.dir.join("b/i01")).unwrap();
    let run = call(&run, &["merge", "all", "a", "b"]).expect(0);
    assert_eq!(results(&run.dir.join("all")).len(), 3, "{run}");
    let run = call(&run, &["export", "all", "--status", "Submitted"]).expect(0);
    let lines: Vec<Value> = run
        .stdout
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    assert_eq!(lines.len(), 3, "{run}");
    for line in &lines {
        let messages = line["messages"].as_array().unwrap();
        let mask = line["mask"].as_array().unwrap();
        assert_eq!(messages.len(), mask.len());
        let written = mask.iter().filter(|it| **it == 1).count();
        assert_eq!((written, &line["steps"]), (3, &3.into()), "{line}");
    }
    // A value that looks like a secret is blanked, as in other exports.
    let words = lines[0]["messages"][1]["content"].as_str().unwrap();
    let secret = words.split_whitespace().max_by_key(|word| word.len());
    let secret = secret.unwrap();
    let host = Host::after(&run).env("MY_API_KEY", secret);
    let run = host.args(["batch", "export", "all"]).run().expect(0);
    assert!(!run.stdout.contains(secret), "{secret}: {run}");
    assert!(run.stdout.contains("[secret removed]"), "{run}");
    call(&run, &["export", "all", "--only-resolved"]).expect(2);
}

//! `swebench` beside the recording of mini-swe-agent's command: 20 made-up instances in containers of the
//! tests' images.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use scripted_server::Server;
use serde_json::{Map, Value, json};

use super::compare::{Allowed, Places, normal};
use super::{folder, given_to, read, requests, scenario, unlisted};
use crate::host::Host;
use crate::needs::Need;

/// The usual names of images, for instances that name none.
const USUAL: [&str; 2] = [
    "swebench/sweb.eval.x86_64.made_1776_up-3:latest",
    "swebench/sweb.eval.x86_64.made_1776_up-4:latest",
];

/// The names, until it is dropped.
struct UsualImages;

impl UsualImages {
    fn make() -> Self {
        for name in USUAL {
            assert!(docker(&["tag", "mswea-test/bash", name]), "{name}");
        }
        Self
    }
}

impl Drop for UsualImages {
    fn drop(&mut self) {
        docker(&["rmi", USUAL[0], USUAL[1]]);
    }
}

fn docker(arguments: &[&str]) -> bool {
    let done = Command::new("docker").args(arguments).output();
    done.unwrap().status.success()
}

#[test]
fn the_batch_of_mini_swe_agent_is_matched() {
    if !Need::Docker.is_met() {
        return;
    }
    let recording = read(&folder().join("batch/recorded.json"));
    let (given, mini) = (&recording["given"], &recording["result"]);
    let _images = UsualImages::make();
    let server = Server::start(scenario(&given["replies"], 1));
    let (host, places) = given_to(Host::new().arg("swebench"), given, &server);
    // A fault of the infrastructure is tried again; here this is a matter of time only.
    let host = host.args(["--retry-wait", "0"]);
    let run = host.timeout(Duration::from_secs(240)).run();
    let out = run.dir.join("out");
    let text = |name: &str| fs::read_to_string(out.join(name)).unwrap();
    let result = json!({
        "exit": run.status,
        "requests": requests(&server),
        "preds": text("preds.json"),
        "statuses": by_status(&text(&statuses(&out))),
        "log": log(&text("minisweagent.log")),
    });
    let allowed = Allowed::read(&folder().join("differences.json"));
    let mut of_mini = mini.clone();
    let of_mini = of_mini.as_object_mut().unwrap();
    let trajectories = of_mini.remove("trajectories").unwrap();
    let of_mini = Value::Object(of_mini.clone());
    let mut report = unlisted("batch", &of_mini, &normal(result, &places), &allowed);
    let ours = ours(&out, &places);
    let all: BTreeSet<&String> = trajectories
        .as_object()
        .unwrap()
        .keys()
        .chain(ours.keys())
        .collect();
    assert_eq!(trajectories.as_object().unwrap().len(), 18);
    for id in all {
        let side = |found: Option<&Value>| match found {
            Some(found) => json!({"trajectory": found}),
            None => json!({}),
        };
        let (one, other) = (side(trajectories.get(id)), side(ours.get(id)));
        if let Some(found) = unlisted(&format!("batch_{id}"), &one, &other, &allowed) {
            report = Some(format!("{}\n== {id}\n{found}", report.unwrap_or_default()));
        }
    }
    assert!(report.is_none(), "{}\n{run}", report.unwrap_or_default());
    // The same command again has nothing to do, and the log goes on.
    let before = text("minisweagent.log");
    let (host, _) = given_to(
        Host::after(&run).arg("swebench"),
        &json!({"args": given["args"], "env": given["env"], "files": {}}),
        &server,
    );
    let run = host.run().expect(0);
    let after = text("minisweagent.log");
    assert!(after.starts_with(&before), "{run}");
    let more = log(&after[before.len()..]);
    for line in [
        "Skipping 22 existing instances",
        "Running on 0 instances...",
    ] {
        let line = format!("minisweagent - INFO - {line}");
        assert!(more.contains_key(&line), "{line}: {more:?}");
    }
}

/// The trajectories in a folder, by the instances.
fn ours(out: &Path, places: &Places) -> Map<String, Value> {
    let mut found = Map::new();
    for entry in fs::read_dir(out).unwrap().flatten() {
        let id = entry.file_name().into_string().unwrap();
        let file = entry.path().join(format!("{id}.traj.json"));
        if file.exists() {
            let mut trajectory = read(&file);
            leave_out_last(&mut trajectory);
            let result = json!({"requests": [], "trajectory": trajectory});
            found.insert(id, normal(result, places)["trajectory"].clone());
        }
    }
    found
}

/// Leaves out the results of the step that submits, which mini-swe-agent's agent class `default` does not record.
fn leave_out_last(trajectory: &mut Value) {
    if trajectory["info"]["exit_status"] == "Submitted" {
        let messages = trajectory["messages"].as_array_mut().unwrap();
        while messages[messages.len() - 2]["role"] == "tool" {
            messages.remove(messages.len() - 2);
        }
    }
}

/// The name of the only file of statuses.
fn statuses(out: &Path) -> String {
    let names = fs::read_dir(out).unwrap().flatten();
    let names = names.map(|entry| entry.file_name().into_string().unwrap());
    let mut found: Vec<String> = names
        .filter(|name| name.starts_with("exit_statuses_"))
        .collect();
    assert_eq!(found.len(), 1);
    found.remove(0)
}

/// The ids by status, each as it is written.
fn by_status(text: &str) -> Map<String, Value> {
    let lines = text.strip_prefix("instances_by_exit_status:\n").unwrap();
    let mut found: Map<String, Value> = Map::new();
    let mut status = "";
    for line in lines.lines() {
        match line.strip_prefix("    - ") {
            Some(id) => found[status].as_array_mut().unwrap().push(id.into()),
            None => {
                status = line.trim_start().trim_end_matches(':');
                found.insert(status.to_owned(), json!([]));
            }
        }
    }
    found
}

/// How often the lines about the batch are there, without their times; the texts of errors differ.
fn log(text: &str) -> BTreeMap<String, usize> {
    let of_batch = |line: &&str| {
        line.starts_with("minisweagent - INFO - ") || line.starts_with("minisweagent - ERROR - ")
    };
    // `2026-11-25 05:40:14,136 - `
    let lines = text.lines().filter_map(|line| line.get(26..));
    let lines =
        lines
            .filter(of_batch)
            .map(|line| match line.split_once("Error processing instance ") {
                Some((level, rest)) => {
                    let id = rest.split(':').next().unwrap();
                    format!("{level}Error processing instance {id}:")
                }
                None => line.to_owned(),
            });
    let mut found = BTreeMap::new();
    for line in lines {
        *found.entry(line).or_default() += 1;
    }
    found
}

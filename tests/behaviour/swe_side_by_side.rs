//! Plays the recordings of the real SWE-agent (`tests/side-by-side/sweagent`) to the binary, and compares
//! requests, observations, statuses and patches. `record.py` there compares by the same rules.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::thread;

use scripted_server::Server;
use serde_json::{Map, Value, json};

use crate::host::Host;
use crate::side_by_side::compare::{Allowed, Difference, Places, differences, normal, pointer};
use crate::side_by_side::{listed, lock, names, next, reasons, scenario, shown};
use crate::sweagent::{read, repository_named};

/// How many recordings are played at a time.
const AT_ONCE: usize = 4;

/// The keys of a step and of `info` that are compared. `query` is what the requests show; times and versions
/// differ from run to run.
const STEP: &[&str] = &["action", "observation", "response", "thought", "state"];
const INFO: &[&str] = &["exit_status", "submission", "best_attempt_idx"];

/// Tools whose descriptions are a scenario's own.
const OWN_TOOLS: &[&str] = &["show", "change", "say"];

const WORDS: &str = "@WORDS@";

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/side-by-side/sweagent")
}

#[test]
fn recordings_of_swe_agent_are_matched() {
    let allowed = Allowed::read(&folder().join("differences.json"));
    let names: Vec<String> = names(&folder().join("recorded")).into_iter().collect();
    assert!(names.len() >= 60, "{}", names.len());
    let waiting = Mutex::new(names);
    let failures = Mutex::new(Vec::new());
    thread::scope(|scope| {
        for _ in 0..AT_ONCE {
            scope.spawn(|| {
                while let Some(name) = next(&waiting) {
                    if let Some(report) = differing(&name, &allowed) {
                        lock(&failures).push(report);
                    }
                }
            });
        }
    });
    let mut failures = std::mem::take(&mut *lock(&failures));
    failures.sort();
    assert!(
        failures.is_empty(),
        "{} recordings are not matched:\n{}",
        failures.len(),
        failures.concat()
    );
}

/// DIFFERENCES.md has exactly the reasons that are in `differences.json`.
#[test]
fn differences_from_swe_agent_are_documented() {
    let page = fs::read_to_string(folder().join("../../../DIFFERENCES.md")).unwrap();
    let list = read(&folder().join("differences.json"));
    assert_eq!(reasons(&page, "\n## Beside SWE-agent\n"), listed(&list));
}

fn differing(name: &str, allowed: &Allowed) -> Option<String> {
    let recording = read(&folder().join("recorded").join(format!("{name}.json")));
    let (got, printed) = play(&recording["given"]);
    let mut found = differences(&recording["result"], &got);
    found.retain(|difference| !allowed.lists(name, difference));
    if found.is_empty() {
        return None;
    }
    let mut report = format!("\n== {name}\n");
    for Difference { path, mini, ours } in found.iter().take(12) {
        let (theirs, ours) = (shown(mini.as_ref()), shown(ours.as_ref()));
        let path = pointer(path);
        report += &format!("   {path}\n      theirs: {theirs}\n      ours:   {ours}\n");
    }
    Some(format!(
        "{report}   of {}; last printed: {printed}\n",
        found.len()
    ))
}

/// Runs the binary with what a recording was given. Returns the result in the form of a recording, and the
/// last line of standard error.
fn play(given: &Value) -> (Value, String) {
    let server = Server::start(scenario(&given["replies"], 1));
    let mut host = Host::new();
    repository_named(&host, "sbsrepo");
    let places = Places {
        address: server.address().to_string(),
        work: host.dir(),
        home: host.home(),
    };
    let text = |value: &Value| places.fill(value.as_str().unwrap());
    for (name, content) in given["files"].as_object().unwrap() {
        host = host.file(name, text(content));
        if name.contains("/bin/") {
            let mode = fs::Permissions::from_mode(0o755);
            fs::set_permissions(host.dir().join(name), mode).unwrap();
        }
    }
    let (mut codes, mut printed) = (Vec::new(), String::new());
    for words in given["runs"].as_array().unwrap() {
        let words = words.as_array().unwrap().iter().map(text);
        let mut call = Host::inside(host.root.clone()).arg("sweagent").args(words);
        for (name, value) in given["env"].as_object().unwrap() {
            call = call.env(name, text(value));
        }
        let run = call.run();
        codes.push(run.status);
        printed = run
            .stderr
            .trim()
            .lines()
            .last()
            .unwrap_or_default()
            .to_owned();
    }
    let requests: Value = server
        .requests()
        .iter()
        .map(|request| {
            let headers = request.headers.iter();
            let headers: Map<String, Value> = headers
                .map(|(name, value)| (name.clone(), value.as_str().into()))
                .collect();
            json!({"method": request.method, "path": request.path, "headers": headers, "body": request.json()})
        })
        .collect();
    let ids = given["ids"].as_array().unwrap();
    let ids: Vec<&str> = ids.iter().map(|id| id.as_str().unwrap()).collect();
    let mut result = files(&host.dir().join("out"), &ids);
    result["exit"] = codes.into();
    result["requests"] = requests;
    let mut raw = result.to_string();
    for id in &ids {
        for part in ["", "attempt_0/", "attempt_1/", "attempt_2/"] {
            let work = host.dir().join(format!("out/{id}/{part}work"));
            raw = raw.replace(&*work.to_string_lossy(), "@REPO@");
        }
    }
    let result = normal(serde_json::from_str(&raw).unwrap(), &places);
    (without_words(result, given["words"] == true), printed)
}

/// What is compared of the files that the runs have left.
fn files(out: &Path, ids: &[&str]) -> Value {
    let mut instances = Map::new();
    let text = |path: PathBuf| fs::read_to_string(path).ok();
    let parsed = |path: PathBuf| path.exists().then(|| read(&path));
    for id in ids {
        let traj = out.join(id).join(format!("{id}.traj"));
        let Some(made) = parsed(traj) else {
            instances.insert((*id).to_owned(), Value::Null);
            continue;
        };
        let mut one = compared(&made);
        if let Some(attempts) = made["attempts"].as_array() {
            one["attempts"] = attempts.iter().map(compared).collect();
        }
        one["patch"] = text(out.join(id).join(format!("{id}.patch"))).into();
        one["pred"] = parsed(out.join(id).join(format!("{id}.pred"))).into();
        instances.insert((*id).to_owned(), one);
    }
    let statuses = text(out.join("run_batch_exit_statuses.yaml"));
    json!({
        "instances": instances,
        "preds": parsed(out.join("preds.json")),
        "statuses": statuses.map(|text| status_lines(&text)),
    })
}

/// The lines of a batch's statuses and of the instances below them, sorted.
fn status_lines(text: &str) -> Value {
    let lines = text.lines().filter(|line| line.starts_with(' '));
    let mut lines: Vec<&str> = lines.map(str::trim).collect();
    lines.sort_unstable();
    json!(lines)
}

fn compared(made: &Value) -> Value {
    let info = &made["info"];
    let mut kept = Map::new();
    for key in INFO {
        if let Some(value) = info.get(*key) {
            kept.insert((*key).to_owned(), value.clone());
        }
    }
    kept.insert(
        "api_calls".to_owned(),
        info["model_stats"]["api_calls"].clone(),
    );
    if let Some(review) = info.get("review") {
        let is_none = review["accept"]
            .as_f64()
            .is_some_and(|score| score <= -100.0);
        let outputs = match is_none {
            true => json!([WORDS]),
            false => review["outputs"].clone(),
        };
        let shown = json!({"accept": review["accept"], "outputs": outputs});
        kept.insert("review".to_owned(), shown);
    }
    if let Some(chooser) = info.get("chooser") {
        let shown = json!({"chosen_idx": chooser["chosen_idx"], "response": chooser["response"]});
        kept.insert("chooser".to_owned(), shown);
    }
    let steps = made["trajectory"].as_array().into_iter().flatten();
    let steps = steps.map(|step| {
        let keys = STEP
            .iter()
            .map(|key| ((*key).to_owned(), step[*key].clone()));
        Value::Object(keys.collect())
    });
    let mut history = made["history"].clone();
    if info["exit_status"] == "submitted"
        && let Some(items) = history.as_array_mut()
        && items
            .last()
            .is_some_and(|it| it["message_type"] == "observation")
    {
        // No model reads it.
        items.pop();
    }
    let mut steps: Vec<Value> = steps.collect();
    let status = info["exit_status"].as_str();
    if !matches!(status, None | Some("submitted" | "exit_command")) {
        without_end(&mut steps, &mut history);
    }
    json!({"steps": steps, "history": history, "info": kept})
}

/// Removes what is said of an end that no action has brought about: each program has its own words.
fn without_end(steps: &mut [Value], history: &mut Value) {
    if let Some(last) = steps.last_mut()
        && last["action"] == ""
    {
        last["response"] = WORDS.into();
        last["thought"] = WORDS.into();
    }
    if let Some(items) = history.as_array_mut()
        && let [.., action, _] = items.as_slice()
        && action["message_type"] == "action"
        && action["action"] == ""
    {
        items.truncate(items.len() - 2);
    }
}

/// The result without sentences of the tools: those of SWE-agent's own are others.
fn without_words(mut result: Value, everywhere: bool) -> Value {
    for request in result["requests"].as_array_mut().into_iter().flatten() {
        for tool in request["body"]["tools"]
            .as_array_mut()
            .into_iter()
            .flatten()
        {
            let function = &mut tool["function"];
            if OWN_TOOLS.contains(&function["name"].as_str().unwrap_or_default()) {
                continue;
            }
            function["description"] = WORDS.into();
            let parameters = function.pointer_mut("/parameters/properties");
            let parameters = parameters.and_then(Value::as_object_mut);
            for parameter in parameters.into_iter().flat_map(Map::values_mut) {
                parameter["description"] = WORDS.into();
            }
        }
        let body = request["body"].as_object_mut();
        if let Some(body) = body.filter(|it| it.get("tools") == Some(&Value::Null)) {
            body.remove("tools");
        }
    }
    match everywhere {
        true => wordless(&result),
        false => result,
    }
}

fn wordless(value: &Value) -> Value {
    const KEPT: &[&str] = &[
        "tools",
        "state",
        "action",
        "response",
        "thought",
        "tool_calls",
    ];
    match value {
        Value::Object(map) => {
            let entries = map.iter().map(|(key, child)| {
                let child = match KEPT.contains(&key.as_str()) {
                    true => child.clone(),
                    false => wordless(child),
                };
                (key.clone(), child)
            });
            Value::Object(entries.collect())
        }
        Value::Array(list) => list.iter().map(wordless).collect(),
        Value::String(text) if text.contains(['\n', ' ']) || text.contains("OBSERVATION") => {
            let mut lines: Vec<&str> = Vec::new();
            for line in text.split('\n') {
                let line = if is_data(line) { line } else { WORDS };
                if line != WORDS || lines.last() != Some(&WORDS) {
                    lines.push(line);
                }
            }
            lines.join("\n").into()
        }
        other => other.clone(),
    }
}

/// Whether a line of a tool's output is no sentence: a line of a file with its number, a header, a path, a
/// part of a patch.
fn is_data(line: &str) -> bool {
    const BEGINNINGS: &[&str] = &[
        "[File: ",
        "(",
        "/",
        "@",
        "-",
        "+",
        " ",
        "diff ",
        "index ",
        "no ",
        "Thought (colleague",
        "Proposed Action",
    ];
    let numbered = |text: &str, ends: &[char]| {
        let rest = text.trim_start_matches(|c: char| c.is_ascii_digit());
        rest.len() < text.len() && rest.starts_with(ends)
    };
    line.is_empty()
        || line.trim_end_matches(' ') == "OBSERVATION:"
        || BEGINNINGS.iter().any(|it| line.starts_with(it))
        || numbered(line.trim_start(), &[':', '\t'])
        || line
            .strip_prefix("Line ")
            .is_some_and(|rest| numbered(rest, &[':']))
}

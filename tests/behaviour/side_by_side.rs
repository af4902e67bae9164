//! Compares the binary with recordings of the real mini-swe-agent in `tests/side-by-side`: the same
//! configs and replies must give the same requests and trajectories.
//!
//! A recording holds what the program was given (arguments, variables, files, the server's replies) and
//! the result (requests, trajectory, exit code). Intended differences are listed in `differences.json`,
//! with their reasons; any other difference is a failure. `record.py` compares by the same rules.

mod batch;
pub(crate) mod compare;

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::thread;

use scripted_server::{After, Scenario, Server, Turn};
use serde_json::{Map, Value, json};

use self::compare::{Allowed, Difference, Places, differences, normal};
use crate::host::Host;

/// Recordings that need something that is not built yet, by name or by prefix (`anthropic_*`).
const NOT_YET: &[&str] = &[];

/// The path of the trajectory in every recording.
const TRAJECTORY: &str = "out.traj.json";

/// How many recordings are played at a time.
const AT_ONCE: usize = 4;

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/side-by-side")
}

fn read(path: &Path) -> Value {
    let text = fs::read(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    serde_json::from_slice(&text).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// The names in a folder, without what follows the first dot.
pub(crate) fn names(folder: &Path) -> BTreeSet<String> {
    let entries = fs::read_dir(folder).unwrap();
    entries
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .map(|name| name.split('.').next().unwrap_or_default().to_owned())
        .collect()
}

#[test]
fn every_scenario_is_recorded() {
    let recorded = names(&folder().join("recorded"));
    assert_eq!(names(&folder().join("scenarios")), recorded);
    assert!(recorded.len() >= 36);
    let inspected = names(&folder().join("inspected"));
    assert!(inspected.is_subset(&recorded) && inspected.len() >= 20);
    for pattern in NOT_YET {
        let is_meant = |name: &String| compare::is_named(pattern, name);
        assert!(
            recorded.iter().any(is_meant),
            "`{pattern}` of NOT_YET names no recording"
        );
    }
}

/// The last cell of every row of the tables under a heading, without the tables' first rows.
pub(crate) fn reasons<'a>(page: &'a str, heading: &str) -> BTreeSet<&'a str> {
    let section = page.split_once(heading).map_or("", |(_, rest)| rest);
    let section = section.split("\n## ").next().unwrap_or_default();
    section
        .lines()
        .filter_map(|line| line.strip_prefix('|')?.strip_suffix('|'))
        .filter(|row| !row.starts_with("---"))
        .map(|row| row.rsplit(" | ").next().unwrap_or_default().trim())
        .filter(|reason| *reason != "why")
        .collect()
}

/// The reasons of a list of differences.
pub(crate) fn listed(list: &Value) -> BTreeSet<&str> {
    let entries = list.as_array().unwrap().iter();
    entries
        .map(|entry| entry["why"].as_str().unwrap())
        .collect()
}

/// DIFFERENCES.md has exactly the reasons that are in `differences.json` and `jinja-excluded.txt`.
#[test]
fn differences_are_documented() {
    let page = fs::read_to_string(folder().join("../../DIFFERENCES.md")).unwrap();
    let list = read(&folder().join("differences.json"));
    assert_eq!(reasons(&page, "\n## Seen side by side\n"), listed(&list));

    let waiting = page.split_once("\n## Not played yet\n");
    assert_eq!(waiting.is_some(), !NOT_YET.is_empty());
    for pattern in NOT_YET {
        let (_, section) = waiting.unwrap();
        assert!(section.contains(&format!("| `{pattern}` |")), "{pattern}");
    }

    let excluded = fs::read_to_string(folder().join("../corpora/jinja-excluded.txt")).unwrap();
    // In a table, a bar has to be escaped.
    let excluded = excluded.replace('|', "\\|");
    let templates = page.split_once("\n## Templates\n").unwrap().1;
    let told: BTreeSet<&str> = templates
        .lines()
        .filter_map(|line| line.strip_prefix("| ")?.split(" | ").next())
        .filter(|cell| *cell != "what")
        .collect();
    let excluded: BTreeSet<&str> = excluded
        .lines()
        .filter_map(|line| line.strip_prefix("= "))
        .collect();
    assert_eq!(told, excluded);
}

#[test]
fn recordings_of_mini_swe_agent_are_matched() {
    let allowed = Allowed::read(&folder().join("differences.json"));
    let mut names: Vec<String> = names(&folder().join("recorded")).into_iter().collect();
    names.retain(|name| {
        !NOT_YET
            .iter()
            .any(|pattern| compare::is_named(pattern, name))
    });
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
    let mut failures = failures
        .into_inner()
        .unwrap_or_else(PoisonError::into_inner);
    failures.sort();
    assert!(
        failures.is_empty(),
        "{} recordings are not matched:\n{}",
        failures.len(),
        failures.concat()
    );
}

pub(crate) fn next(names: &Mutex<Vec<String>>) -> Option<String> {
    lock(names).pop()
}

pub(crate) fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Plays a recording; returns a report of the differences that are not allowed, if there are any.
fn differing(name: &str, allowed: &Allowed) -> Option<String> {
    let recording = read(&folder().join("recorded").join(format!("{name}.json")));
    let (got, printed) = play(&recording["given"]);
    let found = unlisted(name, &recording["result"], &got, allowed);
    let unlike = unlike_inspected(name, &got["trajectory"]);
    if found.is_none() && unlike.is_none() {
        return None;
    }
    let mut report = format!("\n== {name}\n{}", unlike.unwrap_or_default());
    report.push_str(&found.unwrap_or_default());
    writeln!(report, "   last printed: {printed}").unwrap();
    Some(report)
}

/// The first differences that are not on the list, if there are any.
fn unlisted(name: &str, mini: &Value, ours: &Value, allowed: &Allowed) -> Option<String> {
    let mut found = differences(mini, ours);
    found.retain(|difference| !allowed.lists(name, difference));
    let mut report = String::new();
    for Difference { path, mini, ours } in found.iter().take(12) {
        let (mini, ours) = (shown(mini.as_ref()), shown(ours.as_ref()));
        let path = compare::pointer(path);
        writeln!(report, "   {path}\n      mini: {mini}\n      ours: {ours}").unwrap();
    }
    if found.len() > 12 {
        writeln!(report, "   and {} more", found.len() - 12).unwrap();
    }
    (!found.is_empty()).then_some(report)
}

/// The keys of a message that mini-swe-agent's inspector reads.
const READ: [&str; 6] = [
    "role",
    "type",
    "content",
    "tool_calls",
    "output",
    "reasoning_content",
];

/// The first difference between what the inspector would read of a trajectory, and what it has read of the
/// one that `inspect_ours.py` has opened.
fn unlike_inspected(name: &str, trajectory: &Value) -> Option<String> {
    let path = folder().join("inspected").join(format!("{name}.json"));
    if !path.exists() {
        return None;
    }
    let messages = trajectory["messages"].as_array().into_iter().flatten();
    let reads = messages.map(|message| {
        let mut out = Map::new();
        for key in READ {
            if let Some(value) = message.get(key) {
                out.insert(key.to_owned(), value.clone());
            }
        }
        let actions = message.pointer("/extra/actions").and_then(Value::as_array);
        let acts = actions.is_some_and(|actions| !actions.is_empty());
        out.insert("acts".to_owned(), acts.into());
        Value::Object(out)
    });
    let (inspected, reads) = (read(&path), reads.collect::<Value>());
    let found = differences(&inspected["reads"], &reads);
    let differs = found.into_iter().next()?;
    let (was, is) = (shown(differs.mini.as_ref()), shown(differs.ours.as_ref()));
    let pointer = compare::pointer(&differs.path);
    Some(format!(
        "   not as inspected: {pointer}\n      then: {was}\n      now: {is}\n"
    ))
}

pub(crate) fn shown(value: Option<&Value>) -> String {
    let Some(value) = value else {
        return "(nothing)".to_owned();
    };
    let text = value.to_string();
    match text.char_indices().nth(300) {
        Some((end, _)) => format!("{}...", &text[..end]),
        None => text,
    }
}

/// Runs the binary with what a recording was given. Returns the result in the form of a recording, and the
/// last line of standard error.
fn play(given: &Value) -> (Value, String) {
    // mini-swe-agent's clock was this many times as fast, so the server's delays are divided by it.
    let clock = given["clock"].as_u64().unwrap_or(1);
    let server = Server::start(scenario(&given["replies"], clock));
    let (host, places) = given_to(Host::new(), given, &server);
    let run = host.run();
    let printed = run.stderr.trim().lines().last().unwrap_or_default();
    let trajectory = fs::read(run.dir.join(TRAJECTORY)).ok();
    let result = json!({
        "exit": run.status,
        "stderr": if run.status == 0 { "" } else { printed },
        "requests": requests(&server),
        "trajectory": trajectory.map(|text| serde_json::from_slice::<Value>(&text).unwrap()),
    });
    (normal(result, &places), printed.to_owned())
}

/// A call with the arguments, variables and files of a recording.
fn given_to(host: Host, given: &Value, server: &Server) -> (Host, Places) {
    let places = Places {
        address: server.address().to_string(),
        work: host.dir(),
        home: host.home(),
    };
    let text = |value: &Value| places.fill(value.as_str().unwrap());
    let mut host = host.args(given["args"].as_array().unwrap().iter().map(text));
    for (name, value) in given["env"].as_object().unwrap() {
        host = host.env(name, text(value));
    }
    for (name, content) in given["files"].as_object().unwrap() {
        host = host.file(name, text(content));
    }
    (host, places)
}

fn requests(server: &Server) -> Vec<Value> {
    server
        .requests()
        .iter()
        .map(|request| {
            let headers: Map<String, Value> = request
                .headers
                .iter()
                .map(|(name, value)| (name.clone(), value.as_str().into()))
                .collect();
            json!({
                "method": request.method,
                "path": request.path,
                "headers": headers,
                "body": request.json(),
            })
        })
        .collect()
}

/// The replies in order. A further request gets status 404, after which no program tries again.
pub(crate) fn scenario(replies: &Value, clock: u64) -> Scenario {
    let millis = |reply: &Value, key: &str| reply[key].as_u64().unwrap_or(0) / clock;
    let mut turns: Vec<Turn> = replies
        .as_array()
        .unwrap()
        .iter()
        .map(|reply| Turn {
            status: Some(u16::try_from(reply["status"].as_u64().unwrap()).unwrap()),
            headers: reply["headers"].as_object().unwrap().clone(),
            body: Some(reply["body"].clone()),
            delay_ms: millis(reply, "delay_ms"),
            away_ms: millis(reply, "away_ms"),
            ..Turn::default()
        })
        .collect();
    turns.push(Turn::status(404).with_body(json!({
        "error": {"message": "scenario exhausted", "type": "invalid_request_error"},
    })));
    Scenario::new(turns).then(After::Repeat).on_any_route()
}

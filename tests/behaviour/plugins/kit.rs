//! The conformance kit on real components: it finds a planted breach of every law, limits of time and
//! memory end hostile plugins, and every first-party plugin passes it.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Mutex;
use std::thread;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::guests::{faulty, hostile};
use crate::host::Host;
use crate::run::Run;

/// A kind (or `plugin`, for laws of all kinds) and the name of a law.
type Place = (String, String);
/// Laws of several kinds.
type Places = &'static [(&'static str, &'static [&'static str])];

/// Planted faults, and exactly the laws that the kit must find broken.
const PLANTED: &[(&[&str], Places)] = &[
    (
        &["counts"],
        &[
            ("model-adapter", &["disposable", "coherent"]),
            ("action-parser", &["deterministic", "disposable"]),
            ("observation-formatter", &["deterministic", "disposable"]),
            ("history-processor", &["disposable", "coherent"]),
            (
                "action-policy",
                &["deterministic", "disposable", "judgement"],
            ),
        ],
    ),
    (
        &["remembers"],
        &[
            ("model-adapter", &["coherent"]),
            ("action-parser", &["disposable"]),
            ("observation-formatter", &["disposable"]),
            ("history-processor", &["coherent"]),
            ("action-policy", &["disposable", "judgement"]),
        ],
    ),
    (
        &["cramped"],
        &[
            ("plugin", &["total"]),
            ("model-adapter", &["total"]),
            ("action-parser", &["total"]),
            ("observation-formatter", &["total"]),
            ("history-processor", &["total"]),
            ("action-policy", &["total"]),
        ],
    ),
    (
        &["unpairs", "strays", "lax"],
        &[
            ("plugin", &["schema"]),
            ("model-adapter", &["requests"]),
            ("action-parser", &["paired"]),
            ("observation-formatter", &["paired"]),
            ("history-processor", &["paired"]),
            ("action-policy", &["judgement"]),
        ],
    ),
    (
        &[
            "forgets-extra",
            "nags",
            "decodes-pieces",
            "tells-config",
            "keeps-wrong",
        ],
        &[
            ("plugin", &["deterministic"]),
            ("model-adapter", &["any-cut", "pieces"]),
            ("history-processor", &["extra-kept", "asking"]),
        ],
    ),
    (
        &["overreaches", "stale", "refuses"],
        &[
            ("plugin", &["schema"]),
            ("model-adapter", &["starts-over"]),
            ("history-processor", &["coherent"]),
        ],
    ),
];

/// Laws that no component can break: they compare two instances with the same calls, and the host gives
/// both the same clock and the same random numbers.
const UNBREAKABLE: [(&str, &str); 2] = [
    ("model-adapter", "deterministic"),
    ("history-processor", "deterministic"),
];

fn check(plugin: impl AsRef<Path>) -> Host {
    // A loaded machine needs much longer than usual.
    Host::new()
        .args(["plugin", "check", "--quick"])
        .arg(plugin.as_ref())
        .timeout(Duration::from_secs(300))
}

fn planted(faults: &[&str]) -> Host {
    check(faulty())
        .arg("-c")
        .arg(json!({ "faults": faults }).to_string())
}

fn laws(run: &Run) -> Vec<Value> {
    let report: Value = serde_json::from_str(&run.stdout)
        .unwrap_or_else(|error| panic!("the report is no JSON: {error}\n{run}"));
    report["laws"].as_array().unwrap().clone()
}

fn place(law: &Value) -> Place {
    let kind = law["kind"].as_str().unwrap_or("plugin");
    (kind.to_owned(), law["law"].as_str().unwrap().to_owned())
}

/// The broken laws of a report in JSON.
fn broken(run: &Run) -> BTreeSet<Place> {
    let laws = laws(run);
    let failed = laws.iter().filter(|law| law["outcome"] == "failed");
    failed.map(place).collect()
}

fn places(found: &[(&str, &[&str])]) -> BTreeSet<Place> {
    let place = |kind: &str, law: &str| (kind.to_owned(), law.to_owned());
    found
        .iter()
        .flat_map(|(kind, laws)| laws.iter().map(|law| place(kind, law)))
        .collect()
}

/// Examines the items in parallel, one per core, and fails with the messages of all that failed.
fn each<T: Send>(items: impl IntoIterator<Item = T>, examine: impl Fn(T) -> Option<String> + Sync) {
    let queue: Mutex<Vec<T>> = Mutex::new(items.into_iter().collect());
    let wrong = Mutex::new(Vec::new());
    let next = || queue.lock().unwrap().pop();
    thread::scope(|scope| {
        for _ in 0..thread::available_parallelism().map_or(1, usize::from) {
            scope.spawn(|| {
                while let Some(item) = next() {
                    wrong.lock().unwrap().extend(examine(item));
                }
            });
        }
    });
    let wrong = wrong.into_inner().unwrap();
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn without_faults_all_laws_pass_and_every_law_has_a_planted_fault() {
    let run = planted(&[]).arg("--json").run().expect(0);
    let laws = laws(&run);
    for law in &laws {
        assert_eq!(law["outcome"], "passed", "{law}");
    }
    // A new law needs a fault in `PLANTED`.
    let mut known = BTreeSet::new();
    for (_, found) in PLANTED {
        known.extend(places(found));
    }
    known.extend(places(
        &UNBREAKABLE.map(|(kind, _)| (kind, &["deterministic"][..])),
    ));
    assert_eq!(known, laws.iter().map(place).collect());
}

#[test]
fn exactly_the_planted_faults_are_found() {
    faulty();
    each(PLANTED, |(faults, found)| {
        let run = planted(faults).arg("--json").run();
        let (came, expected) = (broken(&run), places(found));
        let good = run.status == 7 && came == expected;
        (!good).then(|| format!("{faults:?}: {came:?} instead of {expected:?}\n{run}"))
    });
}

#[test]
fn a_finding_shows_the_input_the_result_and_the_remedy() {
    let run = planted(&["strays"]).run().expect(7);
    let lines: Vec<&str> = run.stdout.lines().collect();
    let parts = [
        "plugin `faulty` 0.1.0",
        "model-adapter",
        "  FAIL requests       requests go only where they are declared to go",
        "1. model-adapter, law `requests`: a request",
        r#"   config    {"faults":["strays"]}"#,
        r#"   input     {"queries":[{"start":0,"messages":["#,
        "   expected  a URL of a host that the descriptor declares in `hosts` or the config names",
        "   came      `https://elsewhere.example/v1/chat/completions`",
        "   to do     build absolute http(s) URLs, and declare every secret and host",
        "failed: 1 of 30 laws is broken",
    ];
    // In this order.
    let mut rest = lines.iter();
    for part in parts {
        assert!(
            rest.any(|line| line.starts_with(part)),
            "`{part}` is not where it should be\n{run}"
        );
    }
    assert_eq!(lines.last(), Some(&parts[parts.len() - 1]), "{run}");
}

#[test]
fn hostile_guests_are_contained_and_named() {
    hostile();
    // The config, the law that must be broken, and a part of the finding.
    let table = [
        (
            json!({"at": "configure", "do": "loop"}),
            ("plugin", "schema"),
            "failed in `configure`: it was still running after",
        ),
        (
            json!({"at": "apply", "do": "ask", "size": 1_000_000_000}),
            ("history-processor", "asking"),
            "one more",
        ),
        // This guest logs until its deadline.
        (
            json!({"at": "parse", "do": "flood-on"}),
            ("action-parser", "total"),
            "failed in `parse`: it was still running after",
        ),
    ];
    each(table, |(config, (kind, law), came)| {
        let since = Instant::now();
        let run = check(hostile())
            .args(["--json", "-c", &config.to_string()])
            .run();
        let took = since.elapsed();
        let place = place(&json!({"kind": kind, "law": law}));
        let told = laws(&run).into_iter().any(|law| {
            let findings = law["findings"].as_array();
            let mut findings = findings.into_iter().flatten();
            self::place(&law) == place
                && findings.any(|found| found["came"].as_str().unwrap().contains(came))
        });
        // The log is bounded.
        let good = run.status == 7
            && told
            && run.stderr.len() < 4 << 20
            && took < Duration::from_secs(120);
        (!good).then(|| format!("{config}, after {took:?}:\n{run}"))
    });
}

#[test]
fn every_first_party_plugin_passes() {
    let run = Host::new()
        .args(["plugin", "list", "--json"])
        .run()
        .expect(0);
    let plugins: Vec<Value> = serde_json::from_str(&run.stdout).unwrap();
    assert!(plugins.len() >= 12, "{run}");
    let names = plugins
        .iter()
        .map(|plugin| plugin["name"].as_str().unwrap());
    each(names, |name| {
        let run = check(name).run();
        (run.status != 0).then(|| format!("`{name}` breaks laws\n{run}"))
    });
}

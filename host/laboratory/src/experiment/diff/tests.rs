mod processors;

use std::collections::HashSet;
use std::sync::Mutex;
use std::thread::ThreadId;
use std::time::Duration;

use serde_json::json;

use super::super::answer::Degree;
use super::super::recorded::RecordedQuestion;
use super::super::testing::{self, maker};
use super::*;
use mswea_core::{
    AdapterNext, ConfiguredRole, ErrorClass, HttpRequest, Manner, Message, ModelError, Outcome,
    PluginFault, Problem, Verdict,
};
use mswea_record::journal::JournalFile;
use processors::last;

/// Runs with this many steps each.
fn runs(lengths: &[u32]) -> RecordedRuns {
    let folder = tempfile::tempdir().unwrap();
    for (index, steps) in lengths.iter().enumerate() {
        let path = folder.path().join(format!("{index:03}.events.jsonl"));
        let journal = JournalFile::create(path).unwrap();
        testing::record_run(&journal, &format!("run-{index}"), *steps, 50);
    }
    RecordedRuns::load(&[folder.path().to_path_buf()]).unwrap()
}

fn compare(
    old: impl Fn() -> ConfiguredRole + Send + Sync + 'static,
    new: impl Fn() -> ConfiguredRole + Send + Sync + 'static,
    kind: RoleKind,
    runs: &RecordedRuns,
    options: &DiffOptions,
) -> Result<Comparison, DiffError> {
    let (old, new) = (maker("the-old", old), maker("the-new", new));
    diff(old, new, &json!({}), &json!({"a": 1}), kind, runs, options)
}

#[test]
fn parsers_in_every_degree() {
    let runs = runs(&[9, 3]);
    let number = |reply: &mswea_core::Reply| -> u32 {
        let text = &reply.message.tool_calls[0].arguments;
        text.trim_start_matches("step ").parse().unwrap()
    };
    let malformed = |message: &str| {
        Ok(Outcome::Malformed(Problem {
            code: "c".into(),
            message: message.into(),
            ..Problem::default()
        }))
    };
    let old = move || {
        testing::parser(move |reply| match number(&reply) {
            2 => malformed("one"),
            5 => Err(PluginFault::new("old broke").in_manner(Manner::Crashed)),
            _ => Ok(testing::plain_parse(&reply)),
        })
    };
    let new = move || {
        testing::parser(move |reply| match number(&reply) {
            2 => malformed("two"),
            3 => malformed("one"),
            4 | 5 => Err(PluginFault::new("new gave up")),
            _ => Ok(testing::plain_parse(&reply)),
        })
    };
    let found = compare(
        old,
        new,
        RoleKind::ActionParser,
        &runs,
        &DiffOptions::default(),
    )
    .unwrap();
    let count = Degree::ALL.map(|degree| found.counts.of(degree));
    assert_eq!(count, [6, 2, 2, 1, 1]);
    assert_eq!((found.counts.agreeing(), found.counts.compared()), (8, 12));
    let places: Vec<(&str, u32, Degree)> = found
        .cases
        .iter()
        .map(|case| (case.run.as_str(), case.step, case.degree))
        .collect();
    let (a, b) = ("000.events.jsonl", "001.events.jsonl");
    assert_eq!(
        places,
        [
            (a, 2, Degree::Wording),
            (a, 3, Degree::Different),
            (a, 4, Degree::OneFailed),
            (a, 5, Degree::BothFailed),
            (b, 2, Degree::Wording),
            (b, 3, Degree::Different)
        ]
    );
    assert_eq!(
        found.cases[2].new,
        json!({"failed": "reported", "message": "new gave up"})
    );
    assert_eq!(found.cases[3].old["failed"], "crashed");
    assert_eq!(found.cases[1].old["actions"][0]["command"], "step 3");
    assert!(found.cases[0].input.to_string().contains("step 2"));
    // Compared with the run: the old plugin differs in steps 2 and 5, the new one in 2 to 5.
    assert_eq!(
        (found.recorded, found.old.as_recorded, found.new.as_recorded),
        (12, 9, 6)
    );
    assert_eq!((found.old.latency.calls, found.new.latency.calls), (12, 12));
    assert_eq!(
        (found.new.name.as_str(), &found.new.config),
        ("the-new", &json!({"a": 1}))
    );
    assert_eq!(found.by_step[&2].of(Degree::Wording), 2);
    let all: u64 = found.by_step.values().map(|it| it.compared()).sum();
    assert_eq!(all, 12);
    let shown = found.to_json();
    assert_eq!(shown["counts"]["wording"], 2);
    assert_eq!(shown["disagreements"].as_array().unwrap().len(), 6);
    assert_eq!(shown["old"]["latency"]["calls"], 12);
    assert!(found.to_html().contains("one failed"));
}

#[test]
fn formatters_and_what_was_recorded() {
    let mut runs = runs(&[4]);
    runs.runs[0].steps[3].outputs.clear();
    let old = || testing::formatter(|output| output.output.clone());
    let new = || {
        testing::formatter(|output| match output.output.starts_with("out 2") {
            true => "other".to_owned(),
            false => output.output.clone(),
        })
    };
    let found = compare(
        old,
        new,
        RoleKind::ObservationFormatter,
        &runs,
        &DiffOptions::default(),
    )
    .unwrap();
    assert_eq!(
        (found.counts.compared(), found.counts.of(Degree::Different)),
        (3, 1)
    );
    assert_eq!(
        (found.recorded, found.old.as_recorded, found.new.as_recorded),
        (3, 3, 2)
    );
    assert_eq!(
        found.not_compared["a step whose outputs are not recorded"],
        1
    );
    assert_eq!(found.cases[0].new["messages"][0]["content"], "other");
}

#[test]
fn policies_action_by_action() {
    let mut runs = runs(&[3]);
    let steps = &mut runs.runs[0].steps;
    // Two actions in a step, the second of which was denied.
    if let Some(Outcome::Actions(actions)) = &mut steps[1].outcome {
        let mut second = actions[0].clone();
        second.command = "rm".into();
        actions.push(second);
    }
    let denied = RecordedVerdict::Denied {
        policy: "guard".into(),
        reason: "no rm".into(),
    };
    steps[1].verdicts.push((1, denied));
    let guard = |text: &'static str| {
        move || {
            testing::policy(move |action| {
                Ok(match action.command.as_str() {
                    "rm" => Verdict::Deny(text.to_owned()),
                    _ => Verdict::Allow,
                })
            })
        }
    };
    let found = compare(
        guard("no rm"),
        guard("never"),
        RoleKind::ActionPolicy,
        &runs,
        &DiffOptions::default(),
    )
    .unwrap();
    assert_eq!(
        (found.counts.compared(), found.counts.of(Degree::Different)),
        (4, 1)
    );
    assert_eq!((found.cases[0].step, found.cases[0].index), (2, Some(1)));
    assert_eq!(
        (found.recorded, found.old.as_recorded, found.new.as_recorded),
        (4, 4, 3)
    );
}

#[test]
fn requests_of_adapters() {
    let runs = runs(&[4]);
    let send = |key: &'static str, fails: usize| {
        move || {
            testing::adapter(move |view| {
                if view.len() == fails {
                    return Err(ModelError::new(ErrorClass::BadRequest, "no"));
                }
                Ok(AdapterNext::Send(HttpRequest {
                    method: "POST".into(),
                    url: "https://h/v1".into(),
                    headers: Vec::new(),
                    body: json!({"n": view.len(), key: 1})
                        .to_string()
                        .into_bytes()
                        .into(),
                }))
            })
        }
    };
    let kind = RoleKind::ModelAdapter;
    let found = compare(
        send("k", 0),
        send("k", 4),
        kind,
        &runs,
        &DiffOptions::default(),
    )
    .unwrap();
    // After a failure it gets the whole history.
    assert_eq!(
        (
            found.counts.of(Degree::Same),
            found.counts.of(Degree::OneFailed)
        ),
        (3, 1)
    );
    let found = compare(
        send("k", 4),
        send("k", 0),
        kind,
        &runs,
        &DiffOptions::default(),
    )
    .unwrap();
    assert_eq!(found.counts.of(Degree::Same), 3);
    let found = compare(
        send("k", 0),
        send("l", 0),
        kind,
        &runs,
        &DiffOptions::default(),
    )
    .unwrap();
    assert_eq!(found.counts.of(Degree::Different), 4);
    assert_eq!(
        (&found.cases[3].old, &found.cases[3].new),
        (&json!({"/body/k": 1}), &json!({"/body/l": 1}))
    );
}

#[test]
fn the_order_is_stable_and_both_cores_work() {
    let runs = runs(&[40, 1, 90, 7, 300, 33]);
    let threads = Arc::new(Mutex::new(HashSet::<ThreadId>::new()));
    let used = threads.clone();
    let old = move || {
        let used = used.clone();
        testing::parser(move |reply| {
            used.lock().unwrap().insert(std::thread::current().id());
            std::thread::sleep(Duration::from_micros(20));
            Ok(testing::plain_parse(&reply))
        })
    };
    let new = || {
        testing::parser(|reply| match reply.message.text().contains('7') {
            true => Err(PluginFault::new("7")),
            false => Ok(testing::plain_parse(&reply)),
        })
    };
    let find = |threads, keep| {
        let options = DiffOptions {
            threads,
            keep,
            ..DiffOptions::default()
        };
        compare(old.clone(), new, RoleKind::ActionParser, &runs, &options).unwrap()
    };
    let one = find(1, 2_000);
    assert_eq!(threads.lock().unwrap().len(), 1);
    threads.lock().unwrap().clear();
    let two = find(2, 2_000);
    assert_eq!(threads.lock().unwrap().len(), 2);
    for many in [two, find(7, 2_000)] {
        assert_eq!(many.counts, one.counts);
        assert_eq!(many.by_step, one.by_step);
        assert_eq!(many.cases, one.cases);
    }
    assert_eq!(one.cases.len(), one.counts.of(Degree::OneFailed) as usize);
    // With a limit the first ones are kept, whichever thread was faster.
    for threads in [1, 2, 7] {
        let few = find(threads, 5);
        assert_eq!(few.cases, one.cases[..5]);
        assert_eq!(few.cases_left_out as usize, one.cases.len() - 5);
    }
}

#[test]
fn what_can_not_be_compared_is_an_error() {
    let some = runs(&[2]);
    let refuses = testing::fallible("picky", |_| {
        Err(Refused::Config {
            pointer: "/a".into(),
            detail: "`a` must be a number".into(),
            by_plugin: false,
        })
    });
    let old = maker("fine", testing::plain_parser);
    let error = diff(
        old,
        refuses,
        &json!({}),
        &json!({}),
        RoleKind::ActionParser,
        &some,
        &DiffOptions::default(),
    )
    .unwrap_err();
    assert_eq!(
        error.to_string(),
        "the new plugin `picky` can't be compared: `a` must be a number; give the config with `-c`, `--old-config` or `--new-config`"
    );
    // A run whose only query has no reply contains nothing for a parser.
    let empty = RecordedRuns {
        runs: vec![Run {
            name: "r".into(),
            steps: vec![Step::default()],
            ..Run::default()
        }],
        warnings: Vec::new(),
    };
    let error = compare(
        testing::plain_parser,
        testing::plain_parser,
        RoleKind::ActionParser,
        &empty,
        &DiffOptions::default(),
    )
    .unwrap_err()
    .to_string();
    assert!(
        error.contains("nothing to compare for the kind `action-parser`")
            && error.contains("a query without a reply (1 time)"),
        "{error}"
    );
}

#[test]
fn parsers_with_other_tools_are_pointed_out() {
    let runs = runs(&[2]);
    let bash = || testing::parser_with_tool("bash");
    let kind = RoleKind::ActionParser;
    let options = DiffOptions::default();
    let found = compare(bash, bash, kind, &runs, &options).unwrap();
    assert_eq!(found.warnings, Vec::<String>::new());
    let found = compare(bash, testing::plain_parser, kind, &runs, &options).unwrap();
    assert!(
        found.warnings[0].contains("other tools (none instead of `bash`)"),
        "{:?}",
        found.warnings
    );
    let described = || testing::parser_with("bash", "runs a command", json!({}));
    let found = compare(bash, described, kind, &runs, &options).unwrap();
    assert!(
        found.warnings[0].contains("(`bash` as well, but with other description)"),
        "{:?}",
        found.warnings
    );
    let both = || testing::parser_with("bash", "runs", json!({ "type": "object" }));
    let found = compare(bash, both, kind, &runs, &options).unwrap();
    assert!(
        found.warnings[0].contains("other description and parameters)"),
        "{:?}",
        found.warnings
    );
}

#[test]
fn a_change_of_what_was_equal_is_seen() {
    let runs = runs(&[5]);
    let rewrites = || {
        testing::processor(|mut input| {
            if input.len() == 6 {
                input[0] = Message::new("system", "Be bad.");
            }
            Ok(input)
        })
    };
    let kind = RoleKind::HistoryProcessor;
    let found = compare(last(100), rewrites, kind, &runs, &DiffOptions::default()).unwrap();
    let steps: Vec<u32> = found.cases.iter().map(|case| case.step).collect();
    assert_eq!((steps, found.counts.of(Degree::Same)), (vec![3], 4));
}

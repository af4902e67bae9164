//! Tests of the loop with fake roles: the ends of a run, its account, and its history.

mod asking;
mod boundaries;
mod confirmed;
mod endings;
mod fakes;
mod histories;
mod images;
mod lost;
mod person;
mod requeries;

use std::collections::VecDeque;
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use serde_json::Value;

use super::*;
use crate::history::Chain;
use crate::state::fold;
use mswea_core::{
    Action, Answer, Change, Command, Context, End, EnvironmentReady, ErrorClass, Event, Executor,
    ExecutorError, Formatter, Front, Journal, MARK, Message, Model, ModelError, ModelFailure,
    Nobody, Object, Outcome, Output, Parser, Person, PluginFault, Policy, Pricing, Problem,
    Progress, Question, Reply, Stop, StopSource, Tool, ToolCall, Usage, Verdict,
};
use mswea_record::journal::MemoryJournal;

use fakes::{Asking, Broken, Calls, Echo, Guard, OneDollar, Plain, Script, Silent};

struct Ran {
    ended: Ended,
    journal: Arc<MemoryJournal>,
    commands: Vec<String>,
    views: Vec<Change>,
}

impl Ran {
    /// `role` or `role:text` of every message, `tool(id)` for results.
    fn shape(&self) -> Vec<String> {
        self.ended
            .state
            .messages
            .iter()
            .map(|message| match &message.tool_call_id {
                Some(id) => format!("tool({id})"),
                None => message.role.clone(),
            })
            .collect()
    }
}

async fn run_with(replies: &[&str], limits: RunLimits, formatter: Box<dyn Formatter>) -> Ran {
    run_beside(replies, limits, formatter, Arc::default()).await
}

async fn run_beside(
    replies: &[&str],
    limits: RunLimits,
    formatter: Box<dyn Formatter>,
    global: Arc<GlobalAccount>,
) -> Ran {
    run_changed(replies, limits, |parts| {
        parts.formatter = formatter;
        parts.global = global;
    })
    .await
}

async fn run_changed(replies: &[&str], limits: RunLimits, change: impl FnOnce(&mut Parts)) -> Ran {
    let journal = Arc::new(MemoryJournal::default());
    let mut ran = run_in(replies, limits, change, Arc::new(Silent), journal.clone()).await;
    ran.journal = journal;
    ran
}

fn settings(limits: RunLimits) -> RunSettings {
    RunSettings {
        limits,
        action_timeout: Duration::from_secs(5),
        salvage_command: Some("salvage".into()),
        salvage_is_explicit: true,
        salvage_timeout: Duration::from_secs(5),
        ..RunSettings::default()
    }
}

fn parts(replies: &[String], ran: Arc<Mutex<Vec<String>>>, stop: Option<StopSource>) -> Parts {
    let variables = Arc::new(Variables::new(
        Arc::new(mswea_plugin_host::templates(None)),
        Object::new(),
        Value::clone,
    ));
    Parts {
        model: Box::new(Script {
            replies: replies.to_vec().into(),
            views: Arc::default(),
        }),
        parser: Box::new(Calls),
        formatter: Box::new(Plain),
        history: Chain::default(),
        policies: vec![Box::new(Guard)],
        executor: Box::new(Echo {
            ran,
            stop,
            is_replaced: false,
        }),
        pricing: Arc::new(OneDollar),
        global: Arc::default(),
        prompts: Prompts {
            demonstrations: Vec::new(),
            system: "system".into(),
            instance: "task".into(),
            strategy: None,
            format_error: "{{error}}".into(),
            syntax_error: "{{bash_stderr}}".into(),
            trials: Vec::new(),
            variables,
        },
        person: Arc::new(Nobody),
        multimodal: None,
        onlookers: Vec::new(),
    }
}

async fn run_in(
    replies: &[&str],
    limits: RunLimits,
    change: impl FnOnce(&mut Parts),
    front: Arc<dyn Front>,
    journal: Arc<dyn Journal>,
) -> Ran {
    let (source, stop) = StopSource::new();
    let ran = Arc::new(Mutex::new(Vec::new()));
    let replies: Vec<String> = replies.iter().map(|&reply| reply.to_owned()).collect();
    let views = Arc::new(Mutex::new(Vec::new()));
    let mut parts = parts(&replies, ran.clone(), Some(source));
    parts.model = Box::new(Script {
        replies: replies.into(),
        views: views.clone(),
    });
    change(&mut parts);
    let settings = settings(limits);
    let context = Context::new(front, journal, stop);
    let ended = Agent::new(parts, settings, context, State::default())
        .run()
        .await;
    let commands = ran.lock().unwrap().clone();
    let views = views.lock().unwrap().clone();
    Ran {
        ended,
        journal: Arc::default(),
        commands,
        views,
    }
}

async fn run(replies: &[&str]) -> Ran {
    let limits = RunLimits {
        consecutive_format_errors: 3,
        ..RunLimits::default()
    };
    run_with(replies, limits, Box::new(Plain)).await
}

#[tokio::test]
async fn agents_of_a_process_share_its_limits() {
    let global = Arc::new(GlobalAccount::new(GlobalLimits {
        cost: 0.0,
        calls: 3,
    }));
    for (status, queries, cost, commands) in [
        ("Submitted", 2, 2.0, 2),
        // The third reply is paid and not used, as in mini-swe-agent.
        ("RuntimeError", 1, 1.0, 0),
        ("RuntimeError", 0, 0.0, 0),
    ] {
        let replies = ["calls:ls", "calls:submit x"];
        let formatter = Box::new(Plain);
        let ran = run_beside(&replies, RunLimits::default(), formatter, global.clone()).await;
        assert_eq!(ran.ended.end.exit_status(), status);
        assert_eq!(ran.ended.account.queries, queries);
        assert_eq!(ran.ended.account.cost, cost);
        let done = ran.commands.iter();
        let done = done.filter(|command| !["salvage", "cleanup"].contains(&command.as_str()));
        assert_eq!(done.count(), commands, "{:?}", ran.commands);
    }
    assert_eq!(global.used(), (3.0, 3));
}

#[tokio::test]
async fn limits_end_the_run_before_the_next_query() {
    for (limits, status, queries) in [
        (
            RunLimits {
                steps: 2,
                ..RunLimits::default()
            },
            "LimitsExceeded",
            2,
        ),
        (
            RunLimits {
                cost: 2.5,
                ..RunLimits::default()
            },
            "LimitsExceeded",
            3,
        ),
        (
            RunLimits {
                cost: 2.0,
                ..RunLimits::default()
            },
            "LimitsExceeded",
            2,
        ),
    ] {
        let ran = run_with(
            &["calls:a", "text:b", "calls:c"],
            limits.clone(),
            Box::new(Plain),
        )
        .await;
        assert_eq!(ran.ended.end.exit_status(), status, "{limits:?}");
        assert_eq!(ran.ended.account.queries, queries, "{limits:?}");
    }
}

#[tokio::test]
async fn the_model_gets_changes_only() {
    let ran = run(&["calls:ls", "text:what", "calls:submit x"]).await;
    let starts: Vec<(usize, usize)> = ran
        .views
        .iter()
        .map(|change| (change.start, change.messages.len()))
        .collect();
    assert_eq!(starts, [(0, 2), (2, 2), (4, 1)]);
}

#[tokio::test]
async fn policies_deny_ask_rewrite_and_fail_closed() {
    let ran = run(&["calls:rm|ask|old|policy-fault", "calls:submit x"]).await;
    assert_eq!(ran.commands, ["new", "submit x", "salvage", "cleanup"]);
    let texts: Vec<String> = ran
        .ended
        .state
        .messages
        .iter()
        .filter(|message| message.role == "tool")
        .map(|message| message.text())
        .collect();
    assert!(
        texts[0].contains("action was not executed: not that"),
        "{texts:?}"
    );
    assert!(texts[1].contains("no user can be asked"), "{texts:?}");
    assert!(texts[3].contains("the policy `guard` failed"), "{texts:?}");
    let denied = ran
        .journal
        .records()
        .iter()
        .filter(|record| matches!(record.event, Event::Denied { .. }))
        .count();
    assert_eq!(denied, 3);
    let rewritten = ran
        .journal
        .records()
        .into_iter()
        .find_map(|record| match record.event {
            Event::Rewritten {
                policy,
                original,
                action,
                ..
            } => Some((policy, original.command, action.command)),
            _ => None,
        });
    assert_eq!(
        rewritten,
        Some(("guard".into(), "old".into(), "new".into()))
    );
}

#[tokio::test]
async fn a_broken_formatter_costs_nothing_but_its_format() {
    let ran = run_with(
        &["calls:ls", "calls:submit x"],
        RunLimits::default(),
        Box::new(Broken),
    )
    .await;
    assert_eq!(ran.ended.submission, "x");
    assert!(
        ran.ended.state.messages[3]
            .text()
            .contains("<output>\nls</output>")
    );
}

#[tokio::test]
async fn observations_carry_what_mini_keeps() {
    let ran = run(&["calls:ls", "calls:submit x"]).await;
    let keys: Vec<&str> = ran.ended.state.messages[3]
        .extra
        .keys()
        .map(String::as_str)
        .collect();
    assert_eq!(
        keys,
        ["raw_output", "returncode", "timestamp", "exception_info"]
    );
}

#[tokio::test]
async fn an_action_is_recorded_before_it_runs_and_a_reply_before_it_is_parsed() {
    let ran = run(&["calls:ls", "calls:submit x"]).await;
    let records = ran.journal.records();
    let kinds: Vec<String> = records
        .iter()
        .map(|record| serde_json::to_value(&record.event).unwrap())
        .map(|event| event["event"].as_str().unwrap().to_owned())
        .collect();
    let step = [
        "query_started",
        "reply",
        "accepted",
        "allowed",
        "action",
        "output",
    ];
    let mut expected = vec!["environment_ready", "set_up_done", "opening"];
    expected.extend(step);
    expected.push("observed");
    expected.extend(step);
    expected.extend(["submitted", "observed", "salvage_started", "salvaged"]);
    expected.push("run_ended");
    assert_eq!(kinds, expected);
}

#[tokio::test]
async fn half_a_submission_is_none() {
    let ran = run(&["calls:submit too much", "calls:submit less"]).await;
    assert_eq!(ran.ended.end.exit_status(), "Submitted");
    assert_eq!(ran.ended.submission, "less");
    let told = ran.ended.state.messages[3].text();
    assert!(
        told.contains("submission was too large: 1234 bytes"),
        "{told}"
    );
    assert!(!told.contains(MARK), "{told}");
}

/// A formatter whose template can't be rendered.
struct BadTemplate;

#[async_trait]
impl Formatter for BadTemplate {
    fn name(&self) -> &str {
        "bad-template"
    }
    async fn format(&mut self, _: &[Action], _: &[Output]) -> Result<Vec<Message>, PluginFault> {
        Err(PluginFault {
            template: Some("`nosuch` is undefined".into()),
            ..PluginFault::new("plugin `bad-template` failed")
        })
    }
}

#[tokio::test]
async fn a_submission_survives_an_observation_that_can_not_be_rendered() {
    for (replies, status, submission) in [
        (["calls:ls|submit x", "calls:never"], "Submitted", "x"),
        (["calls:ls", "calls:submit x"], "TemplateError", ""),
    ] {
        let ran = run_with(&replies, RunLimits::default(), Box::new(BadTemplate)).await;
        assert_eq!(ran.ended.end.exit_status(), status, "{replies:?}");
        assert_eq!(ran.ended.submission, submission);
    }
}

/// A journal that can't be written after the command has run.
#[derive(Default)]
struct FullDisk(Arc<MemoryJournal>);

impl Journal for FullDisk {
    fn record(&self, event: &Event) -> std::io::Result<f64> {
        match event {
            Event::Output { .. } => Err(std::io::ErrorKind::StorageFull.into()),
            event => self.0.record(event),
        }
    }
}

/// A front that stores the end.
#[derive(Default)]
struct LastWords(Mutex<(String, String)>);

impl Front for LastWords {
    fn show(&self, progress: &Progress<'_>) {
        if let Progress::Ended {
            end, submission, ..
        } = progress
        {
            *self.0.lock().unwrap() = (end.exit_status().to_owned(), (*submission).to_owned());
        }
    }
}

#[tokio::test]
async fn a_submission_is_shown_although_it_could_not_be_recorded() {
    let full = FullDisk::default();
    let journal = full.0.clone();
    let front = Arc::new(LastWords::default());
    let ran = run_in(
        &["calls:submit x"],
        RunLimits::default(),
        |_| {},
        front.clone(),
        Arc::new(full),
    )
    .await;
    let End::Journal { message } = &ran.ended.end else {
        panic!("{:?}", ran.ended.end)
    };
    // It had run: "nothing more was done" would be untrue.
    assert!(message.contains("the last command has run"), "{message}");
    let shown = front.0.lock().unwrap().clone();
    assert_eq!(shown, ("JournalError".to_owned(), "x".to_owned()));
    let state = fold(&journal.records());
    assert_eq!(state.ended.map(|end| end.submission), Some("x".to_owned()));
}

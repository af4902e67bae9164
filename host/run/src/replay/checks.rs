//! What of a record is contradicted by what it holds before that: the numbers of queries, and the end.

use serde_json::{Value, json};

use crate::agent::Agent;
use crate::rules::AgentRules;
use crate::state::{Phase, State};
use mswea_core::{End, Event, exit_message};
use mswea_record::journal::Record;

/// Sums of costs that differ less are the same.
const SAME_COST: f64 = 1e-9;

/// What a replay makes besides.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ReplayPlan {
    /// The model drafts the last request.
    pub drafts: bool,
    /// The first messages and the end are made anew, too: the record is a journal of this host, and its
    /// config is that of the agent. Otherwise they are copied.
    pub is_whole: bool,
}

/// A recorded value that does not follow from the events before it.
#[derive(Clone, Debug, PartialEq)]
pub struct Contradiction {
    /// The number of the event, which is that of its line.
    pub seq: u64,
    /// The event's kind.
    pub event: &'static str,
    /// The key of the value.
    pub key: &'static str,
    /// The recorded value.
    pub recorded: Value,
    /// What follows from the events before.
    pub expected: Value,
}

/// The first value of an event that `before`, the fold of the events before it, contradicts.
pub(super) fn contradiction(
    before: &State,
    rules: AgentRules,
    record: &Record,
) -> Option<Contradiction> {
    let (event, pairs) = match &record.event {
        Event::QueryStarted { query, .. } => {
            // A query whose samples have reached a limit goes on with the same number.
            let is_begun = before.phase == Phase::Querying;
            let due = before.account.queries + u32::from(!is_begun);
            ("query_started", vec![("query", json!(query), json!(due))])
        }
        Event::RunEnded { .. } => ("run_ended", end(before, rules, &record.event)),
        _ => return None,
    };
    let differs = |(_, recorded, expected): &(&str, Value, Value)| recorded != expected;
    let (key, recorded, expected) = pairs.into_iter().find(differs)?;
    Some(Contradiction {
        seq: record.seq,
        event,
        key,
        recorded,
        expected,
    })
}

/// The recorded values of an end, and those that follow from the state.
fn end(before: &State, rules: AgentRules, event: &Event) -> Vec<(&'static str, Value, Value)> {
    let Event::RunEnded {
        exit_status,
        submission,
        cost,
        queries,
        usage,
        extra,
        ..
    } = event
    else {
        return Vec::new();
    };
    let account = &before.account;
    let saved = before.end.as_ref().and_then(|end| rules.saved(before, end));
    let mut pairs = Vec::new();
    // A bug of the host, and a journal that could not be written, have ended the run without an event before.
    if !is_unannounced(rules, exit_status) {
        let end = before.end.as_ref();
        let status = end.map(|end| rules.exit_status(end, saved.is_some()));
        let message = end.and_then(End::error);
        let recorded = extra.get("message").cloned().unwrap_or_default();
        pairs.extend([
            ("exit_status", json!(exit_status), json!(status)),
            ("extra.message", recorded, json!(message)),
        ]);
    }
    let expected = saved.unwrap_or_else(|| before.submitted().to_owned());
    let known = account.known_cost();
    let is_same_cost = match (cost, known) {
        (Some(cost), Some(known)) => (cost - known).abs() <= SAME_COST * known.abs().max(1.0),
        (cost, known) => cost.is_none() && known.is_none(),
    };
    let known = if is_same_cost { *cost } else { known };
    pairs.extend([
        ("submission", json!(submission), json!(expected)),
        ("queries", json!(queries), json!(account.queries)),
        ("usage", json!(usage), json!(account.usage)),
        ("cost", json!(cost), json!(known)),
    ]);
    pairs
}

/// An end with the exit message that belongs to its values, if another one is recorded.
pub(super) fn with_exit(agent: &Agent, event: &Event) -> Event {
    let mut event = event.clone();
    if let Event::RunEnded {
        exit_status,
        submission,
        extra,
        message: Some(message),
        ..
    } = &mut event
    {
        let error = extra.get("message").and_then(Value::as_str);
        *message = exit_message(exit_status, submission, error);
        agent.find_images(message);
    }
    event
}

fn is_unannounced(rules: AgentRules, exit_status: &str) -> bool {
    let message = String::new();
    let ends = [
        End::Crashed {
            message: message.clone(),
        },
        End::Journal { message },
    ];
    ends.iter()
        .any(|end| end.exit_status() == exit_status || rules.exit_status(end, false) == exit_status)
}

//! The state of a run, which is computed from its events. [`State::apply`] is the only function
//! that changes it. It is used for a running run, for a journal that is read, and for a display
//! that follows a run.

mod answered;
mod apply;
mod failures;
mod question;
mod step;

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::Value;

use crate::answers::Answers;
use mswea_core::{End, Message, Object, Output, Parent, Reply};
use mswea_record::journal::Record;
use mswea_record::{Account, Ending};

pub use apply::accepted_message;
pub(crate) use failures::is_filtered;
pub use step::{Confirmation, OpenStep, Slot, Stage};

/// The state of a run.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct State {
    /// The run's id; empty before the first event.
    pub run_id: String,
    /// Version of the host that runs it.
    pub host_version: String,
    /// The task.
    pub task: String,
    /// The resolved config, secrets left out.
    pub config: Value,
    /// Name, kind, version, digest and grants of every plugin.
    pub plugins: Value,
    /// The run that this one is a fork of.
    pub parent: Option<Parent>,
    /// Unix seconds of the first event.
    pub started: Option<f64>,
    /// Unix seconds of the last event of the loop.
    pub last: Option<f64>,
    /// The tokens, the cost and the time that it has used.
    pub account: Account,
    /// The environment of its actions.
    pub environment: Environment,
    /// The history.
    pub messages: Vec<Arc<Message>>,
    /// Whether the first messages are in the history.
    pub is_opened: bool,
    /// The model's replies to history processors.
    pub answers: Answers,
    /// The part of a step that has begun and is not complete.
    pub phase: Phase,
    /// How often in a row the parser itself has failed.
    pub parser_faults: u32,
    /// The index in the history of a temporary question, which the next accepted reply replaces.
    pub question: Option<usize>,
    /// The number of messages at the beginning of the history that are unchanged since the last
    /// query.
    pub stable: usize,
    /// Commands in a row that have exceeded their time.
    pub timeouts: u32,
    /// Seconds of all commands so far.
    pub execution_seconds: f64,
    /// When the last command was begun, in Unix seconds.
    pub command_begun: f64,
    /// The last state of the tools.
    pub tool_state: Object,
    /// The submission of an output, accepted or not yet.
    pub submission: Option<String>,
    /// Whether the user has interrupted the step and was not asked yet what to do.
    pub is_interrupted: bool,
    /// The numbers by which the user has raised the limits.
    pub raised: Raised,
    /// Whether a command of the agent has begun.
    pub has_acted: bool,
    /// The output of the salvage command.
    pub salvage: Option<Output>,
    /// The stage of the salvage at this end.
    pub salvaging: Salvaging,
    /// The failures of plugins: plugin, message.
    pub faults: Vec<(String, String)>,
    /// How many requests were sent again.
    pub retries: u32,
    /// Why the run is about to end.
    pub end: Option<End>,
    /// The end, as recorded.
    pub ended: Option<Ending>,
}

/// The environment in which the actions of a run are executed, according to its journal.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Environment {
    /// The handle by which the executor finds it again; null if none was recorded.
    pub handle: Value,
    /// Whether this process has made it ready.
    pub is_ready: bool,
    /// Whether the workspace is in place and the start-up commands have run.
    pub is_set_up: bool,
    /// Whether it no longer exists.
    pub is_gone: bool,
}

/// The stage of the salvage at the end of a run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Salvaging {
    /// Nothing was done yet.
    #[default]
    Due,
    /// The salvage command is running.
    Begun,
    /// The output is recorded, or the reason why there is none.
    Over,
}

/// The numbers by which the user has raised the limits of a run.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Raised {
    /// Queries.
    pub steps: i64,
    /// Dollars.
    pub cost: f64,
}

/// The current phase of a run.
#[derive(Clone, Debug, Default, PartialEq)]
pub enum Phase {
    /// Between two steps.
    #[default]
    Idle,
    /// A query was sent and has no reply yet; it may have been billed.
    Querying,
    /// The reply is recorded and charged, and was not parsed yet.
    Replied(Arc<PaidReply>),
    /// The actions of a step are not all complete.
    Acting(OpenStep),
}

/// A reply with its cost.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct PaidReply {
    /// The reply.
    pub reply: Reply,
    /// Dollars; none if the price is unknown.
    pub cost: Option<f64>,
    /// The time of its arrival, in Unix seconds.
    pub timestamp: f64,
}

/// The state that results from the events of a journal.
pub fn fold<'r>(records: impl IntoIterator<Item = &'r Record>) -> State {
    records.into_iter().cloned().collect()
}

/// The memory of each record is freed as soon as it was applied: a submission may be large, and several records
/// contain it.
impl FromIterator<Record> for State {
    fn from_iter<I: IntoIterator<Item = Record>>(records: I) -> Self {
        let mut state = Self::default();
        for record in records {
            state.apply(record.t, record.event);
        }
        state
    }
}

impl State {
    /// How often each plugin has failed.
    pub fn fault_counts(&self) -> BTreeMap<String, u32> {
        let mut counts = BTreeMap::new();
        for (plugin, _) in &self.faults {
            *counts.entry(plugin.clone()).or_default() += 1;
        }
        counts
    }

    /// The step that is not complete, if there is one.
    pub fn step(&self) -> Option<&OpenStep> {
        match &self.phase {
            Phase::Acting(step) => Some(step),
            _ => None,
        }
    }

    /// Whether the run has ended. An accepted submission alone is no end: the end has still to be
    /// recorded.
    pub fn has_ended(&self) -> bool {
        self.end.as_ref().is_some_and(|end| *end != End::Submitted) || self.ended.is_some()
    }

    /// The submission, accepted or not yet; empty if there is none.
    pub fn submitted(&self) -> &str {
        self.submission.as_deref().unwrap_or_default()
    }
}

#[cfg(test)]
mod tests;

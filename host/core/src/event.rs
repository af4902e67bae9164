//! The events of a run, as `events.jsonl` holds them: one JSON object a line, with `seq`, `t`
//! (Unix seconds) and `event` beside the fields below.
//!
//! The message list of a run is a function of its events alone (`State::apply` of `mswea-run`).

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::{Action, Answer, End, Message, ModelFailure, Object, Output, Reply, Usage};

/// One event.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "event", rename_all = "snake_case")]
#[allow(missing_docs, reason = "the variant explains its fields")]
pub enum Event {
    /// The first line of a journal.
    RunStarted {
        /// Version of the journal's format.
        format: String,
        /// The run's id; also the value of `MSWEA_RUN_ID` in its processes, until it is resumed: then
        /// `.1`, `.2`, ... follows.
        run_id: String,
        /// Version of the host.
        host_version: String,
        /// The task.
        task: String,
        /// The resolved config, secrets left out.
        config: Value,
        /// Name, kind, version, digest and grants of every plugin.
        plugins: Value,
        /// The run that this one goes on from, if it is a fork.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        parent: Option<Parent>,
    },
    /// The run is continued after an end or after its host was killed. The following events are
    /// from the host that continues it.
    RunResumed {
        host_version: String,
        /// As in `RunStarted`; it may have been changed.
        config: Value,
        plugins: Value,
    },
    /// Only among the events with which the journal of a fork begins: the earlier run was resumed here,
    /// or, in the last one, the fork goes on from here. Takes back what `RunResumed` takes back.
    Reopened {
        /// The earlier run had ended here, and was not killed: it has a new chance.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        has_ended: bool,
    },
    /// The environment can run commands.
    EnvironmentReady {
        /// The handle by which the executor finds the environment again.
        #[serde(default)]
        handle: Value,
        /// Why this environment replaces an earlier one; none if there was no earlier one.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        replaced: Option<String>,
        /// The message to the model about the replacement.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        message: Option<Message>,
    },
    /// The workspace is in place and the start-up commands have run.
    SetUpDone {
        /// Replaces the handle of `EnvironmentReady`, unless it is null.
        #[serde(default, skip_serializing_if = "Value::is_null")]
        handle: Value,
    },
    /// The first messages of the history.
    Opening { messages: Vec<Message> },
    /// A message that belongs to no step. Only trajectories without a journal, and forks of them, have it.
    Message { message: Message },
    /// A query is about to be sent: its number from 1. Counted even if it fails.
    QueryStarted {
        query: u32,
        /// The view of the history that is sent.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        view: Option<View>,
    },
    /// A request failed and will be sent again.
    Retry {
        class: ModelFailure,
        message: String,
        attempt: u32,
        wait_seconds: f64,
    },
    /// The model answered; recorded and charged before it is parsed.
    Reply {
        reply: Reply,
        /// Dollars; none if the price is unknown.
        cost: Option<f64>,
        /// Unix seconds.
        timestamp: f64,
    },
    /// The last reply joined the history with these actions.
    Accepted { actions: Vec<Action> },
    /// The last reply was rejected, and the feedback joined the history.
    Rejected {
        code: String,
        message: String,
        /// None if the same question is asked once more (`requery`).
        #[serde(default, skip_serializing_if = "Option::is_none")]
        feedback: Option<Message>,
        /// The parser itself failed.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        is_fault: bool,
        /// The feedback is a temporary question: the next accepted reply replaces it. Also an accepted reply
        /// may be taken back so, before its step is complete.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        requery: Option<Requery>,
    },
    /// A query or a question of a processor ended without a reply.
    QueryFailed {
        class: ModelFailure,
        message: String,
        /// The tokens that were billed for the failed query.
        usage: Option<Usage>,
        cost: Option<f64>,
    },
    /// A history processor sends a query to the model.
    Asked {
        processor: String,
        purpose: String,
        messages: Vec<Message>,
    },
    /// The model's reply to the query of a processor; charged.
    AskReply {
        processor: String,
        reply: Reply,
        cost: Option<f64>,
    },
    /// The policies or the user have allowed an action.
    Allowed { index: usize },
    /// The user's answer to a policy's question about an action.
    Confirmed {
        index: usize,
        policy: String,
        answer: Answer,
    },
    /// An action is about to run.
    Action { index: usize, action: Action },
    /// An action ended.
    Output {
        index: usize,
        output: Output,
        /// Unix seconds.
        timestamp: f64,
    },
    /// A policy or the user has replaced the action of the model or of an earlier policy; a later
    /// policy may still deny the new action.
    Rewritten {
        index: usize,
        /// The policy, or `user`.
        policy: String,
        /// The action before.
        original: Action,
        /// The action after.
        action: Action,
    },
    /// A policy did not allow an action.
    Denied {
        index: usize,
        policy: String,
        reason: String,
        /// The judged action: the model's, or that of an earlier policy.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        action: Option<Action>,
    },
    /// The messages that the formatter made of the outputs of a step. They join the history, and
    /// the step is complete.
    Observed {
        messages: Vec<Message>,
        /// For each message the index of the action whose output it shows, if there is one; empty if no message
        /// shows one. What a trajectory has of that output beside the message is not in the journal a second time:
        /// it is added when the event is applied.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        shown: Vec<Option<usize>>,
    },
    /// The submission in the last output is accepted.
    Submitted {
        /// The submission, if it is not the text that the last output submits.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        submission: Option<String>,
    },
    /// The user interrupted the step; its remaining actions do not run.
    Interrupted,
    /// The user's answer to the question `actions`, `turn`, `interrupted`, `submission` or `limit`, or
    /// what the user said without a question (`said`).
    Answered {
        question: String,
        answer: Answer,
        /// The message to the model, which joins the history after the observations of the step. Without
        /// it, the text of the answer is the message.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        message: Option<Message>,
    },
    /// A plugin failed and was replaced by a fresh instance or its fallback.
    PluginFault { plugin: String, message: String },
    /// The run is about to end.
    Ending { end: End },
    /// The salvage command is about to run.
    SalvageStarted,
    /// The salvage is over: what its command has printed, or why nothing was saved
    /// (`exception_info`; `exception_type` in `extra` is `SalvageStopped` or `SalvageLost`).
    Salvaged { output: Output },
    /// A candidate of `--shadow` returned another result than the plugin that the run uses. The
    /// number of recorded divergences is limited.
    ShadowDiverged {
        /// The candidate.
        plugin: String,
        /// The role, by the contract's name.
        kind: String,
        /// The plugin that the run uses.
        beside: String,
        /// The number of the query, from 1.
        step: u32,
        /// The index of the action in the step, if the result concerns one action.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        index: Option<u32>,
        /// The degree of the difference, as in `plugin diff`.
        degree: String,
        /// The input of both, shortened.
        input: Value,
        /// The result that the run used, shortened.
        real: Value,
        /// The result of the candidate, shortened.
        candidate: Value,
    },
    /// The report on a candidate. It is written after the run, so it may follow `RunEnded`.
    ShadowEnded {
        plugin: String,
        kind: String,
        beside: String,
        /// Counts and latencies; see `experiment::shadow`.
        summary: Value,
    },
    /// The end of a run. Only events about shadows may follow.
    RunEnded {
        exit_status: String,
        submission: String,
        /// Dollars; none if any price was unknown.
        cost: Option<f64>,
        queries: u32,
        usage: Usage,
        /// The failure that ended the run, if one did: `message`, `traceback`, ...
        #[serde(default, skip_serializing_if = "Object::is_empty")]
        extra: Object,
        /// The exit message, if it differs from the one made of these fields
        /// ([`exit_message`](crate::exit_message)).
        #[serde(default, skip_serializing_if = "Option::is_none")]
        message: Option<Message>,
    },
}

/// The run of which another run is a fork.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Parent {
    /// The id of the run.
    pub run_id: String,
    /// The number of its steps with which the fork begins.
    pub step: u32,
}

/// How the model is asked again for a reply that was not usable.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Requery {
    /// The text of the reply, as a message before the feedback.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub quote: Option<Message>,
    /// Whether it counts against the limit of unusable replies.
    pub is_counted: bool,
}

/// The view that was sent to the model.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct View {
    /// Index of the first message that differs from those of the query before.
    pub start: usize,
    /// How many messages the view has.
    pub messages: usize,
}

impl Event {
    /// The names of all kinds of events that this version knows.
    pub const KINDS: &'static [&'static str] = &[
        "run_started",
        "run_resumed",
        "reopened",
        "environment_ready",
        "set_up_done",
        "opening",
        "message",
        "query_started",
        "retry",
        "reply",
        "accepted",
        "rejected",
        "query_failed",
        "asked",
        "ask_reply",
        "allowed",
        "confirmed",
        "action",
        "output",
        "rewritten",
        "denied",
        "observed",
        "submitted",
        "interrupted",
        "answered",
        "plugin_fault",
        "ending",
        "salvage_started",
        "salvaged",
        "shadow_diverged",
        "shadow_ended",
        "run_ended",
    ];
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kinds_are_complete() {
        let error = serde_json::from_str::<Event>(r#"{"event":"?"}"#).unwrap_err();
        let named: Vec<String> = Event::KINDS
            .iter()
            .map(|kind| format!("`{kind}`"))
            .collect();
        let expected = format!("unknown variant `?`, expected one of {}", named.join(", "));
        assert!(error.to_string().starts_with(&expected), "{error}");
    }
}

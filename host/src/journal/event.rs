//! The events of a run, as `events.jsonl` holds them: one JSON object a line, with `seq`, `t`
//! (Unix seconds) and `event` beside the fields below.
//!
//! The message list of a run is a function of its events alone ([`super::rebuild`]): whatever
//! is in the history entered it through `Message` or `Accepted`.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::roles::{Action, ErrorClass, Message, Object, Output, Reply, Usage};

/// One thing that happened.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "event", rename_all = "snake_case")]
#[allow(missing_docs, reason = "the variant explains its fields")]
pub enum Event {
    /// The first line of a journal.
    RunStarted {
        /// Version of the journal's format.
        format: String,
        /// The run's id; also the value of `MSWEA_RUN_ID` in its processes.
        run_id: String,
        /// Version of the host.
        host_version: String,
        /// The task.
        task: String,
        /// The resolved config, secrets left out.
        config: Value,
        /// Name, kind, version, digest and grants of every plugin.
        plugins: Value,
    },
    /// A message joined the history.
    Message { message: Message },
    /// A query is about to be sent: its number from 1. Counted even if it fails.
    QueryStarted { query: u32 },
    /// A request failed and will be sent again.
    Retry {
        class: ErrorClass,
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
    /// The last reply was rejected; the feedback follows as a `Message`.
    Rejected { code: String, message: String },
    /// A query ended without a reply.
    QueryFailed {
        class: ErrorClass,
        message: String,
        /// What was billed all the same.
        usage: Option<Usage>,
        cost: Option<f64>,
    },
    /// A processor asked the model something.
    Asked {
        processor: String,
        purpose: String,
        messages: Vec<Message>,
    },
    /// The answer to what a processor asked; charged.
    AskReply {
        processor: String,
        reply: Reply,
        cost: Option<f64>,
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
    /// A policy put another action in the place of the one that the model, or an earlier
    /// policy, wanted; a later policy may still deny it.
    Rewritten {
        index: usize,
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
        /// The action that it judged: the model's, or what an earlier policy made of it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        action: Option<Action>,
    },
    /// A plugin failed and was replaced by a fresh instance or its fallback.
    PluginFault { plugin: String, message: String },
    /// The salvage command has run.
    Salvaged { output: Output },
    /// A candidate that only looks on (`--shadow`) answered otherwise than the plugin beside it.
    /// Not every divergence has to be here: what is recorded of a run is bounded.
    ShadowDiverged {
        /// The candidate.
        plugin: String,
        /// The role, in the contract's word.
        kind: String,
        /// The plugin that the run goes by.
        beside: String,
        /// The query that this belongs to, from 1.
        step: u32,
        /// Which action of the step, where it is about one.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        index: Option<u32>,
        /// How far they are apart: the words of `plugin diff`.
        degree: String,
        /// What both were given, shortened.
        input: Value,
        /// What the run went on with, shortened.
        real: Value,
        /// What it would have been, shortened.
        candidate: Value,
    },
    /// What became of a candidate; written when the run is over, so it may follow `RunEnded`.
    ShadowEnded {
        plugin: String,
        kind: String,
        beside: String,
        /// Counts and latencies; see `experiment::shadow`.
        summary: Value,
    },
    /// The last line of a run that ended in an orderly way, but for what its shadows add.
    RunEnded {
        exit_status: String,
        submission: String,
        /// Dollars; none if any price was unknown.
        cost: Option<f64>,
        queries: u32,
        usage: Usage,
        /// What went wrong, if anything: `message`, `traceback`, ...
        #[serde(default, skip_serializing_if = "Object::is_empty")]
        extra: Object,
    },
}

impl Event {
    /// The word of every kind that this version knows.
    pub(super) const KINDS: &'static [&'static str] = &[
        "run_started",
        "message",
        "query_started",
        "retry",
        "reply",
        "accepted",
        "rejected",
        "query_failed",
        "asked",
        "ask_reply",
        "action",
        "output",
        "rewritten",
        "denied",
        "plugin_fault",
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

//! The `.traj.json` of a run, in the format `mini-swe-agent-1.1` that other tools open.
//!
//! It is computed from the journal alone, so the trajectory that a run writes at its end and the
//! one that is made after a `kill -9` are the same. Data without a key in the format is under
//! `info.mswea`.

mod chat;
mod events;
mod glance;
mod responses;
mod usage;
mod write;

use std::path::Path;
use std::sync::Arc;

use serde_json::{Map, Value, json};

use super::{Record, fold};
use crate::state::{Ending, State};
use mswea_core::Message;

pub use events::{FENCES_1, is_of_mini, is_trajectory, records_from_trajectory, totals};
pub use glance::{TrajectoryOwner, owner};
pub use usage::usage_of;
pub use write::{Target, TrajectoryError, to_string, write};

/// The value of `trajectory_format`.
pub const FORMAT: &str = "mini-swe-agent-1.1";

/// Makes the trajectory from the records of a journal.
pub fn from_journal(records: &[Record]) -> Value {
    of_state(fold(records))
}

/// The same, consuming the records. The memory of each is freed as soon as it was read: a
/// submission may be large, and several records contain it.
pub fn from_records(records: Vec<Record>) -> Value {
    let mut state = State::default();
    for record in records {
        state.apply(record.t, record.event);
    }
    of_state(state)
}

/// Makes the trajectory of a run's state. The state of a live run is the same as that of its journal.
pub fn of_state(mut state: State) -> Value {
    let end = state.ended.clone().unwrap_or_default();
    let own = own(&state, &end);
    let messages = std::mem::take(&mut state.messages);
    let messages = messages.into_iter().map(Arc::unwrap_or_clone);
    let mut info = json!({
        "model_stats": {
            "instance_cost": state.account.cost,
            "api_calls": state.account.queries,
        },
        "config": {
            "agent": section(&state.config, "agent"),
            "agent_type": "mswea_host.run.Agent",
            "model": section(&state.config, "model"),
            "model_type": model_type(&state.plugins),
            "environment": section(&state.config, "environment"),
            "environment_type": environment_type(&state.config),
        },
        "mini_version": format!("mswea-host {}", state.host_version),
        "exit_status": end.exit_status,
        "submission": null,
        "mswea": own,
    });
    // Moved, because `json!` would copy it, and it may be large.
    info["submission"] = end.submission.into();
    let messages = encode(messages.collect(), adapter(&state.plugins) == Some(ROUTER));
    let mut trajectory = Map::new();
    trajectory.insert("info".into(), info);
    trajectory.insert("messages".into(), messages.into());
    trajectory.insert("trajectory_format".into(), FORMAT.into());
    trajectory.into()
}

/// The adapter for whose runs over the Responses API mini-swe-agent uses a format of its own.
const ROUTER: &str = "openrouter";

/// Encodes messages in the format of the API that answered, which is recognised by the answers.
fn encode(messages: Vec<Message>, is_router: bool) -> Vec<Value> {
    let is_responses = messages.iter().any(responses::is_from_api);
    // The memory of each message is freed as soon as it was encoded.
    let messages = messages.into_iter().map(|message| match is_responses {
        true => responses::encode(message, is_router),
        false => chat::encode(message),
    });
    messages.collect()
}

/// Adds the path of the journal from which a trajectory was made.
pub fn set_journal(trajectory: &mut Value, path: &Path) {
    if let Some(Value::Object(own)) = trajectory.pointer_mut("/info/mswea") {
        own.insert("journal".into(), path.display().to_string().into());
    }
}

/// Reads the messages of a trajectory of this host or of mini-swe-agent (in the format of chat
/// completions, with tool calls or without, or of the Responses API), or a bare list of messages.
///
/// # Errors
/// A text with the message and the mistake, if there are no messages, or one has an unknown format.
pub fn messages_from_trajectory(trajectory: &Value) -> Result<Vec<Message>, String> {
    let messages = trajectory.get("messages").unwrap_or(trajectory);
    let Value::Array(messages) = messages else {
        return Err(
            "no list `messages` in it; a trajectory of mini-swe-agent or mswea-host is needed"
                .to_owned(),
        );
    };
    messages
        .iter()
        .enumerate()
        .map(|(index, message)| {
            let decoded = responses::decode(message).unwrap_or_else(|| chat::decode(message));
            decoded.map_err(|reason| format!("message {index}: {reason}"))
        })
        .collect()
}

fn section(config: &Value, name: &str) -> Value {
    config.get(name).cloned().unwrap_or_else(|| json!({}))
}

/// The adapter as a dotted class path, which the format has here.
fn model_type(plugins: &Value) -> String {
    match adapter(plugins) {
        Some(name) => format!("mswea_host.plugins.{}", name.replace('/', ".")),
        None => "mswea_host.provider.Model".to_owned(),
    }
}

/// The name of the model adapter.
fn adapter(plugins: &Value) -> Option<&str> {
    let is_adapter = |plugin: &&Value| {
        let kind = plugin.get("kind").or_else(|| plugin.get("kinds"));
        kind.is_some_and(|kind| match kind {
            Value::Array(kinds) => kinds.iter().any(|kind| kind == "model-adapter"),
            kind => kind == "model-adapter",
        })
    };
    let plugin = plugins.as_array()?.iter().find(is_adapter)?;
    plugin.get("name")?.as_str()
}

fn environment_type(config: &Value) -> String {
    let class = config
        .pointer("/environment/environment_class")
        .and_then(Value::as_str)
        .unwrap_or("local");
    format!("mswea_host.executor.{class}")
}

fn own(state: &State, end: &Ending) -> Value {
    let mut own = Map::new();
    own.insert("version".into(), state.host_version.as_str().into());
    own.insert("run_id".into(), state.run_id.as_str().into());
    own.insert("task".into(), state.task.as_str().into());
    own.insert("started".into(), json!(state.started));
    own.insert("ended".into(), json!(state.last));
    // Whether the run has ended; else its host was killed.
    own.insert("complete".into(), state.ended.is_some().into());
    own.insert("plugins".into(), state.plugins.clone());
    own.insert("usage".into(), json!(state.account.usage));
    own.insert("cost_known".into(), (!state.account.cost_unknown).into());
    own.insert("retries".into(), state.retries.into());
    if state.account.questions > 0 {
        own.insert("questions".into(), state.account.questions.into());
    }
    if !state.faults.is_empty() {
        let faults = state.faults.iter();
        let faults = faults.map(|(plugin, message)| json!({"plugin": plugin, "message": message}));
        own.insert("plugin_faults".into(), faults.collect());
    }
    if let Some(salvage) = &state.salvage {
        own.insert("salvage".into(), json!(salvage));
    }
    if !end.extra.is_empty() {
        own.insert("error".into(), json!(end.extra));
    }
    // Sections for which the format has a place are put there.
    if let Value::Object(config) = &state.config {
        let rest: Map<String, Value> = config
            .iter()
            .filter(|(key, _)| !matches!(key.as_str(), "agent" | "model" | "environment"))
            .map(|(key, value)| (key.clone(), value.clone()))
            .collect();
        if !rest.is_empty() {
            own.insert("config".into(), rest.into());
        }
    }
    own.into()
}

#[cfg(test)]
mod shapes_tests;
#[cfg(test)]
mod tests;

//! The `.traj.json` of a run, in the format `mini-swe-agent-1.1` that other tools open.
//!
//! It is a function of the journal alone, so the one that a run writes at its end and the one
//! made after a `kill -9` are the same. What the format has no place for is under
//! `info.mswea`.

mod chat;
mod events;
mod glance;
mod responses;
mod surrogates;
mod write;

use std::path::Path;
use std::sync::Arc;

use serde_json::{Map, Value, json};

use super::{Record, fold};
use crate::state::{Ending, State};
use mswea_core::Message;

pub use events::{is_of_mini, records_from_trajectory};
pub use glance::{TrajectoryOwner, owner};
pub use surrogates::replace_lone_surrogates;
pub use write::{Target, TrajectoryError, to_string, write};

/// What `trajectory_format` says.
pub const FORMAT: &str = "mini-swe-agent-1.1";

/// The trajectory of what a journal holds.
pub fn from_journal(records: &[Record]) -> Value {
    of(fold(records))
}

/// The same, of records that are given up. The memory of each is freed as soon as it is read: a
/// submission may be large, and stands in several records.
pub fn from_records(records: Vec<Record>) -> Value {
    let mut state = State::default();
    for record in records {
        state.apply(record.t, record.event);
    }
    of(state)
}

fn of(mut state: State) -> Value {
    let end = end(&state);
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
    // Moved: `json!` would copy it, and it may be large.
    info["submission"] = end.submission.into();
    let messages = encode(messages.collect(), adapter(&state.plugins) == Some(ROUTER));
    let mut trajectory = Map::new();
    trajectory.insert("info".into(), info);
    trajectory.insert("messages".into(), messages.into());
    trajectory.insert("trajectory_format".into(), FORMAT.into());
    trajectory.into()
}

/// The adapter whose runs over the Responses API mini-swe-agent writes in a shape of its own.
const ROUTER: &str = "openrouter";

/// The messages in the shape of the API that answered: it is known from the answers themselves.
fn encode(messages: Vec<Message>, is_router: bool) -> Vec<Value> {
    let is_responses = messages.iter().any(responses::is_from_api);
    // Each is given up as soon as it is written.
    let messages = messages.into_iter().map(|message| match is_responses {
        true => responses::encode(&message, is_router),
        false => chat::encode(&message),
    });
    messages.collect()
}

/// Notes where the journal is that a trajectory was made from.
pub fn set_journal(trajectory: &mut Value, path: &Path) {
    if let Some(Value::Object(own)) = trajectory.pointer_mut("/info/mswea") {
        own.insert("journal".into(), path.display().to_string().into());
    }
}

/// The messages of a trajectory: ours, mini-swe-agent's (chat shape, with tool calls or
/// without, or that of the Responses API), or a bare list of messages.
///
/// # Errors
/// When there are none, or one is in a shape that has no neutral form; says which and why.
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

/// As its last event says; for a run that has none, what its exit message says.
fn end(state: &State) -> Ending {
    if let Some(end) = &state.ended {
        return end.clone();
    }
    let text = |key: &str| {
        let last = state.messages.last();
        last.and_then(|message| message.extra.get(key))
            .and_then(Value::as_str)
            .unwrap_or_default()
            .to_owned()
    };
    Ending {
        exit_status: text("exit_status"),
        submission: text("submission"),
        extra: Map::new(),
    }
}

fn section(config: &Value, name: &str) -> Value {
    config.get(name).cloned().unwrap_or_else(|| json!({}))
}

/// In the way of the format's dotted class paths.
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
    // whether the run came to its end, or the host was killed under it
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
    // the sections that the format has a place for stand there
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

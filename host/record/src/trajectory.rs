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

use crate::{Account, Ending};
use mswea_core::{Message, Output};

pub use events::{FENCES_1, is_of_mini, is_trajectory, records_from_trajectory, totals};
pub use glance::{TrajectoryOwner, owner};
pub use usage::usage_of;
pub use write::{Target, TrajectoryError, to_string, write};

/// The value of `trajectory_format`.
pub const FORMAT: &str = "mini-swe-agent-1.1";

/// What a run amounts to, as far as its trajectory says it.
#[derive(Clone, Debug, Default)]
pub struct TrajectoryContent {
    /// The run's id.
    pub run_id: String,
    /// Version of the host.
    pub host_version: String,
    /// The task.
    pub task: String,
    /// The resolved config, secrets left out.
    pub config: Value,
    /// Name, kind, version, digest and grants of every plugin.
    pub plugins: Value,
    /// Unix seconds of the first event.
    pub started: Option<f64>,
    /// Unix seconds of the last event of the loop.
    pub last: Option<f64>,
    /// The tokens, the cost and the number of queries.
    pub account: Account,
    /// How many requests were sent again.
    pub retries: u32,
    /// The failures of plugins: plugin, message.
    pub faults: Vec<(String, String)>,
    /// The output of the salvage command.
    pub salvage: Option<Output>,
    /// The end, as recorded; none of a run whose host was killed.
    pub ended: Option<Ending>,
    /// The history.
    pub messages: Vec<Arc<Message>>,
}

/// Makes the trajectory.
pub fn of_content(mut run: TrajectoryContent) -> Value {
    let end = run.ended.clone().unwrap_or_default();
    let own = own(&run, &end);
    let messages = std::mem::take(&mut run.messages);
    let messages = messages.into_iter().map(Arc::unwrap_or_clone);
    let mut info = json!({
        "model_stats": {
            "instance_cost": run.account.cost,
            "api_calls": run.account.queries,
        },
        "config": {
            "agent": section(&run.config, "agent"),
            "agent_type": "mswea_host.run.Agent",
            "model": section(&run.config, "model"),
            "model_type": model_type(&run.plugins),
            "environment": section(&run.config, "environment"),
            "environment_type": environment_type(&run.config),
        },
        "mini_version": format!("mswea-host {}", run.host_version),
        "exit_status": end.exit_status,
        "submission": null,
        "mswea": own,
    });
    // Moved, because `json!` would copy it, and it may be large.
    info["submission"] = end.submission.into();
    let messages = encode(messages.collect(), adapter(&run.plugins) == Some(ROUTER));
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

fn own(run: &TrajectoryContent, end: &Ending) -> Value {
    let mut own = Map::new();
    own.insert("version".into(), run.host_version.as_str().into());
    own.insert("run_id".into(), run.run_id.as_str().into());
    own.insert("task".into(), run.task.as_str().into());
    own.insert("started".into(), json!(run.started));
    own.insert("ended".into(), json!(run.last));
    // Whether the run has ended; else its host was killed.
    own.insert("complete".into(), run.ended.is_some().into());
    own.insert("plugins".into(), run.plugins.clone());
    own.insert("usage".into(), json!(run.account.usage));
    own.insert("cost_known".into(), (!run.account.cost_unknown).into());
    own.insert("retries".into(), run.retries.into());
    if run.account.questions > 0 {
        own.insert("questions".into(), run.account.questions.into());
    }
    if !run.faults.is_empty() {
        let faults = run.faults.iter();
        let faults = faults.map(|(plugin, message)| json!({"plugin": plugin, "message": message}));
        own.insert("plugin_faults".into(), faults.collect());
    }
    if let Some(salvage) = &run.salvage {
        own.insert("salvage".into(), json!(salvage));
    }
    if !end.extra.is_empty() {
        own.insert("error".into(), json!(end.extra));
    }
    // Sections for which the format has a place are put there.
    if let Value::Object(config) = &run.config {
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
mod messages_tests;
#[cfg(test)]
mod shapes_tests;

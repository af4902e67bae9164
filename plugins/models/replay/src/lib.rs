//! Replies without a model: from a script, or from a recorded trajectory.
//!
//! The number of the next reply is computed from the history and not kept in a counter, so that a
//! new instance returns the same reply.

mod script;
mod trajectory;

use mswea_sdk::adapter::{Delta, ModelError, Next, Request};
use mswea_sdk::types::{Change, Message, PluginError, Reply, Usage};
use mswea_sdk::{Adapter, Descriptor, Plugin, from_config};
use serde::Deserialize;
use serde_json::{Map, Value};

/// JSON Schema of the config.
const SCHEMA: &str = include_str!("schema.json");

/// The config.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Config {
    #[serde(default)]
    model: Option<String>,
    #[serde(default)]
    replies: Option<Vec<Value>>,
    #[serde(default)]
    trajectory: Option<Map<String, Value>>,
}

/// The adapter.
pub struct Replay {
    replies: Vec<Reply>,
    /// The remedy in the message that there are no more replies.
    remedy: &'static str,
    /// For each message of the history, how many replies had been used up to it.
    used: Vec<usize>,
}

impl Plugin for Replay {
    fn describe() -> Descriptor {
        let mut descriptor = Descriptor::new(
            "replay",
            env!("CARGO_PKG_VERSION"),
            "Answers from a recorded trajectory or a script, without a model",
        );
        SCHEMA.clone_into(&mut descriptor.config_schema);
        descriptor
    }

    fn configure(config: Value) -> Result<Self, PluginError> {
        let config: Config = from_config(config)?;
        let model = config.model.as_deref().unwrap_or("replay");
        let (replies, remedy) = match (config.replies, config.trajectory) {
            (Some(replies), None) => (
                script::replies(&replies, model)?,
                "add replies to `replies`, the last of which submits",
            ),
            (None, Some(trajectory)) => (
                trajectory::replies(&trajectory, model)?,
                "the run differs from the recorded one, or the recorded one ended without a \
                 submission: use the same task, config and environment, or go on with a real model",
            ),
            (None, None) => {
                return Err(PluginError::invalid_config(
                    "there is nothing to replay; set `replies` (a list) or `trajectory` (a \
                     recorded run)",
                ));
            }
            (Some(_), Some(_)) => {
                return Err(PluginError::invalid_config(
                    "`replies` and `trajectory` are both set; leave one of them out",
                )
                .at("/replies"));
            }
        };
        Ok(Self {
            replies,
            remedy,
            used: Vec::new(),
        })
    }
}

impl Adapter for Replay {
    fn query(&mut self, change: Change, _request: Request) -> Result<Next, ModelError> {
        let start = change.start as usize;
        if start > self.used.len() {
            return Err(ModelError::new(
                "bad-request",
                format!(
                    "the history's change begins at message {start}, but only {} are known; this \
                     is a fault of the host, please report it",
                    self.used.len()
                ),
            ));
        }
        self.used.truncate(start);
        let mut index = self.used.last().copied().unwrap_or(0);
        for message in &change.messages {
            index += usize::from(uses_up_a_reply(message));
            self.used.push(index);
        }
        match self.replies.get(index) {
            Some(reply) => Ok(Next::Reply(reply.clone())),
            None => Err(ModelError::new(
                "bad-request",
                format!(
                    "reply {} was asked for, but there are only {}; {}",
                    index + 1,
                    self.replies.len(),
                    self.remedy
                ),
            )),
        }
    }

    // The adapter sends no request, so this is never called.
    fn head(&mut self, _status: u16, _headers: Vec<(String, String)>) {}

    fn feed(&mut self, _bytes: Vec<u8>) -> Vec<Delta> {
        Vec::new()
    }

    fn finish(&mut self) -> Result<Next, ModelError> {
        Err(ModelError::new(
            "bad-request",
            "`replay` sends no requests, but a response ended; this is a fault of the host, \
             please report it",
        ))
    }
}

/// An assistant message is an accepted reply; of a rejected one, only the feedback is in the
/// history.
fn uses_up_a_reply(message: &Message) -> bool {
    message.role == "assistant"
        || (message.role == "user" && message.extra_value()["interrupt_type"] == "FormatError")
}

/// Gives calls without an id one that is the same in every run.
fn fill_ids(replies: &mut [Reply]) {
    let calls = replies
        .iter_mut()
        .flat_map(|reply| &mut reply.message.tool_calls);
    for (index, call) in calls.enumerate() {
        if call.id.is_empty() {
            call.id = format!("call_{}", index + 1);
        }
    }
}

/// Token counts by the names of the contract, of chat completions, of Responses or of Anthropic;
/// none if there is neither a count nor a cost.
fn usage(value: Option<&Value>, cost: Option<f64>) -> Option<Usage> {
    let object = value.and_then(Value::as_object);
    if object.is_none() && cost.is_none() {
        return None;
    }
    let read = |paths: &[&str]| {
        let value = value?;
        paths
            .iter()
            .find_map(|path| value.pointer(path).and_then(Value::as_u64))
    };
    let count = |paths: &[&str]| read(paths).unwrap_or(0);
    // Anthropic counts cached tokens separately from the input, under these keys. litellm's records
    // of chat completions have the keys too, and count them as part of it.
    let cached = match read(&["/prompt_tokens"]) {
        None => count(&["/cache_read_input_tokens"])
            .saturating_add(count(&["/cache_creation_input_tokens"])),
        Some(_) => 0,
    };
    Some(Usage {
        input_tokens: count(&["/input_tokens", "/prompt_tokens"]).saturating_add(cached),
        cache_read_tokens: count(&[
            "/cache_read_tokens",
            "/cache_read_input_tokens",
            "/prompt_tokens_details/cached_tokens",
            "/input_tokens_details/cached_tokens",
        ]),
        cache_write_tokens: count(&["/cache_write_tokens", "/cache_creation_input_tokens"]),
        output_tokens: count(&["/output_tokens", "/completion_tokens"]),
        reasoning_tokens: count(&[
            "/reasoning_tokens",
            "/completion_tokens_details/reasoning_tokens",
            "/output_tokens_details/reasoning_tokens",
        ]),
        cost: cost.or_else(|| value?.get("cost")?.as_f64()),
        extra: None,
    })
}

mswea_sdk::export!(adapter: Replay);

#[cfg(test)]
#[path = "lib_tests.rs"]
mod tests;

//! The values that travel between the roles: the host-side twins of the records in
//! `wit/types.wit`, with the serialisation that the journal uses.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// A JSON object, in insertion order.
pub type Object = Map<String, Value>;

/// One part of a message's content.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
#[allow(missing_docs)] // the fields are named after what they hold
pub enum Part {
    /// Plain text.
    Text { text: String },
    /// An image, by `https:` or `data:` URL.
    Image {
        url: String,
        #[serde(default, skip_serializing_if = "Map::is_empty")]
        extra: Object,
    },
    /// Readable reasoning.
    Reasoning {
        text: String,
        #[serde(default, skip_serializing_if = "Map::is_empty")]
        extra: Object,
    },
    /// A provider's own block, stored verbatim.
    Opaque { format: String, data: Value },
}

impl Part {
    /// A text part.
    pub fn text(text: impl Into<String>) -> Self {
        Self::Text { text: text.into() }
    }
}

/// A tool call as the model wrote it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ToolCall {
    /// The provider's id.
    pub id: String,
    /// Name of the tool.
    pub name: String,
    /// Arguments, verbatim.
    pub arguments: String,
    /// Anything else.
    #[serde(default, skip_serializing_if = "Map::is_empty")]
    pub extra: Object,
}

/// One message of the conversation.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Message {
    /// `system`, `user`, `assistant`, `tool` or `exit`.
    pub role: String,
    /// The content, in order.
    pub content: Vec<Part>,
    /// Tools that an assistant message calls.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tool_calls: Vec<ToolCall>,
    /// The call that a tool message answers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tool_call_id: Option<String>,
    /// Kept with the message, never sent to a model.
    #[serde(default, skip_serializing_if = "Map::is_empty")]
    pub extra: Object,
}

impl Message {
    /// A message with one text part.
    pub fn new(role: &str, text: impl Into<String>) -> Self {
        Self {
            role: role.to_owned(),
            content: vec![Part::text(text)],
            ..Self::default()
        }
    }

    /// A copy for models and plugins: without what only a trajectory's readers want, which can
    /// be larger than all the rest.
    #[must_use]
    pub fn light(&self) -> Self {
        let extra = self.extra.iter().filter(|(key, _)| !is_bulky(key));
        Self {
            role: self.role.clone(),
            content: self.content.clone(),
            tool_calls: self.tool_calls.clone(),
            tool_call_id: self.tool_call_id.clone(),
            extra: extra.map(|(k, v)| (k.clone(), v.clone())).collect(),
        }
    }

    /// The text parts, joined.
    pub fn text(&self) -> String {
        let mut out = String::new();
        for part in &self.content {
            if let Part::Text { text } = part {
                out.push_str(text);
            }
        }
        out
    }
}

/// The key of a message's `extra` that says: the content is a list, though it is text only.
pub const CONTENT_LIST: &str = "content_list";

/// Whether a key of a message's `extra` stays with the host: it can be large, and no plugin needs
/// it.
pub fn is_bulky(key: &str) -> bool {
    matches!(key, "raw_output" | "response" | "model_response")
}

/// What changed in a list of messages: `history[start..]` is now `messages`.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Change {
    /// Index of the first message that differs.
    pub start: usize,
    /// Everything from there on.
    pub messages: Vec<Message>,
}

impl Change {
    /// Replaces everything.
    pub fn all(messages: Vec<Message>) -> Self {
        Self { start: 0, messages }
    }

    /// Lays the change over a list.
    pub fn apply(self, list: &mut Vec<Message>) {
        list.truncate(self.start);
        list.extend(self.messages);
    }
}

/// How a processor's view has changed: as with a [`Change`], but what lies between its messages
/// may be as it was.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ViewChange {
    /// Index of the first message that differs.
    pub start: usize,
    /// Those that differ, in order; behind the last there is nothing.
    pub messages: Vec<Message>,
    /// Where each of them stands, if they do not follow on each other.
    pub places: Option<Vec<usize>>,
}

impl From<Change> for ViewChange {
    fn from(change: Change) -> Self {
        Self {
            start: change.start,
            messages: change.messages,
            places: None,
        }
    }
}

/// A tool that the model is told about.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Tool {
    /// Its name.
    pub name: String,
    /// What it does, for the model.
    pub description: String,
    /// JSON Schema of its arguments.
    pub parameters: Value,
    /// Anything else.
    #[serde(default, skip_serializing_if = "Map::is_empty")]
    pub extra: Object,
}

/// One thing to do: a shell command.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Action {
    /// The command.
    pub command: String,
    /// The tool call that asked for it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tool_call_id: Option<String>,
    /// Anything else.
    #[serde(default, skip_serializing_if = "Map::is_empty")]
    pub extra: Object,
}

/// What came of one action.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Output {
    /// Standard output and error, merged, decoded.
    pub output: String,
    /// Exit code; minus the signal's number; -1 if it timed out, failed to start or never ran.
    pub returncode: i32,
    /// Empty if nothing went wrong with the execution itself.
    pub exception_info: String,
    /// `elided_bytes`, `exception_type`, `exception`, and what executors add.
    #[serde(default, skip_serializing_if = "Map::is_empty")]
    pub extra: Object,
}

impl Output {
    /// The output of an action that was not executed, for `reason`.
    pub fn not_executed(reason: &str) -> Self {
        Self {
            returncode: -1,
            exception_info: reason.to_owned(),
            ..Self::default()
        }
    }

    /// Whether the executor says that no further action can run.
    pub fn says_environment_gone(&self) -> bool {
        self.extra.get(ENVIRONMENT_GONE) == Some(&Value::Bool(true))
    }
}

/// The key of [`Output::extra`] that is true when no further action can run: the container was
/// removed, the machine under it is gone.
pub const ENVIRONMENT_GONE: &str = "environment_gone";

/// Tokens and money of one reply.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Usage {
    /// Input tokens in all, cached ones included.
    pub input_tokens: u64,
    /// Read from the provider's cache.
    pub cache_read_tokens: u64,
    /// Written to the provider's cache.
    pub cache_write_tokens: u64,
    /// Output tokens in all, reasoning included.
    pub output_tokens: u64,
    /// Output tokens spent on reasoning.
    pub reasoning_tokens: u64,
    /// The provider's own figure in US dollars.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cost: Option<f64>,
    /// Anything else.
    #[serde(skip_serializing_if = "Map::is_empty")]
    pub extra: Object,
}

impl Usage {
    /// Adds another reply's tokens (costs are kept by the run's account, not here).
    pub fn add(&mut self, other: &Usage) {
        self.input_tokens = self.input_tokens.saturating_add(other.input_tokens);
        self.cache_read_tokens = self
            .cache_read_tokens
            .saturating_add(other.cache_read_tokens);
        self.cache_write_tokens = self
            .cache_write_tokens
            .saturating_add(other.cache_write_tokens);
        self.output_tokens = self.output_tokens.saturating_add(other.output_tokens);
        self.reasoning_tokens = self.reasoning_tokens.saturating_add(other.reasoning_tokens);
    }
}

/// What a model answered.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Reply {
    /// The answer, with role `assistant`.
    pub message: Message,
    /// Why the model stopped; empty if unknown.
    #[serde(default)]
    pub finish_reason: String,
    /// What it cost, where the provider said.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub usage: Option<Usage>,
    /// The model that answered, in the provider's words.
    #[serde(default)]
    pub model: String,
    /// The provider's response, verbatim.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub response: Option<Value>,
    /// Anything else.
    #[serde(default, skip_serializing_if = "Map::is_empty")]
    pub extra: Object,
}

/// The key of a reply's `extra` that is true when a processor's question was answered before.
pub const REMEMBERED: &str = "remembered";

/// Why a reply holds no usable action; for the model.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Problem {
    /// A stable word.
    pub code: String,
    /// What the model did wrong.
    pub message: String,
    /// Further template variables.
    #[serde(default, skip_serializing_if = "Map::is_empty")]
    pub details: Object,
}

/// What a reply turned out to be.
#[derive(Clone, Debug, PartialEq)]
pub enum Outcome {
    /// These actions, in order.
    Actions(Vec<Action>),
    /// Not what was agreed.
    Malformed(Problem),
}

/// A policy's judgement.
#[derive(Clone, Debug, PartialEq)]
pub enum Verdict {
    /// Run it.
    Allow,
    /// Do not run it, and tell the model this.
    Deny(String),
    /// Ask the person, giving this reason.
    Ask(String),
    /// Run this instead.
    Rewrite(Action),
}

/// A secret that the host fills in after the adapter has spoken.
#[derive(Clone, Debug, PartialEq)]
#[allow(missing_docs)] // the fields are named after what they hold
pub enum HeaderValue {
    /// As it is.
    Plain(String),
    /// The named secret, after `prefix`.
    Secret { name: String, prefix: String },
}

/// An HTTP request that an adapter wants sent.
#[derive(Clone, Debug, PartialEq)]
pub struct HttpRequest {
    /// `POST`, `GET`, ...
    pub method: String,
    /// Absolute URL.
    pub url: String,
    /// Headers, in order.
    pub headers: Vec<(String, HeaderValue)>,
    /// The body; empty for none.
    pub body: bytes::Bytes,
}

/// What an adapter wants next.
#[derive(Clone, Debug, PartialEq)]
#[allow(clippy::large_enum_variant)] // one at a time, moved once
pub enum AdapterNext {
    /// Perform this request.
    Send(HttpRequest),
    /// The query is answered.
    Reply(Reply),
}

/// A piece of an answer, for showing it live.
#[derive(Clone, Debug, PartialEq)]
pub struct Delta {
    /// `text`, `reasoning` or `tool-call`.
    pub kind: String,
    /// The new text.
    pub text: String,
}

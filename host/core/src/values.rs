//! The values that the roles exchange: the host's versions of the records in `wit/types.wit`, in
//! the form in which the journal has them.

use std::sync::Arc;

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
    /// An image, as an `https:` or `data:` URL.
    Image {
        url: String,
        #[serde(default, skip_serializing_if = "Map::is_empty")]
        extra: Object,
    },
    /// The model's readable reasoning.
    Reasoning {
        text: String,
        #[serde(default, skip_serializing_if = "Map::is_empty")]
        extra: Object,
    },
    /// A block in a provider's own format, stored unchanged.
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
    /// The provider's id of the call.
    pub id: String,
    /// The tool's name.
    pub name: String,
    /// The arguments as the model wrote them.
    pub arguments: String,
    /// Further keys.
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
    /// The tool calls of an assistant message.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tool_calls: Vec<ToolCall>,
    /// The id of the call whose result a tool message is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tool_call_id: Option<String>,
    /// Further keys, which are kept with the message and not sent to a model.
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

    /// A copy without the large keys that only the trajectory has.
    #[must_use]
    pub fn light(&self) -> Self {
        let extra = self.extra.iter().filter(|(key, _)| !is_bulky(key));
        Self {
            role: self.role.clone(),
            content: self.content.clone(),
            tool_calls: self.tool_calls.clone(),
            tool_call_id: self.tool_call_id.clone(),
            extra: extra
                .map(|(key, value)| (key.clone(), value.clone()))
                .collect(),
        }
    }

    /// The message without the large keys that only the trajectory has; copied only if it has one of them.
    #[must_use]
    pub fn lightened(self: Arc<Self>) -> Arc<Self> {
        match self.extra.keys().any(|key| is_bulky(key)) {
            true => self.light().into(),
            false => self,
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

impl From<Arc<Message>> for Message {
    fn from(shared: Arc<Message>) -> Self {
        Arc::unwrap_or_clone(shared)
    }
}

/// The key of a message's `extra` that is true if requests must have the content as a list,
/// although it is only text.
pub const CONTENT_LIST: &str = "content_list";

/// Whether plugins get messages without this key of `extra`: its value can be large, and
/// no plugin needs it.
pub fn is_bulky(key: &str) -> bool {
    matches!(key, "raw_output" | "response" | "model_response")
}

/// A change of a list of messages: `history[start..]` is now `messages`.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Change {
    /// Index of the first message that differs.
    pub start: usize,
    /// All messages from there on. Plugins get them without the keys that [`is_bulky`] names.
    pub messages: Vec<Arc<Message>>,
}

impl Change {
    /// A change that replaces the whole list.
    pub fn all<M: Into<Arc<Message>>>(messages: impl IntoIterator<Item = M>) -> Self {
        Self {
            start: 0,
            messages: messages.into_iter().map(Into::into).collect(),
        }
    }

    /// Applies the change to a list.
    pub fn apply<M: From<Arc<Message>>>(self, list: &mut Vec<M>) {
        list.truncate(self.start);
        list.extend(self.messages.into_iter().map(M::from));
    }
}

/// The change of a processor's view. Unlike a [`Change`], it may leave out unchanged messages
/// between the changed ones.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ViewChange {
    /// Index of the first message that differs.
    pub start: usize,
    /// The changed messages, in order. The view ends with the last of them.
    pub messages: Vec<Arc<Message>>,
    /// The index of each changed message in the new view; none if they follow on each other.
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

/// A tool that is offered to the model.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Tool {
    /// The tool's name.
    pub name: String,
    /// The description for the model.
    pub description: String,
    /// JSON Schema of the arguments.
    pub parameters: Value,
    /// Further keys.
    #[serde(default, skip_serializing_if = "Map::is_empty")]
    pub extra: Object,
}

/// An action: a shell command.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Action {
    /// The command.
    pub command: String,
    /// The id of the tool call that the action was made of.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tool_call_id: Option<String>,
    /// Further keys.
    #[serde(default, skip_serializing_if = "Map::is_empty")]
    pub extra: Object,
}

/// The output of one action.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Output {
    /// Standard output and standard error, merged and decoded.
    pub output: String,
    /// The exit code; minus the signal's number if a signal ended the command; -1 if it timed out,
    /// could not be started or was not executed.
    pub returncode: i32,
    /// Why the command could not be started or had to be ended; empty if it ran to its end.
    pub exception_info: String,
    /// `elided_bytes`, `exception_type`, `exception`, and the keys of executors.
    #[serde(default, skip_serializing_if = "Map::is_empty")]
    pub extra: Object,
}

impl Output {
    /// The output of an action that was not executed because of `reason`.
    pub fn not_executed(reason: &str) -> Self {
        Self {
            returncode: -1,
            exception_info: reason.to_owned(),
            ..Self::default()
        }
    }

    /// Whether the executor reports that no further action can run.
    pub fn says_environment_gone(&self) -> bool {
        self.extra.get(ENVIRONMENT_GONE) == Some(&Value::Bool(true))
    }
}

/// The key of [`Output::extra`] that is true if no further action can run, because the container
/// was removed or the machine is gone.
pub const ENVIRONMENT_GONE: &str = "environment_gone";

/// The key of [`Output::extra`] with the state of the tools after the action, if the state has changed: a
/// JSON object, whose keys are variables of templates.
pub const TOOL_STATE: &str = "tool_state";

/// The `exception_type` in [`Output::extra`] of a command that bash can't read, and that did not run;
/// `bash_stdout` and `bash_stderr` have bash's words.
pub const BAD_SYNTAX: &str = "BashIncorrectSyntaxError";

/// The key of the salvage's [`Output::extra`] with the files that the submission has modified, as texts by their names: a
/// JSON object.
pub const EDITED_FILES: &str = "edited_files";

/// The key of [`Output::extra`] with the text that the action has submitted, if a tool has submitted.
pub const SUBMISSION: &str = "submission";

/// The first line of an output that submits.
pub const MARK: &str = "COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT";

/// The key of [`Output::extra`] that is true if the output is what a program that stays open has answered.
/// Marks in it control nothing, because such a program passes on texts of strangers, of a server for example.
pub const PROGRAM_ANSWER: &str = "program_answer";

/// The tokens and the cost of one reply.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Usage {
    /// All input tokens, including those of the cache.
    pub input_tokens: u64,
    /// Input tokens that were read from the provider's cache.
    pub cache_read_tokens: u64,
    /// Input tokens that were written to the provider's cache.
    pub cache_write_tokens: u64,
    /// All output tokens, including those for reasoning.
    pub output_tokens: u64,
    /// Output tokens for reasoning.
    pub reasoning_tokens: u64,
    /// The cost in US dollars that the provider reports.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cost: Option<f64>,
    /// Further keys.
    #[serde(skip_serializing_if = "Map::is_empty")]
    pub extra: Object,
}

impl Usage {
    /// Adds the tokens of another reply. The costs are added by the run's account.
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

    /// Takes away the tokens of a reply that was added.
    pub fn subtract(&mut self, other: &Usage) {
        let less = |count: &mut u64, other: u64| *count = count.saturating_sub(other);
        less(&mut self.input_tokens, other.input_tokens);
        less(&mut self.cache_read_tokens, other.cache_read_tokens);
        less(&mut self.cache_write_tokens, other.cache_write_tokens);
        less(&mut self.output_tokens, other.output_tokens);
        less(&mut self.reasoning_tokens, other.reasoning_tokens);
    }
}

/// A model's reply.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Reply {
    /// The model's message, with role `assistant`.
    pub message: Message,
    /// Why the model stopped; empty if unknown.
    #[serde(default)]
    pub finish_reason: String,
    /// Tokens and cost, if the provider reports them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub usage: Option<Usage>,
    /// The provider's name of the model.
    #[serde(default)]
    pub model: String,
    /// The provider's response, unchanged.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub response: Option<Value>,
    /// Further keys.
    #[serde(default, skip_serializing_if = "Map::is_empty")]
    pub extra: Object,
}

/// The key of a reply's `extra` that is true if a processor's query was sent before and this is the
/// recorded reply.
pub const REMEMBERED: &str = "remembered";

/// Why a reply has no usable action. The text is for the model.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Problem {
    /// A word that names the error.
    pub code: String,
    /// The model's error, in words.
    pub message: String,
    /// Further variables of the template.
    #[serde(default, skip_serializing_if = "Map::is_empty")]
    pub details: Object,
}

/// The result of parsing a reply.
#[derive(Clone, Debug, PartialEq)]
pub enum Outcome {
    /// The actions of the reply, in order.
    Actions(Vec<Action>),
    /// The reply breaks the rules of the parser.
    Malformed(Problem),
}

/// The judgement of a policy.
#[derive(Clone, Debug, PartialEq)]
pub enum Verdict {
    /// Run the action.
    Allow,
    /// Do not run the action, and send the objection to the model.
    Deny(String),
    /// Ask the user to confirm the action.
    Ask(String),
    /// Run this action in its place.
    Rewrite(Action),
}

/// The value of a header: a text, or a secret that the host fills in.
#[derive(Clone, Debug, PartialEq)]
#[allow(missing_docs)] // the fields are named after what they hold
pub enum HeaderValue {
    /// The text itself.
    Plain(String),
    /// The secret with this name, after `prefix`.
    Secret { name: String, prefix: String },
}

/// An HTTP request that an adapter has returned.
#[derive(Clone, Debug, PartialEq)]
pub struct HttpRequest {
    /// `POST`, `GET`, ...
    pub method: String,
    /// An absolute URL.
    pub url: String,
    /// The headers, in order.
    pub headers: Vec<(String, HeaderValue)>,
    /// The body; empty if there is none.
    pub body: crate::RequestBody,
}

/// The next operation of the host.
#[derive(Clone, Debug, PartialEq)]
#[allow(clippy::large_enum_variant)] // one at a time, moved once
pub enum AdapterNext {
    /// Send this request.
    Send(HttpRequest),
    /// The query has this reply.
    Reply(Reply),
}

/// New text of a reply, for display; or a sign of how far the response is.
#[derive(Clone, Debug, PartialEq)]
pub struct Delta {
    /// `text`, `reasoning`, `tool-call`, or one of the signs.
    pub kind: String,
    /// The new text; empty for a sign.
    pub text: String,
}

impl Delta {
    /// The sign that the reply is complete, though something that belongs to it may follow.
    pub const FINISHED: &str = "finished";
    /// The kind of a delta that says the same, though more of the reply may follow.
    pub const LIKELY_FINISHED: &str = "likely-finished";
    /// The sign that nothing that follows in the response counts.
    pub const END: &str = "end";
}

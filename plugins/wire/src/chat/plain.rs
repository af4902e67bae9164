//! Messages with texts and calls only, as most are, written and read without a [`Value`], which takes several times
//! as long.

use mswea_sdk::types::{ContentPart, Message, Reply, ToolCall};
use serde::de::IgnoredAny;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::response::{id_of_call, usage};

/// A call, as it is written.
#[derive(Serialize)]
pub(super) struct PlainCall<'a> {
    id: &'a str,
    r#type: &'static str,
    function: PlainFunction<'a>,
}

#[derive(Serialize)]
struct PlainFunction<'a> {
    name: &'a str,
    arguments: &'a str,
}

impl<'a> PlainCall<'a> {
    pub(super) fn new(id: &'a str, name: &'a str, arguments: &'a str) -> Self {
        Self {
            id,
            r#type: "function",
            function: PlainFunction { name, arguments },
        }
    }
}

/// Null, or no value.
pub(super) type Nothing = Option<Never>;

/// A type without values.
#[derive(Deserialize)]
pub(super) enum Never {}

#[derive(Deserialize)]
struct Completion {
    choices: Vec<Choice>,
    model: Option<String>,
    usage: Option<Value>,
}

#[derive(Deserialize)]
struct Choice {
    message: Answer,
    finish_reason: Option<String>,
    #[serde(rename = "error")]
    _error: Nothing,
}

/// The keys of a message. A server may list further ones that it has no value for.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Answer {
    #[serde(rename = "role")]
    _role: Option<IgnoredAny>,
    content: Option<String>,
    tool_calls: Option<Vec<Call>>,
    #[serde(rename = "refusal")]
    _refusal: Nothing,
    #[serde(rename = "annotations")]
    _annotations: Option<[IgnoredAny; 0]>,
    #[serde(rename = "audio")]
    _audio: Nothing,
    #[serde(rename = "function_call")]
    _function_call: Nothing,
    #[serde(rename = "reasoning_content")]
    _reasoning_content: Nothing,
    #[serde(rename = "reasoning")]
    _reasoning: Nothing,
}

/// A call, or a piece of one.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Call {
    pub index: Option<u64>,
    pub id: Option<String>,
    #[serde(rename = "type")]
    _type: Option<IgnoredAny>,
    #[serde(default)]
    pub function: Function,
}

#[derive(Default, Deserialize)]
pub(super) struct Function {
    pub name: Option<String>,
    pub arguments: Option<String>,
}

/// The reply in a `chat.completion` object, as [`super::response::reply`] makes it, without the response itself. None
/// if the completion has anything else than texts and calls.
pub(super) fn reply(completion: &str, history_len: usize) -> Option<Reply> {
    let completion: Completion = serde_json::from_str(completion).ok()?;
    let choice = completion.choices.into_iter().next()?;
    let calls = choice.message.tool_calls.unwrap_or_default();
    let calls = calls.into_iter().map(|call| ToolCall {
        id: call.id.unwrap_or_default(),
        name: call.function.name.unwrap_or_default(),
        arguments: call.function.arguments.unwrap_or_default(),
        extra: None,
    });
    Some(reply_of(PlainReply {
        content: choice.message.content,
        calls: calls.collect(),
        finish_reason: choice.finish_reason.unwrap_or_default(),
        model: completion.model.unwrap_or_default(),
        usage: completion.usage.as_ref(),
        history_len,
    }))
}

/// The parts of a reply.
pub(super) struct PlainReply<'a> {
    pub content: Option<String>,
    pub calls: Vec<ToolCall>,
    pub finish_reason: String,
    pub model: String,
    pub usage: Option<&'a Value>,
    pub history_len: usize,
}

/// The reply with these parts, without the response.
pub(super) fn reply_of(mut parts: PlainReply<'_>) -> Reply {
    if parts.finish_reason == "stop" && !parts.calls.is_empty() {
        "tool_calls".clone_into(&mut parts.finish_reason);
    }
    for (index, call) in parts.calls.iter_mut().enumerate() {
        if call.id.is_empty() {
            call.id = id_of_call(parts.history_len, index);
        }
    }
    Reply {
        message: Message {
            role: "assistant".to_owned(),
            content: parts.content.map(ContentPart::Text).into_iter().collect(),
            tool_calls: parts.calls,
            tool_call_id: None,
            extra: None,
        },
        finish_reason: parts.finish_reason,
        usage: parts.usage.and_then(usage),
        model: parts.model,
        response: None,
        extra: None,
    }
}

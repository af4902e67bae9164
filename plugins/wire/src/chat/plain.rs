//! Messages with texts and calls only, as most are, written and read without a [`Value`], which takes several times
//! as long.

use std::fmt;

use mswea_sdk::types::{ContentPart, Message, Reply, ToolCall};
use serde::de::{Deserializer, IgnoredAny, Visitor};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::usage::usage;

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

/// A text, a number, a truth value or null, which is not used.
pub(super) struct Scalar;

impl<'de> Deserialize<'de> for Scalar {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(ScalarVisitor)
    }
}

struct ScalarVisitor;

impl Visitor<'_> for ScalarVisitor {
    type Value = Scalar;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a text, a number, a truth value or null")
    }

    fn visit_str<E>(self, _: &str) -> Result<Scalar, E> {
        Ok(Scalar)
    }

    fn visit_bool<E>(self, _: bool) -> Result<Scalar, E> {
        Ok(Scalar)
    }

    fn visit_u64<E>(self, _: u64) -> Result<Scalar, E> {
        Ok(Scalar)
    }

    fn visit_i64<E>(self, _: i64) -> Result<Scalar, E> {
        Ok(Scalar)
    }

    fn visit_f64<E>(self, _: f64) -> Result<Scalar, E> {
        Ok(Scalar)
    }

    fn visit_unit<E>(self) -> Result<Scalar, E> {
        Ok(Scalar)
    }
}

/// An object. Derived types alone would also take a list, of their fields' values.
#[derive(Default)]
pub(super) struct Object<T>(pub T);

impl<'de, T: Deserialize<'de>> Deserialize<'de> for Object<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(ObjectVisitor(std::marker::PhantomData))
    }
}

struct ObjectVisitor<T>(std::marker::PhantomData<T>);

impl<'de, T: Deserialize<'de>> Visitor<'de> for ObjectVisitor<T> {
    type Value = Object<T>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: serde::de::MapAccess<'de>>(self, map: A) -> Result<Self::Value, A::Error> {
        T::deserialize(serde::de::value::MapAccessDeserializer::new(map)).map(Object)
    }
}

/// A completion. Values of other keys are not skipped: they may be what a [`Value`] can't hold (deep lists, numbers
/// that are too large), and the response as a whole has to be one.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Completion {
    choices: Vec<Object<Choice>>,
    model: Option<String>,
    usage: Option<Value>,
    #[serde(rename = "id")]
    _id: Option<Scalar>,
    #[serde(rename = "object")]
    _object: Option<Scalar>,
    #[serde(rename = "created")]
    _created: Option<Scalar>,
    #[serde(rename = "system_fingerprint")]
    _system_fingerprint: Option<Scalar>,
    #[serde(rename = "service_tier")]
    _service_tier: Option<Scalar>,
    #[serde(rename = "provider")]
    _provider: Option<Scalar>,
    #[serde(rename = "prompt_logprobs")]
    _prompt_logprobs: Nothing,
    #[serde(rename = "prompt_token_ids")]
    _prompt_token_ids: Nothing,
    #[serde(rename = "kv_transfer_params")]
    _kv_transfer_params: Nothing,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Choice {
    message: Object<Answer>,
    finish_reason: Option<String>,
    #[serde(rename = "index")]
    _index: Option<Scalar>,
    #[serde(rename = "native_finish_reason")]
    _native_finish_reason: Option<Scalar>,
    #[serde(rename = "error")]
    _error: Nothing,
    #[serde(rename = "logprobs")]
    _logprobs: Nothing,
    #[serde(rename = "stop_reason")]
    _stop_reason: Nothing,
    #[serde(rename = "token_ids")]
    _token_ids: Nothing,
}

/// The keys of a message. A server may list further ones that it has no value for.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Answer {
    #[serde(rename = "role")]
    _role: Option<Scalar>,
    content: Option<String>,
    tool_calls: Option<Vec<Object<Call>>>,
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
    _type: Option<Scalar>,
    #[serde(default)]
    pub function: Object<Function>,
}

#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Function {
    pub name: Option<String>,
    pub arguments: Option<String>,
}

/// The id of a call without one.
pub(super) fn id_of_call(history_len: usize, index: usize) -> String {
    format!("call_{history_len}_{index}")
}

/// The reply in a `chat.completion` object, as [`super::response::reply`] makes it, without the response itself. None
/// if the completion has anything else than texts and calls.
pub(super) fn reply(completion: &str, history_len: usize) -> Option<Reply> {
    let Object(completion): Object<Completion> = serde_json::from_str(completion).ok()?;
    let Object(choice) = completion.choices.into_iter().next()?;
    let Object(message) = choice.message;
    let calls = message.tool_calls.unwrap_or_default();
    let calls = calls.into_iter().map(|Object(call)| ToolCall {
        id: call.id.unwrap_or_default(),
        name: call.function.0.name.unwrap_or_default(),
        arguments: call.function.0.arguments.unwrap_or_default(),
        extra: None,
    });
    Some(reply_of(PlainReply {
        content: message.content,
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

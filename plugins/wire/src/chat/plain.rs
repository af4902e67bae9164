//! Messages with texts and calls only, as most are, written and read without a [`Value`], which takes several times
//! as long.

use std::fmt;
use std::marker::PhantomData;

use mswea_sdk::types::{ContentPart, Message, Reply, ToolCall};
use serde::de::value::MapAccessDeserializer;
use serde::de::{Deserializer, Error as _, IgnoredAny, MapAccess, Visitor};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::usage::usage;
use crate::json::text;
use crate::repair;

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
type Nothing = Option<Never>;

/// A type without values.
#[derive(Deserialize)]
enum Never {}

/// A text, a number, a truth value or null, which is not used.
struct Scalar;

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
        deserializer.deserialize_map(ObjectVisitor(PhantomData))
    }
}

struct ObjectVisitor<T>(PhantomData<T>);

impl<'de, T: Deserialize<'de>> Visitor<'de> for ObjectVisitor<T> {
    type Value = Object<T>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Self::Value, A::Error> {
        T::deserialize(MapAccessDeserializer::new(map)).map(Object)
    }
}

/// A completion, or a chunk of one.
#[derive(Default)]
pub(super) struct Completion {
    /// Its keys other than these, which are not known yet. They are values, because the response as a whole has to be
    /// one.
    pub top: Map<String, Value>,
    pub choice: Option<Choice>,
    pub usage: Option<Map<String, Value>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Choice {
    index: Option<u64>,
    /// In a completion.
    pub message: Option<Object<Answer>>,
    /// In a chunk.
    pub delta: Option<Object<Answer>>,
    pub finish_reason: Option<String>,
    #[serde(rename = "error")]
    _error: Nothing,
    #[serde(rename = "logprobs")]
    _logprobs: Nothing,
    #[serde(rename = "matched_stop")]
    _matched_stop: Nothing,
    #[serde(rename = "native_finish_reason")]
    _native_finish_reason: Nothing,
    #[serde(rename = "stop_reason")]
    _stop_reason: Nothing,
    #[serde(rename = "token_ids")]
    _token_ids: Nothing,
}

/// A message, or a part of one. A server may list further keys that it has no value for.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Answer {
    #[serde(rename = "role")]
    _role: Option<Scalar>,
    pub content: Option<String>,
    pub reasoning_content: Option<String>,
    pub tool_calls: Option<Vec<Object<Call>>>,
    /// An empty list.
    pub annotations: Option<[IgnoredAny; 0]>,
    #[serde(rename = "audio")]
    _audio: Nothing,
    #[serde(rename = "function_call")]
    _function_call: Nothing,
    #[serde(rename = "reasoning")]
    _reasoning: Nothing,
    #[serde(rename = "refusal")]
    _refusal: Nothing,
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

/// The completion, or the chunk, in `data`; None if it has anything else than texts and calls. The keys of `known` are
/// skipped: every chunk repeats the id, the model and so on.
pub(super) fn completion(data: &str, known: &Map<String, Value>) -> Option<Completion> {
    let mut reader = serde_json::Deserializer::from_str(data);
    let completion = reader.deserialize_map(CompletionVisitor(known)).ok()?;
    reader.end().ok()?;
    Some(completion)
}

struct CompletionVisitor<'a>(&'a Map<String, Value>);

impl<'de> Visitor<'de> for CompletionVisitor<'_> {
    type Value = Completion;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a completion with texts and calls only")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Completion, A::Error> {
        let other = || A::Error::custom("something else");
        let mut completion = Completion::default();
        while let Some(key) = map.next_key::<&str>()? {
            match key {
                "choices" if completion.choice.is_none() => {
                    let mut choices: Vec<Object<Choice>> = map.next_value()?;
                    completion.choice = choices.pop().map(|Object(choice)| choice);
                    let index = completion.choice.as_ref().and_then(|choice| choice.index);
                    if !choices.is_empty() || index.is_some_and(|index| index > 0) {
                        return Err(other());
                    }
                }
                "object" => {
                    if map.next_value::<&str>()? == "error" {
                        return Err(other());
                    }
                }
                "usage" => completion.usage = map.next_value()?,
                // Errors (the last one is MiniMax's), and Groq's usage, which comes in a later chunk.
                "choices" | "error" | "x_groq" | "base_resp" => return Err(other()),
                // Few keys: comparing them takes less time than computing a hash. The value is not checked: the
                // response has the first one.
                known if self.0.keys().take(16).any(|it| it == known) => {
                    map.next_value::<IgnoredAny>()?;
                }
                _ => {
                    let value: Value = map.next_value()?;
                    if completion.top.insert(key.to_owned(), value).is_some() {
                        return Err(other());
                    }
                }
            }
        }
        Ok(completion)
    }
}

/// The reply in a `chat.completion` object, as [`super::response::reply`] makes it. None if the completion has anything
/// else than texts and calls.
pub(super) fn reply(response: &str, history_len: usize) -> Option<Reply> {
    let Completion { top, choice, usage } = completion(response, &Map::new())?;
    let Choice {
        message: Some(Object(message)),
        delta: None,
        finish_reason,
        ..
    } = choice?
    else {
        return None;
    };
    if message.reasoning_content.is_some() {
        return None;
    }
    let calls = message.tool_calls.unwrap_or_default();
    let calls = calls.into_iter().map(|Object(call)| ToolCall {
        id: call.id.unwrap_or_default(),
        name: call.function.0.name.unwrap_or_default(),
        arguments: call.function.0.arguments.unwrap_or_default(),
        extra: None,
    });
    let usage = usage.map(Value::Object);
    Some(reply_of(PlainReply {
        content: message.content,
        calls: calls.collect(),
        finish_reason: finish_reason.unwrap_or_default(),
        model: text(top.get("model")).to_owned(),
        usage: usage.as_ref(),
        response: response.to_owned(),
        history_len,
    }))
}

/// The reason as litellm gives it: a missing or unknown one is `stop`, and `stop` of tool calls is
/// `tool_calls`.
pub(super) fn reason(given: &str, has_calls: bool) -> &'static str {
    match given {
        "length" | "max_tokens" | "MAX_TOKENS" => "length",
        "content_filter"
        | "content_filtered"
        | "guardrail_intervened"
        | "SAFETY"
        | "RECITATION" => "content_filter",
        "tool_calls" | "tool_use" => "tool_calls",
        "function_call" => "function_call",
        "error" => "error",
        _ if has_calls => "tool_calls",
        _ => "stop",
    }
}

/// The parts of a reply.
pub(super) struct PlainReply<'a> {
    pub content: Option<String>,
    pub calls: Vec<ToolCall>,
    pub finish_reason: String,
    pub model: String,
    pub usage: Option<&'a Value>,
    pub response: String,
    pub history_len: usize,
}

/// The reply with these parts.
pub(super) fn reply_of(mut parts: PlainReply<'_>) -> Reply {
    let finish_reason = reason(&parts.finish_reason, !parts.calls.is_empty());
    let history_len = parts.history_len;
    repair::give_ids(&mut parts.calls, |index| id_of_call(history_len, index));
    Reply {
        message: Message {
            role: "assistant".to_owned(),
            content: parts.content.map(ContentPart::Text).into_iter().collect(),
            tool_calls: parts.calls,
            tool_call_id: None,
            extra: None,
        },
        finish_reason: finish_reason.to_owned(),
        usage: parts.usage.and_then(usage),
        model: parts.model,
        response: Some(parts.response),
        extra: None,
    }
}

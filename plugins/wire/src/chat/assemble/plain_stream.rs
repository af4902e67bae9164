//! Streams with texts and calls only, as most are: read and assembled without a [`Value`] where possible, which takes
//! several times as long.

use std::fmt;

use mswea_sdk::adapter::Delta;
use mswea_sdk::types::{Reply, ToolCall};
use serde::de::{Deserializer, Error as _, IgnoredAny, MapAccess, Visitor};
use serde::{Deserialize, Serialize, Serializer};
use serde_json::{Map, Value};

use super::super::plain::{
    Call as CallPiece, Nothing, Object, PlainCall, PlainReply, Scalar, reply_of,
};
use super::{Assembly, Call, merge};
use crate::json::{show, text};

/// A part of a stream.
#[derive(Default)]
struct Chunk {
    /// Its own keys that are not known yet.
    top: Map<String, Value>,
    choice: Option<ChunkChoice>,
    usage: Option<Map<String, Value>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ChunkChoice {
    index: Option<u64>,
    delta: Object<ChunkDelta>,
    finish_reason: Option<String>,
    #[serde(rename = "logprobs")]
    _logprobs: Nothing,
    #[serde(rename = "stop_reason")]
    _stop_reason: Nothing,
    #[serde(rename = "token_ids")]
    _token_ids: Nothing,
    #[serde(rename = "native_finish_reason")]
    _native_finish_reason: Nothing,
    #[serde(rename = "matched_stop")]
    _matched_stop: Nothing,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ChunkDelta {
    #[serde(rename = "role")]
    _role: Option<Scalar>,
    content: Option<String>,
    reasoning_content: Option<String>,
    tool_calls: Option<Vec<Object<CallPiece>>>,
    #[serde(rename = "refusal")]
    _refusal: Nothing,
    #[serde(rename = "function_call")]
    _function_call: Nothing,
    #[serde(rename = "reasoning")]
    _reasoning: Nothing,
}

/// The chunk in `data`. The keys of `known` are skipped: every chunk repeats the id, the model and so on.
fn chunk(data: &str, known: &Map<String, Value>) -> Option<Chunk> {
    let mut reader = serde_json::Deserializer::from_str(data);
    let chunk = reader.deserialize_map(ChunkVisitor(known)).ok()?;
    reader.end().ok()?;
    Some(chunk)
}

struct ChunkVisitor<'a>(&'a Map<String, Value>);

impl<'de> Visitor<'de> for ChunkVisitor<'_> {
    type Value = Chunk;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a chunk with texts and calls only")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Chunk, A::Error> {
        let other = || A::Error::custom("something else");
        let mut chunk = Chunk::default();
        while let Some(key) = map.next_key::<&str>()? {
            match key {
                "choices" if chunk.choice.is_none() => {
                    let mut choices: Vec<Object<ChunkChoice>> = map.next_value()?;
                    chunk.choice = choices.pop().map(|Object(choice)| choice);
                    let index = chunk.choice.as_ref().and_then(|choice| choice.index);
                    if !choices.is_empty() || index.is_some_and(|index| index > 0) {
                        return Err(other());
                    }
                }
                "object" => {
                    if map.next_value::<&str>()? == "error" {
                        return Err(other());
                    }
                }
                "usage" => chunk.usage = map.next_value()?,
                // Errors, and Groq's usage, which comes in a later chunk.
                "choices" | "error" | "x_groq" => return Err(other()),
                // Few keys: comparing them takes less time than computing a hash. The value is not checked: the
                // response has the first one.
                known if self.0.keys().take(16).any(|it| it == known) => {
                    map.next_value::<IgnoredAny>()?;
                }
                _ => {
                    let value: Value = map.next_value()?;
                    if chunk.top.insert(key.to_owned(), value).is_some() {
                        return Err(other());
                    }
                }
            }
        }
        Ok(chunk)
    }
}

impl Assembly {
    /// Takes a chunk; false if it has anything else than texts and calls.
    pub(super) fn take_plain(&mut self, data: &str, deltas: &mut Vec<Delta>) -> bool {
        let Some(chunk) = chunk(data, &self.top) else {
            return false;
        };
        for (key, value) in chunk.top {
            if !value.is_null() {
                self.top.entry(key).or_insert(value);
            }
        }
        if let Some(usage) = chunk.usage {
            self.usage = Value::Object(usage);
        }
        let Some(ChunkChoice {
            delta: Object(delta),
            finish_reason,
            ..
        }) = chunk.choice
        else {
            return true;
        };
        self.has_choice = true;
        if let Some(reason) = finish_reason {
            self.finish_reason = Some(Value::String(reason));
        }
        // Reasoning first, also if a chunk has it after the text that it led to.
        if let Some(piece) = delta.reasoning_content {
            show(deltas, "reasoning", &piece);
            merge(&mut self.vendor, "reasoning_content", Value::String(piece));
        }
        if let Some(piece) = delta.content {
            self.take_text(&piece, deltas);
        }
        for Object(call) in delta.tool_calls.unwrap_or_default() {
            let name = call.function.0.name.unwrap_or_default();
            let arguments = call.function.0.arguments.unwrap_or_default();
            let id = call.id.unwrap_or_default();
            self.take_piece(call.index, id, &name, &arguments);
            show(deltas, "tool-call", &arguments);
        }
        true
    }

    /// The reply, as it is in [`crate::Assembly::into_response`]; None if it has anything else than texts and calls.
    pub(super) fn assembled(&self, history_len: usize) -> Option<Reply> {
        let is_plain = |call: &Call| call.vendor.is_empty();
        if !self.vendor.is_empty() || !self.thinking.is_empty() || !self.calls.iter().all(is_plain)
        {
            return None;
        }
        let calls = self.calls.iter().map(|call| ToolCall {
            id: call.id.clone(),
            name: call.name.clone(),
            arguments: call.arguments.clone(),
            extra: None,
        });
        let mut reply = reply_of(PlainReply {
            content: self.content.clone(),
            calls: calls.collect(),
            finish_reason: text(self.finish_reason.as_ref()).to_owned(),
            model: text(self.top.get("model")).to_owned(),
            usage: Some(&self.usage),
            history_len,
        });
        reply.response = serde_json::to_string(&Response::of(self)).ok();
        Some(reply)
    }
}

/// The response that the server would have sent at once.
#[derive(Serialize)]
struct Response<'a> {
    id: Option<&'a Value>,
    object: &'static str,
    created: Option<&'a Value>,
    model: Option<&'a Value>,
    choices: [ResponseChoice<'a>; 1],
    usage: &'a Value,
    #[serde(flatten)]
    rest: Rest<'a>,
}

#[derive(Serialize)]
struct ResponseChoice<'a> {
    index: u64,
    message: ResponseMessage<'a>,
    finish_reason: Option<&'a Value>,
    #[serde(flatten)]
    beside: &'a Map<String, Value>,
}

#[derive(Serialize)]
struct ResponseMessage<'a> {
    role: &'static str,
    content: Option<&'a str>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    tool_calls: Vec<PlainCall<'a>>,
}

/// The keys of the chunks that are not among the fields of [`Response`].
struct Rest<'a>(&'a Map<String, Value>);

impl Serialize for Rest<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let is_field = |key: &str| matches!(key, "id" | "created" | "model");
        serializer.collect_map(self.0.iter().filter(|(key, _)| !is_field(key)))
    }
}

impl<'a> Response<'a> {
    fn of(assembly: &'a Assembly) -> Self {
        let calls = assembly.calls.iter();
        let calls = calls.map(|call| PlainCall::new(&call.id, &call.name, &call.arguments));
        Self {
            id: assembly.top.get("id"),
            object: "chat.completion",
            created: assembly.top.get("created"),
            model: assembly.top.get("model"),
            choices: [ResponseChoice {
                index: 0,
                message: ResponseMessage {
                    role: "assistant",
                    content: assembly.content.as_deref(),
                    tool_calls: calls.collect(),
                },
                finish_reason: assembly.finish_reason.as_ref(),
                beside: &assembly.beside,
            }],
            usage: &assembly.usage,
            rest: Rest(&assembly.top),
        }
    }
}

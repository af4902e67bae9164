//! Streams with texts and calls only, as most are: read and assembled without a [`Value`] where possible, which takes
//! several times as long.

use mswea_sdk::adapter::Delta;
use mswea_sdk::types::{Reply, ToolCall};
use serde::{Serialize, Serializer};
use serde_json::{Map, Value};

use super::super::plain::{
    Choice, Completion, Object, PlainCall, PlainReply, completion, reply_of,
};
use super::{Assembly, Call, merge};
use crate::json::{show, text};

impl Assembly {
    /// Takes a chunk; false if it has anything else than texts and calls.
    pub(super) fn take_plain(&mut self, data: &str, deltas: &mut Vec<Delta>) -> bool {
        let Some(Completion { top, choice, usage }) = completion(data, &self.top) else {
            return false;
        };
        let delta = match choice {
            None => None,
            Some(Choice {
                message: None,
                delta: Some(Object(delta)),
                finish_reason,
                ..
            }) if delta.annotations.is_none() => Some((delta, finish_reason)),
            Some(_) => return false,
        };
        for (key, value) in top {
            if !value.is_null() {
                self.top.entry(key).or_insert(value);
            }
        }
        if let Some(usage) = usage {
            self.usage = Value::Object(usage);
        }
        let Some((delta, finish_reason)) = delta else {
            return true;
        };
        self.has_choice = true;
        self.take_reason(finish_reason.map(Value::String));
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
        let is_plain = |call: &Call| call.vendor.is_empty() && call.named_at.is_empty();
        let has_more = !self.vendor.is_empty() || !self.blocks.is_empty();
        if has_more || !self.thinking.is_empty() || !self.calls.iter().all(is_plain) {
            return None;
        }
        let calls = self.calls.iter().map(|call| ToolCall {
            id: call.id.clone(),
            name: call.name.clone(),
            arguments: call.arguments.clone(),
            extra: None,
        });
        Some(reply_of(PlainReply {
            content: self.content.clone(),
            calls: calls.collect(),
            finish_reason: text(self.finish_reason.as_ref()).to_owned(),
            model: text(self.top.get("model")).to_owned(),
            usage: Some(&self.usage),
            response: serde_json::to_string(&Response::of(self)).ok()?,
            history_len,
        }))
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

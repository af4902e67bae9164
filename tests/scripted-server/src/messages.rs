//! The bytes of Anthropic's Messages API: the same replies, streams and errors as in `wire`.

use serde_json::{Value, json};

use crate::pieces::pieces;
use crate::request::Asked;
use crate::turn::{Turn, Usage};

/// The content of a reply, from which every API's bytes are made.
pub(crate) struct Said<'a> {
    pub(crate) asked: &'a Asked,
    pub(crate) reasoning: Option<&'a str>,
    pub(crate) text: Option<&'a str>,
    /// Calls in the shape of chat completions.
    pub(crate) calls: &'a [Value],
    pub(crate) finish_reason: &'a str,
    pub(crate) usage: Option<Usage>,
}

impl Said<'_> {
    fn blocks(&self) -> Vec<Value> {
        let mut blocks = Vec::new();
        if let Some(reasoning) = self.reasoning {
            blocks.push(json!({
                "type": "thinking", "thinking": reasoning,
                "signature": format!("signature-{}", self.asked.assistant_messages),
            }));
        }
        if let Some(text) = self.text {
            blocks.push(json!({"type": "text", "text": text}));
        }
        for call in self.calls {
            let function = &call["function"];
            let arguments = function["arguments"].as_str().unwrap_or_default();
            blocks.push(json!({
                "type": "tool_use", "id": call["id"], "name": function["name"],
                "input": serde_json::from_str::<Value>(arguments).unwrap_or_else(|_| json!(arguments)),
            }));
        }
        blocks
    }

    fn stop_reason(&self) -> &str {
        match self.finish_reason {
            "stop" => "end_turn",
            "length" => "max_tokens",
            "tool_calls" => "tool_use",
            "content_filter" => "refusal",
            other => other,
        }
    }

    /// The message object. A fault leaves its content out.
    fn message(&self, content: Option<Value>, stop_reason: Option<&str>) -> Value {
        let mut out = json!({
            "id": format!("msg_{}", self.asked.assistant_messages),
            "type": "message",
            "role": "assistant",
            "model": self.asked.model,
        });
        if let Some(content) = content {
            out["content"] = content;
        }
        out["stop_reason"] = json!(stop_reason);
        out["stop_sequence"] = Value::Null;
        if let Some(usage) = &self.usage {
            let is_end = stop_reason.is_some();
            out["usage"] = json!({
                "input_tokens": usage.prompt_tokens - usage.cached_tokens.min(usage.prompt_tokens),
                "cache_creation_input_tokens": 0,
                "cache_read_input_tokens": usage.cached_tokens,
                "output_tokens": if is_end { usage.completion_tokens } else { 1 },
            });
        }
        out
    }

    /// The whole reply as one JSON object.
    pub(crate) fn whole(&self) -> Value {
        self.message(Some(json!(self.blocks())), Some(self.stop_reason()))
    }

    /// A message with other content, or without any.
    pub(crate) fn with_content(&self, content: Option<Value>) -> Value {
        self.message(content, Some(self.stop_reason()))
    }

    /// The reply as the events of a stream.
    pub(crate) fn events(&self) -> Vec<String> {
        let mut events = vec![
            event(
                &json!({"type": "message_start", "message": self.message(Some(json!([])), None)}),
            ),
            event(&json!({"type": "ping"})),
        ];
        for (index, block) in self.blocks().iter().enumerate() {
            block_events(&mut events, index, block);
        }
        self.end(&mut events);
        events
    }

    /// A stream of a message with other content, or without any.
    pub(crate) fn lone_event(&self, content: Option<Value>) -> Vec<String> {
        let message = self.message(content, None);
        let mut events = vec![event(&json!({"type": "message_start", "message": message}))];
        self.end(&mut events);
        events
    }

    /// The last two events: what a stream without an end lacks.
    fn end(&self, events: &mut Vec<String>) {
        let mut delta = json!({
            "type": "message_delta",
            "delta": {"stop_reason": self.stop_reason(), "stop_sequence": null},
        });
        if let Some(usage) = &self.usage {
            delta["usage"] = json!({"output_tokens": usage.completion_tokens});
        }
        events.push(event(&delta));
        events.push(event(&json!({"type": "message_stop"})));
    }
}

/// The events of one block.
fn block_events(events: &mut Vec<String>, index: usize, block: &Value) {
    let mut start = block.clone();
    let mut deltas = Vec::new();
    let text = |key: &str| block[key].as_str().unwrap_or_default().to_owned();
    match block["type"].as_str() {
        Some("text") => {
            start["text"] = json!("");
            for piece in pieces(&text("text")) {
                deltas.push(json!({"type": "text_delta", "text": piece}));
            }
        }
        Some("thinking") => {
            start["thinking"] = json!("");
            start["signature"] = json!("");
            for piece in pieces(&text("thinking")) {
                deltas.push(json!({"type": "thinking_delta", "thinking": piece}));
            }
            deltas.push(json!({"type": "signature_delta", "signature": block["signature"]}));
        }
        _ => {
            start["input"] = json!({});
            let input = match &block["input"] {
                Value::String(text) => text.clone(),
                input => input.to_string(),
            };
            for piece in pieces(&input) {
                deltas.push(json!({"type": "input_json_delta", "partial_json": piece}));
            }
        }
    }
    events.push(event(
        &json!({"type": "content_block_start", "index": index, "content_block": start}),
    ));
    for delta in deltas {
        events.push(event(
            &json!({"type": "content_block_delta", "index": index, "delta": delta}),
        ));
    }
    events.push(event(
        &json!({"type": "content_block_stop", "index": index}),
    ));
}

/// The event of an endless stream.
pub(crate) fn delta_event(text: &str) -> String {
    event(&json!({
        "type": "content_block_delta", "index": 0,
        "delta": {"type": "text_delta", "text": text},
    }))
}

/// One event of a stream, named after its type.
pub(crate) fn event(data: &Value) -> String {
    let name = data["type"].as_str().unwrap_or_default();
    format!("event: {name}\ndata: {data}\n\n")
}

/// The error object for a status: the turn's own, or the one that Anthropic uses.
pub(crate) fn error(turn: &Turn, status: u16) -> Value {
    let (kind, message) = match status {
        401 => ("authentication_error", "invalid x-api-key"),
        403 => ("permission_error", "the key may not use this model"),
        404 => ("not_found_error", "the model does not exist"),
        408 | 504 => ("timeout_error", "the request took too long"),
        413 => ("request_too_large", "the request is too large"),
        429 => ("rate_limit_error", "rate limit reached"),
        503 | 529 => ("overloaded_error", "the server is overloaded"),
        400..=499 => ("invalid_request_error", "the request is not valid"),
        _ => ("api_error", "the server had an error"),
    };
    let mut error = json!({"type": kind, "message": message});
    match &turn.error {
        Some(Value::Object(fields)) => {
            for (name, value) in fields {
                error[name] = value.clone();
            }
        }
        Some(Value::String(message)) => error["message"] = json!(message),
        Some(other) => error = other.clone(),
        None => {}
    }
    json!({"type": "error", "error": error, "request_id": "req_1"})
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::request::Dialect;
    use crate::wire::Reply;

    fn asked() -> Asked {
        Asked {
            model: "m".to_owned(),
            stream: true,
            dialect: Dialect::Messages,
            assistant_messages: 3,
            ..Asked::default()
        }
    }

    fn turn(text: &str) -> Turn {
        Turn::commands(&["ls"])
            .with_text(text)
            .with_reasoning("hm")
            .with_usage(Usage {
                prompt_tokens: 7,
                completion_tokens: 5,
                cached_tokens: 2,
                reasoning_tokens: 1,
                cost: None,
            })
    }

    #[test]
    fn whole_replies_have_the_documented_form() {
        assert_eq!(
            Reply::new(&turn("hi"), &asked()).whole(),
            json!({
                "id": "msg_3", "type": "message", "role": "assistant", "model": "m",
                "content": [
                    {"type": "thinking", "thinking": "hm", "signature": "signature-3"},
                    {"type": "text", "text": "hi"},
                    {"type": "tool_use", "id": "call_3_0", "name": "bash", "input": {"command": "ls"}},
                ],
                "stop_reason": "tool_use", "stop_sequence": null,
                "usage": {"input_tokens": 5, "cache_creation_input_tokens": 0,
                    "cache_read_input_tokens": 2, "output_tokens": 5},
            })
        );
    }

    #[test]
    fn streams_add_up_to_the_reply() {
        let long = "äöü 𝄞 ".repeat(40);
        let turn = turn(&long);
        let asked = asked();
        let reply = Reply::new(&turn, &asked);
        let mut blocks: Vec<Value> = Vec::new();
        let mut input = String::new();
        for event in reply.events() {
            let (name, data) = event.trim_end().split_once('\n').unwrap();
            let data: Value = serde_json::from_str(data.strip_prefix("data: ").unwrap()).unwrap();
            assert_eq!(name, format!("event: {}", data["type"].as_str().unwrap()));
            if data["type"] == "content_block_start" {
                blocks.push(data["content_block"].clone());
            }
            let delta = &data["delta"];
            for key in ["text", "thinking", "signature"] {
                if let Some(piece) = delta[key].as_str() {
                    let block = blocks.last_mut().unwrap();
                    let known = block[key].as_str().unwrap().to_owned();
                    block[key] = json!(known + piece);
                }
            }
            input += delta["partial_json"].as_str().unwrap_or_default();
        }
        blocks[2]["input"] = serde_json::from_str(&input).unwrap();
        assert_eq!(json!(blocks), reply.whole()["content"]);
    }

    #[test]
    fn errors_carry_what_the_turn_says() {
        for (turn, status, kind, message) in [
            (
                Turn::status(529),
                529,
                "overloaded_error",
                "the server is overloaded",
            ),
            (
                Turn::error(400, "x", "prompt is too long"),
                400,
                "invalid_request_error",
                "prompt is too long",
            ),
        ] {
            let error = error(&turn, status);
            assert_eq!(error["type"], "error");
            assert_eq!(error["error"]["type"], kind);
            assert_eq!(error["error"]["message"], message);
        }
    }
}

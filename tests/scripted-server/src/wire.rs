//! The bytes of OpenAI's chat completions: whole replies, streams, errors.

use serde_json::{Value, json};

use crate::gemini;
use crate::messages::{self, Said};
use crate::pieces::pieces;
use crate::request::{Asked, Dialect};
use crate::responses;
use crate::turn::{Turn, Usage};

/// A fixed time, so that two runs of a scenario give the same bytes.
const CREATED: u64 = 1_700_000_000;

/// The reply of a turn to a request.
pub(crate) struct Reply<'a> {
    turn: &'a Turn,
    asked: &'a Asked,
    calls: Vec<Value>,
}

impl<'a> Reply<'a> {
    pub(crate) fn new(turn: &'a Turn, asked: &'a Asked) -> Self {
        let commands = turn
            .commands
            .iter()
            .map(|command| (None, "bash", json!({ "command": command }).to_string()));
        let others = turn.tool_calls.iter().map(|call| {
            let arguments = match &call.arguments {
                Value::String(text) => text.clone(),
                value => value.to_string(),
            };
            (call.id.clone(), call.name.as_str(), arguments)
        });
        let calls = commands
            .chain(others)
            .enumerate()
            .map(|(index, (id, name, arguments))| {
                // The position in the conversation gives ids that are unique in it and the same in
                // every run.
                let id = id.unwrap_or_else(|| format!("call_{}_{index}", asked.assistant_messages));
                json!({"id": id, "type": "function", "function": {"name": name, "arguments": arguments}})
            })
            .collect();
        Self { turn, asked, calls }
    }

    fn text(&self) -> Option<&str> {
        let turn = self.turn;
        match &turn.text {
            Some(text) => Some(text),
            // A fault without content gets some text to damage.
            None if turn.reasoning.is_none() && self.calls.is_empty() => {
                Some("This reply is here to be damaged on its way to the client.")
            }
            None => None,
        }
    }

    fn finish_reason(&self) -> &str {
        match &self.turn.finish_reason {
            Some(reason) => reason,
            None if self.calls.is_empty() => "stop",
            None => "tool_calls",
        }
    }

    /// The content of the reply, if the request is for another API than chat completions.
    fn said(&self) -> Option<Said<'_>> {
        (self.asked.dialect != Dialect::Chat).then(|| Said {
            asked: self.asked,
            reasoning: self.turn.reasoning.as_deref(),
            text: self.text(),
            calls: &self.calls,
            finish_reason: self.finish_reason(),
            usage: (!self.turn.no_usage).then(|| self.turn.usage.clone().unwrap_or_default()),
        })
    }

    /// The error object for a status.
    pub(crate) fn error(&self, status: u16) -> Value {
        match self.asked.dialect {
            Dialect::Chat | Dialect::Responses => error(self.turn, status),
            Dialect::Gemini => gemini::error(&error(self.turn, status), status),
            Dialect::Messages => messages::error(self.turn, status),
        }
    }

    /// One event with these data.
    pub(crate) fn foreign_event(&self, data: &Value) -> String {
        match self.asked.dialect {
            Dialect::Chat => event(data),
            Dialect::Responses => responses::error_event(data),
            Dialect::Gemini => gemini::event(data),
            Dialect::Messages => messages::event(data),
        }
    }

    fn usage(&self) -> Option<Value> {
        if self.turn.no_usage {
            return None;
        }
        let usage = self.turn.usage.clone().unwrap_or_default();
        Some(usage_json(&usage))
    }

    fn id(&self) -> String {
        format!("chatcmpl-{}", self.asked.assistant_messages)
    }

    /// The whole reply as one JSON object.
    pub(crate) fn whole(&self) -> Value {
        if let Some(said) = self.said() {
            return match self.asked.dialect {
                Dialect::Responses => responses::whole(&said),
                Dialect::Gemini => gemini::whole(&said),
                _ => said.whole(),
            };
        }
        let mut message = json!({"role": "assistant", "content": self.text()});
        if let Some(reasoning) = &self.turn.reasoning {
            message["reasoning_content"] = json!(reasoning);
        }
        if !self.calls.is_empty() {
            message["tool_calls"] = json!(self.calls);
        }
        self.completion(Some(json!([
            {"index": 0, "message": message, "finish_reason": self.finish_reason()}
        ])))
    }

    /// A completion with other choices, or without any.
    pub(crate) fn completion(&self, choices: Option<Value>) -> Value {
        if let Some(said) = self.said() {
            return match self.asked.dialect {
                Dialect::Responses => responses::with_output(&said, choices),
                Dialect::Gemini => gemini::with_candidates(&said, choices),
                _ => said.with_content(choices),
            };
        }
        let mut out = json!({
            "id": self.id(),
            "object": "chat.completion",
            "created": CREATED,
            "model": self.asked.model,
        });
        if let Some(choices) = choices {
            out["choices"] = choices;
        }
        if let Some(usage) = self.usage() {
            out["usage"] = usage;
        }
        out
    }

    /// The reply as the events of a stream, the last one being `[DONE]`.
    pub(crate) fn events(&self) -> Vec<String> {
        if let Some(said) = self.said() {
            return match self.asked.dialect {
                Dialect::Responses => responses::events(&said),
                Dialect::Gemini => gemini::events(&said),
                _ => said.events(),
            };
        }
        let mut deltas = vec![json!({"role": "assistant", "content": ""})];
        for piece in pieces(self.turn.reasoning.as_deref().unwrap_or_default()) {
            deltas.push(json!({ "reasoning_content": piece }));
        }
        for piece in pieces(self.text().unwrap_or_default()) {
            deltas.push(json!({ "content": piece }));
        }
        for (index, call) in self.calls.iter().enumerate() {
            let name = &call["function"]["name"];
            deltas.push(json!({"tool_calls": [{
                "index": index, "id": call["id"], "type": "function",
                "function": {"name": name, "arguments": ""},
            }]}));
            for piece in pieces(call["function"]["arguments"].as_str().unwrap_or_default()) {
                deltas.push(json!({"tool_calls": [
                    {"index": index, "function": {"arguments": piece}}
                ]}));
            }
        }
        let mut events: Vec<String> = deltas
            .iter()
            .map(|delta| {
                self.event(Some(
                    json!([{"index": 0, "delta": delta, "finish_reason": null}]),
                ))
            })
            .collect();
        events.push(self.event(Some(json!([
            {"index": 0, "delta": {}, "finish_reason": self.finish_reason()}
        ]))));
        self.end(&mut events);
        events
    }

    /// A stream of one event with other choices, or without any.
    pub(crate) fn lone_event(&self, choices: Option<Value>) -> Vec<String> {
        if let Some(said) = self.said() {
            return match self.asked.dialect {
                Dialect::Responses => responses::lone_event(&said, choices),
                Dialect::Gemini => vec![gemini::event(&gemini::with_candidates(&said, choices))],
                _ => said.lone_event(choices),
            };
        }
        let mut events = vec![self.event(choices)];
        self.end(&mut events);
        events
    }

    /// The event of an endless stream.
    pub(crate) fn delta_event(&self, text: &str) -> String {
        match self.asked.dialect {
            Dialect::Messages => return messages::delta_event(text),
            Dialect::Responses => return responses::delta_event(text),
            Dialect::Gemini => return gemini::delta_event(text),
            Dialect::Chat => {}
        }
        self.event(Some(json!([
            {"index": 0, "delta": {"content": text}, "finish_reason": null}
        ])))
    }

    fn end(&self, events: &mut Vec<String>) {
        if self.asked.include_usage
            && let Some(usage) = self.usage()
        {
            let mut chunk = self.chunk(Some(json!([])));
            chunk["usage"] = usage;
            events.push(event(&chunk));
        }
        events.push("data: [DONE]\n\n".to_owned());
    }

    fn event(&self, choices: Option<Value>) -> String {
        let mut chunk = self.chunk(choices);
        if self.asked.include_usage {
            chunk["usage"] = Value::Null;
        }
        event(&chunk)
    }

    fn chunk(&self, choices: Option<Value>) -> Value {
        let mut out = json!({
            "id": self.id(),
            "object": "chat.completion.chunk",
            "created": CREATED,
            "model": self.asked.model,
        });
        if let Some(choices) = choices {
            out["choices"] = choices;
        }
        out
    }
}

/// One event of a stream.
fn event(data: &Value) -> String {
    format!("data: {data}\n\n")
}

/// The error object for a status: the turn's own, or the one that providers use.
fn error(turn: &Turn, status: u16) -> Value {
    let (kind, code, message) = match status {
        400 => (
            "invalid_request_error",
            "invalid_value",
            "the request is not valid",
        ),
        401 => (
            "invalid_request_error",
            "invalid_api_key",
            "incorrect API key provided",
        ),
        403 => (
            "permission_error",
            "forbidden",
            "the key may not use this model",
        ),
        404 => (
            "invalid_request_error",
            "model_not_found",
            "the model does not exist",
        ),
        408 => ("timeout", "timeout", "the request took too long"),
        429 => (
            "rate_limit_error",
            "rate_limit_exceeded",
            "rate limit reached",
        ),
        503 => ("server_error", "overloaded", "the server is overloaded"),
        _ => ("server_error", "internal_error", "the server had an error"),
    };
    let mut out = json!({"message": message, "type": kind, "param": null, "code": code});
    match &turn.error {
        Some(Value::Object(fields)) => {
            for (name, value) in fields {
                out[name] = value.clone();
            }
        }
        Some(Value::String(message)) => out["message"] = json!(message),
        Some(other) => return json!({ "error": other }),
        None => {}
    }
    json!({ "error": out })
}

/// A web page, as from a proxy or a wrong URL.
pub(crate) const PAGE: &str = "<!DOCTYPE html>\n<html><head><title>Bad gateway</title></head>\
     <body><h1>Bad gateway</h1><p>The server is on its way back.</p></body></html>\n";

fn usage_json(usage: &Usage) -> Value {
    let mut out = json!({
        "prompt_tokens": usage.prompt_tokens,
        "completion_tokens": usage.completion_tokens,
        "total_tokens": usage.prompt_tokens + usage.completion_tokens,
        "prompt_tokens_details": {"cached_tokens": usage.cached_tokens},
        "completion_tokens_details": {"reasoning_tokens": usage.reasoning_tokens},
    });
    if let Some(cost) = usage.cost {
        out["cost"] = json!(cost);
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asked(include_usage: bool) -> Asked {
        Asked {
            model: "m".to_owned(),
            stream: true,
            include_usage,
            dialect: Dialect::Chat,
            assistant_messages: 3,
        }
    }

    fn data(event: &str) -> Value {
        let text = event
            .strip_prefix("data: ")
            .and_then(|text| text.strip_suffix("\n\n"));
        serde_json::from_str(text.unwrap()).unwrap()
    }

    #[test]
    fn whole_replies_have_the_documented_form() {
        let turn = Turn::commands(&["ls"])
            .with_text("hi")
            .with_reasoning("hm")
            .with_usage(Usage {
                prompt_tokens: 7,
                completion_tokens: 5,
                cached_tokens: 2,
                reasoning_tokens: 1,
                cost: Some(0.25),
            });
        assert_eq!(
            Reply::new(&turn, &asked(false)).whole(),
            json!({
                "id": "chatcmpl-3", "object": "chat.completion", "created": CREATED, "model": "m",
                "choices": [{"index": 0, "finish_reason": "tool_calls", "message": {
                    "role": "assistant", "content": "hi", "reasoning_content": "hm",
                    "tool_calls": [{"id": "call_3_0", "type": "function",
                        "function": {"name": "bash", "arguments": "{\"command\":\"ls\"}"}}],
                }}],
                "usage": {"prompt_tokens": 7, "completion_tokens": 5, "total_tokens": 12,
                    "prompt_tokens_details": {"cached_tokens": 2},
                    "completion_tokens_details": {"reasoning_tokens": 1}, "cost": 0.25},
            })
        );
    }

    #[test]
    fn streams_add_up_to_the_reply() {
        let long = "äöü 𝄞 ".repeat(40);
        let turn = Turn::commands(&[long.as_str(), "ls"])
            .with_text(long.clone())
            .with_reasoning("think");
        for include_usage in [false, true] {
            let asked = asked(include_usage);
            let mut events = Reply::new(&turn, &asked).events();
            assert_eq!(events.pop().unwrap(), "data: [DONE]\n\n");
            if include_usage {
                let last = data(&events.pop().unwrap());
                assert_eq!(last["choices"], json!([]));
                assert_eq!(last["usage"]["total_tokens"], 110);
            }
            let (mut text, mut reasoning) = (String::new(), String::new());
            let mut arguments = vec![String::new(); 2];
            let mut reason = Value::Null;
            for event in &events {
                let chunk = data(event);
                assert_eq!(chunk.get("usage").is_some(), include_usage);
                let choice = &chunk["choices"][0];
                reason = choice["finish_reason"].clone();
                let delta = &choice["delta"];
                text += delta["content"].as_str().unwrap_or_default();
                reasoning += delta["reasoning_content"].as_str().unwrap_or_default();
                for call in delta["tool_calls"].as_array().unwrap_or(&Vec::new()) {
                    let index = usize::try_from(call["index"].as_u64().unwrap()).unwrap();
                    arguments[index] += call["function"]["arguments"].as_str().unwrap();
                }
            }
            assert_eq!((text, reasoning.as_str()), (long.clone(), "think"));
            assert_eq!(arguments[0], json!({ "command": long }).to_string());
            assert_eq!(arguments[1], r#"{"command":"ls"}"#);
            assert_eq!(reason, "tool_calls");
        }
    }

    #[test]
    fn errors_carry_what_the_turn_says() {
        let vectors = [
            (
                Turn::status(401),
                401,
                "incorrect API key provided",
                "invalid_api_key",
            ),
            (
                Turn::error(400, "context_length_exceeded", "too long"),
                400,
                "too long",
                "context_length_exceeded",
            ),
            (
                Turn {
                    error: Some(json!("oops")),
                    ..Turn::status(500)
                },
                500,
                "oops",
                "internal_error",
            ),
        ];
        for (turn, status, message, code) in vectors {
            let error = error(&turn, status);
            assert_eq!(error["error"]["message"], message);
            assert_eq!(error["error"]["code"], code);
        }
    }
}

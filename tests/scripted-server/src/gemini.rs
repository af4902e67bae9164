//! The bytes of Gemini's `generateContent`: the same replies, streams and errors as in `wire`, as
//! parts.

use serde_json::{Value, json};

use crate::messages::Said;
use crate::pieces::pieces;

/// The parts of a reply; the first call is signed.
fn parts(said: &Said<'_>) -> Vec<Value> {
    let mut parts = Vec::new();
    if let Some(reasoning) = said.reasoning {
        parts.push(json!({"text": reasoning, "thought": true}));
    }
    if let Some(text) = said.text {
        parts.push(json!({ "text": text }));
    }
    for (index, call) in said.calls.iter().enumerate() {
        let function = &call["function"];
        let arguments = function["arguments"].as_str().unwrap_or_default();
        let arguments = match serde_json::from_str(arguments) {
            Ok(arguments @ Value::Object(_)) => arguments,
            _ => json!({ "arguments": arguments }),
        };
        let mut part = json!({"functionCall": {"name": function["name"], "args": arguments}});
        if index == 0 {
            let signature = format!("signature-{}", said.asked.assistant_messages);
            part["thoughtSignature"] = json!(signature);
        }
        parts.push(part);
    }
    parts
}

fn finish_reason<'a>(said: &Said<'a>) -> &'a str {
    match said.finish_reason {
        "stop" | "tool_calls" => "STOP",
        "length" => "MAX_TOKENS",
        "content_filter" => "SAFETY",
        other => other,
    }
}

/// A response with these candidates, or without any; counts come with the last.
fn response(said: &Said<'_>, candidates: Option<Value>, is_end: bool) -> Value {
    let mut out = json!({
        "modelVersion": said.asked.model,
        "responseId": format!("response-{}", said.asked.assistant_messages),
    });
    if let Some(candidates) = candidates {
        out["candidates"] = candidates;
    }
    if let Some(usage) = said.usage.as_ref().filter(|_| is_end) {
        let answer = usage.completion_tokens - usage.reasoning_tokens.min(usage.completion_tokens);
        out["usageMetadata"] = json!({
            "promptTokenCount": usage.prompt_tokens,
            "cachedContentTokenCount": usage.cached_tokens,
            "candidatesTokenCount": answer,
            "thoughtsTokenCount": usage.reasoning_tokens,
            "totalTokenCount": usage.prompt_tokens + answer + usage.reasoning_tokens,
        });
    }
    out
}

fn candidate(parts: &[Value], finish_reason: Option<&str>) -> Value {
    let mut candidate = json!({"content": {"parts": parts, "role": "model"}, "index": 0});
    if let Some(reason) = finish_reason {
        candidate["finishReason"] = json!(reason);
    }
    json!([candidate])
}

/// The whole reply as one JSON object.
pub(crate) fn whole(said: &Said<'_>) -> Value {
    let candidates = candidate(&parts(said), Some(finish_reason(said)));
    with_candidates(said, Some(candidates))
}

/// A response with other candidates, or without any.
pub(crate) fn with_candidates(said: &Said<'_>, candidates: Option<Value>) -> Value {
    response(said, candidates, true)
}

/// The reply as the events of a stream.
pub(crate) fn events(said: &Said<'_>) -> Vec<String> {
    let mut chunks = Vec::new();
    for part in parts(said) {
        let Some(text) = part["text"].as_str() else {
            chunks.push(part);
            continue;
        };
        for piece in pieces(text) {
            let mut chunk = part.clone();
            chunk["text"] = json!(piece);
            chunks.push(chunk);
        }
    }
    let mut events: Vec<String> = chunks
        .iter()
        .map(|part| {
            let candidates = candidate(std::slice::from_ref(part), None);
            event(&response(said, Some(candidates), false))
        })
        .collect();
    let candidates = candidate(&[], Some(finish_reason(said)));
    events.push(event(&response(said, Some(candidates), true)));
    events
}

/// The event of an endless stream.
pub(crate) fn delta_event(text: &str) -> String {
    let candidates = candidate(&[json!({ "text": text })], None);
    event(&json!({ "candidates": candidates }))
}

/// One event of a stream.
pub(crate) fn event(data: &Value) -> String {
    format!("data: {data}\r\n\r\n")
}

/// The error object for a status, from the one of chat completions.
pub(crate) fn error(chat: &Value, status: u16) -> Value {
    let word = match status {
        400 => "INVALID_ARGUMENT",
        401 => "UNAUTHENTICATED",
        403 => "PERMISSION_DENIED",
        404 => "NOT_FOUND",
        429 => "RESOURCE_EXHAUSTED",
        503 => "UNAVAILABLE",
        504 => "DEADLINE_EXCEEDED",
        _ => "INTERNAL",
    };
    let message = &chat["error"]["message"];
    json!({"error": {"code": status, "message": message, "status": word}})
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::request::{Asked, Dialect};
    use crate::turn::Turn;
    use crate::wire::Reply;

    #[test]
    fn streams_add_up_to_the_reply() {
        let long = "äöü 𝄞 ".repeat(40);
        let turn = Turn::commands(&["ls", "pwd"])
            .with_text(&long)
            .with_reasoning("hm");
        let asked = Asked {
            model: "m".to_owned(),
            stream: true,
            dialect: Dialect::Gemini,
            assistant_messages: 3,
            ..Asked::default()
        };
        let reply = Reply::new(&turn, &asked);
        let whole = reply.whole();
        let parts = &whole["candidates"][0]["content"]["parts"];
        assert_eq!(parts[0], json!({"text": "hm", "thought": true}));
        assert_eq!(parts[2]["thoughtSignature"], "signature-3");
        assert_eq!(
            parts[3],
            json!({"functionCall": {"name": "bash", "args": {"command": "pwd"}}})
        );
        let mut shown = String::new();
        let mut calls = Vec::new();
        let mut last = Value::Null;
        for event in reply.events() {
            last = serde_json::from_str(event.strip_prefix("data: ").unwrap()).unwrap();
            for part in last["candidates"][0]["content"]["parts"]
                .as_array()
                .unwrap()
            {
                match part["text"].as_str() {
                    Some(text) if part["thought"] != true => shown += text,
                    Some(_) => {}
                    None => calls.push(part.clone()),
                }
            }
        }
        assert_eq!(shown, long);
        assert_eq!(calls, parts.as_array().unwrap()[2..]);
        assert_eq!(last["candidates"][0]["finishReason"], "STOP");
        assert_eq!(last["usageMetadata"], whole["usageMetadata"]);
    }

    #[test]
    fn errors_have_googles_words() {
        let asked = Asked {
            dialect: Dialect::Gemini,
            ..Asked::default()
        };
        let turn = Turn::error(429, "x", "slow down");
        let error = Reply::new(&turn, &asked).error(429);
        assert_eq!(
            error,
            json!({"error": {"code": 429, "message": "slow down", "status": "RESOURCE_EXHAUSTED"}})
        );
    }
}

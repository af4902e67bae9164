//! The bytes of OpenAI's Responses API: the same replies and streams as in `wire`, as items.

use serde_json::{Value, json};

use crate::messages::{Said, event};
use crate::pieces::pieces;

/// The items of a reply.
fn items(said: &Said<'_>) -> Vec<Value> {
    let number = said.asked.assistant_messages;
    let mut items = Vec::new();
    if let Some(reasoning) = said.reasoning {
        items.push(json!({
            "id": format!("rs_{number}"), "type": "reasoning",
            "summary": [{"type": "summary_text", "text": reasoning}],
            "encrypted_content": format!("sealed-{number}"),
        }));
    }
    if let Some(text) = said.text {
        items.push(json!({
            "id": format!("msg_{number}"), "type": "message", "status": "completed",
            "role": "assistant",
            "content": [{"type": "output_text", "text": text, "annotations": []}],
        }));
    }
    for (index, call) in said.calls.iter().enumerate() {
        let function = &call["function"];
        items.push(json!({
            "id": format!("fc_{number}_{index}"), "type": "function_call", "status": "completed",
            "call_id": call["id"], "name": function["name"], "arguments": function["arguments"],
        }));
    }
    items
}

/// The response object. A fault leaves its output out.
fn response(said: &Said<'_>, output: Option<Value>, is_end: bool) -> Value {
    let reason = match said.finish_reason {
        "length" => Some("max_output_tokens"),
        "content_filter" => Some("content_filter"),
        _ => None,
    };
    let status = match reason {
        _ if !is_end => "in_progress",
        Some(_) => "incomplete",
        None => "completed",
    };
    let mut out = json!({
        "id": format!("resp_{}", said.asked.assistant_messages),
        "object": "response",
        "status": status,
        "error": null,
        "incomplete_details": reason.filter(|_| is_end).map(|reason| json!({ "reason": reason })),
        "model": said.asked.model,
    });
    if let Some(output) = output {
        out["output"] = output;
    }
    if let Some(usage) = said.usage.as_ref().filter(|_| is_end) {
        out["usage"] = json!({
            "input_tokens": usage.prompt_tokens,
            "input_tokens_details": {"cached_tokens": usage.cached_tokens},
            "output_tokens": usage.completion_tokens,
            "output_tokens_details": {"reasoning_tokens": usage.reasoning_tokens},
            "total_tokens": usage.prompt_tokens + usage.completion_tokens,
        });
        if let Some(cost) = usage.cost {
            out["usage"]["cost"] = json!(cost);
        }
    }
    out
}

/// The whole reply as one JSON object.
pub(crate) fn whole(said: &Said<'_>) -> Value {
    with_output(said, Some(json!(items(said))))
}

/// A response with other output, or without any.
pub(crate) fn with_output(said: &Said<'_>, output: Option<Value>) -> Value {
    response(said, output, true)
}

/// The reply as the events of a stream.
pub(crate) fn events(said: &Said<'_>) -> Vec<String> {
    let mut events = vec![begin(said)];
    for (index, item) in items(said).iter().enumerate() {
        item_events(&mut events, index, item);
    }
    events.push(end(said, Some(json!(items(said)))));
    events
}

/// A stream of a response with other output, or without any.
pub(crate) fn lone_event(said: &Said<'_>, output: Option<Value>) -> Vec<String> {
    vec![begin(said), end(said, output)]
}

/// The event of an endless stream.
pub(crate) fn delta_event(text: &str) -> String {
    event(&json!({
        "type": "response.output_text.delta", "output_index": 0, "content_index": 0,
        "delta": text,
    }))
}

/// An error in the middle of a stream.
pub(crate) fn error_event(error: &Value) -> String {
    let mut data = error["error"].clone();
    data["type"] = json!("error");
    event(&data)
}

fn begin(said: &Said<'_>) -> String {
    let begun = response(said, Some(json!([])), false);
    event(&json!({"type": "response.created", "response": begun}))
}

fn end(said: &Said<'_>, output: Option<Value>) -> String {
    let whole = response(said, output, true);
    let kind = match whole["status"].as_str() {
        Some("incomplete") => "response.incomplete",
        _ => "response.completed",
    };
    event(&json!({"type": kind, "response": whole}))
}

/// The events of one item.
fn item_events(events: &mut Vec<String>, index: usize, item: &Value) {
    let mut added = item.clone();
    let (kind, text) = match item["type"].as_str() {
        Some("message") => {
            added["content"] = json!([]);
            ("output_text", &item["content"][0]["text"])
        }
        Some("reasoning") => {
            added["summary"] = json!([]);
            ("reasoning_summary_text", &item["summary"][0]["text"])
        }
        _ => {
            added["arguments"] = json!("");
            ("function_call_arguments", &item["arguments"])
        }
    };
    events.push(event(&json!({
        "type": "response.output_item.added", "output_index": index, "item": added,
    })));
    for piece in pieces(text.as_str().unwrap_or_default()) {
        events.push(event(&json!({
            "type": format!("response.{kind}.delta"), "item_id": item["id"],
            "output_index": index, "content_index": 0, "summary_index": 0, "delta": piece,
        })));
    }
    events.push(event(&json!({
        "type": "response.output_item.done", "output_index": index, "item": item,
    })));
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
        let turn = Turn::commands(&["ls"])
            .with_text(&long)
            .with_reasoning("hm");
        let asked = Asked {
            model: "m".to_owned(),
            stream: true,
            dialect: Dialect::Responses,
            assistant_messages: 3,
            ..Asked::default()
        };
        let reply = Reply::new(&turn, &asked);
        let whole = reply.whole();
        assert_eq!(whole["status"], "completed");
        assert_eq!(whole["output"][0]["encrypted_content"], "sealed-3");
        assert_eq!(whole["output"][2]["call_id"], "call_3_0");
        let mut shown = vec![String::new(); 3];
        let mut done = Vec::new();
        for event in reply.events() {
            let (name, data) = event.trim_end().split_once('\n').unwrap();
            let data: Value = serde_json::from_str(data.strip_prefix("data: ").unwrap()).unwrap();
            assert_eq!(name, format!("event: {}", data["type"].as_str().unwrap()));
            if let Some(piece) = data["delta"].as_str() {
                shown[usize::try_from(data["output_index"].as_u64().unwrap()).unwrap()] += piece;
            }
            if data["type"] == "response.output_item.done" {
                done.push(data["item"].clone());
            }
            if data["type"] == "response.completed" {
                assert_eq!(data["response"], whole);
            }
        }
        assert_eq!(json!(done), whole["output"]);
        assert_eq!(shown, ["hm", &long, "{\"command\":\"ls\"}"]);
    }

    #[test]
    fn a_cut_off_reply_is_incomplete() {
        let mut turn = Turn::text("x");
        turn.finish_reason = Some("length".to_owned());
        let asked = Asked {
            dialect: Dialect::Responses,
            ..Asked::default()
        };
        let whole = Reply::new(&turn, &asked).whole();
        assert_eq!(whole["status"], "incomplete");
        assert_eq!(whole["incomplete_details"]["reason"], "max_output_tokens");
    }
}

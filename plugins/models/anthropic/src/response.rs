//! Replies: parses a complete response.

use mswea_sdk::types::{ContentPart, Message, Opaque, Reasoning, Reply, ToolCall, Usage};
use mswea_wire::{json, repair};
use serde_json::{Value, json};

use crate::{FORMAT, arguments};

/// The reply in a message object; none if the object is none.
///
/// `history_len` is used for the ids of calls without one: they are the same on every instance, and
/// unique in a conversation.
pub fn reply(body: &Value, response: String, history_len: usize) -> Option<Reply> {
    let blocks = body.get("content")?.as_array()?;
    let word = |key: &str| body.get(key).and_then(Value::as_str).unwrap_or_default();
    let mut message = Message {
        role: "assistant".to_owned(),
        ..Message::default()
    };
    for block in blocks {
        take_block(&mut message, block);
    }
    repair::give_ids(&mut message.tool_calls, |index| {
        format!("toolu_{history_len}_{index}")
    });
    Some(Reply {
        message,
        finish_reason: finish_reason(word("stop_reason")).to_owned(),
        usage: body.get("usage").and_then(usage),
        model: word("model").to_owned(),
        response: Some(response),
        extra: None,
    })
}

fn take_block(message: &mut Message, block: &Value) {
    let text = |key: &str| block.get(key).and_then(Value::as_str).unwrap_or_default();
    match text("type") {
        "text" => {
            if !text("text").is_empty() {
                message.content.push(ContentPart::text(text("text")));
            }
            return;
        }
        "tool_use" => {
            message.tool_calls.push(tool_call(block));
            return;
        }
        "thinking" if !text("thinking").is_empty() => {
            message.content.push(ContentPart::Reasoning(Reasoning {
                text: text("thinking").to_owned(),
                extra: None,
            }));
        }
        _ => {}
    }
    // Blocks that only the provider understands are sent back unchanged.
    if block.is_object() {
        message.content.push(ContentPart::Opaque(Opaque {
            format: FORMAT.to_owned(),
            data: block.to_string(),
            extra: None,
        }));
    }
}

fn tool_call(block: &Value) -> ToolCall {
    let id = block.get("id").and_then(Value::as_str).unwrap_or_default();
    let name = block.get("name").and_then(Value::as_str);
    ToolCall {
        id: id.to_owned(),
        name: name.unwrap_or_default().to_owned(),
        arguments: match block.get("input") {
            None | Some(Value::Null) => String::new(),
            // An input that is incomplete in a stream: the parser gets the part that has arrived.
            Some(Value::String(text)) => text.clone(),
            Some(input) => arguments::text(input),
        },
        extra: None,
    }
}

/// The contract's name of the reason; the provider's own if the contract has none.
fn finish_reason(reason: &str) -> &str {
    match reason {
        "end_turn" | "stop_sequence" => "stop",
        "max_tokens" | "model_context_window_exceeded" => "length",
        "tool_use" => "tool_calls",
        "refusal" => "content_filter",
        other => other,
    }
}

/// Parses a `usage` object; none if it has no count. Anthropic counts cached tokens separately from the
/// input, the contract as part of it.
pub fn usage(usage: &Value) -> Option<Usage> {
    let count = |pointer: &str| json::count(usage.pointer(pointer));
    let read = count("/cache_read_input_tokens");
    let hour = count("/cache_creation/ephemeral_1h_input_tokens").unwrap_or(0);
    let write = count("/cache_creation_input_tokens").unwrap_or_else(|| {
        let minutes = count("/cache_creation/ephemeral_5m_input_tokens").unwrap_or(0);
        minutes.saturating_add(hour)
    });
    let [input, output] = ["/input_tokens", "/output_tokens"].map(count);
    if input.or(output).or(read).is_none() && write == 0 {
        return None;
    }
    let read = read.unwrap_or(0);
    let reasoning = count("/output_tokens_details/thinking_tokens")
        .or_else(|| count("/output_tokens_details/reasoning_tokens"));
    Some(Usage {
        input_tokens: input
            .unwrap_or(0)
            .saturating_add(read)
            .saturating_add(write),
        cache_read_tokens: read,
        cache_write_tokens: write,
        output_tokens: output.unwrap_or(0),
        reasoning_tokens: reasoning.unwrap_or(0),
        cost: None,
        // These tokens have a price of their own.
        extra: (hour > 0).then(|| json!({ "cache_write_1h_tokens": hour }).to_string()),
    })
}

#[cfg(test)]
#[path = "response_tests.rs"]
mod tests;

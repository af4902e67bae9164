//! Replies from a script.

use mswea_sdk::types::{ContentPart, Message, PluginError, Reasoning, Reply, ToolCall};
use serde::Deserialize;
use serde_json::{Value, json};

/// A reply in a script.
#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct Written {
    #[serde(default)]
    content: Option<String>,
    #[serde(default)]
    reasoning: String,
    #[serde(default)]
    tool_calls: Vec<WrittenCall>,
    #[serde(default)]
    finish_reason: Option<String>,
    #[serde(default)]
    usage: Option<Value>,
    #[serde(default)]
    cost: Option<f64>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct WrittenCall {
    #[serde(default = "bash")]
    name: String,
    #[serde(default)]
    command: Option<String>,
    #[serde(default)]
    arguments: Option<Value>,
    #[serde(default)]
    id: String,
}

fn bash() -> String {
    "bash".to_owned()
}

/// Parses the script.
///
/// # Errors
/// `invalid-config` with the pointer of the reply that does not fit.
pub fn replies(script: &[Value], model: &str) -> Result<Vec<Reply>, PluginError> {
    let mut replies = Vec::with_capacity(script.len());
    for (index, value) in script.iter().enumerate() {
        let invalid = |pointer: &str, what: String| {
            PluginError::invalid_config(format!("reply {}: {what}", index + 1))
                .at(&format!("/replies/{index}{pointer}"))
        };
        let written = match value {
            Value::String(text) => Written {
                content: Some(text.clone()),
                ..Written::default()
            },
            other => serde_json::from_value(other.clone()).map_err(|error| {
                invalid(
                    "",
                    format!("{error}; write a text, or an object with `content` and `tool_calls`"),
                )
            })?,
        };
        let mut tool_calls = Vec::with_capacity(written.tool_calls.len());
        for (position, call) in written.tool_calls.into_iter().enumerate() {
            let arguments = match (call.command, call.arguments) {
                (Some(command), None) => json!({ "command": command }).to_string(),
                (None, Some(Value::String(text))) => text,
                (None, Some(value)) => value.to_string(),
                _ => {
                    return Err(invalid(
                        &format!("/tool_calls/{position}"),
                        "a tool call has either `command` or `arguments`; write one of them"
                            .to_owned(),
                    ));
                }
            };
            tool_calls.push(ToolCall {
                id: call.id,
                name: call.name,
                arguments,
                extra: None,
            });
        }
        let mut content = Vec::new();
        if !written.reasoning.is_empty() {
            content.push(ContentPart::Reasoning(Reasoning {
                text: written.reasoning,
                extra: None,
            }));
        }
        if let Some(text) = written.content.filter(|text| !text.is_empty()) {
            content.push(ContentPart::Text(text));
        }
        let usual = if tool_calls.is_empty() {
            "stop"
        } else {
            "tool_calls"
        };
        replies.push(Reply {
            message: Message {
                role: "assistant".to_owned(),
                content,
                tool_calls,
                ..Message::default()
            },
            finish_reason: written.finish_reason.unwrap_or_else(|| usual.to_owned()),
            usage: crate::usage(written.usage.as_ref(), written.cost),
            model: model.to_owned(),
            response: None,
            extra: None,
        });
    }
    crate::fill_ids(&mut replies);
    Ok(replies)
}

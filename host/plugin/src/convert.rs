//! Conversions between the host's values and the contract's records.
//!
//! Values from guests are checked here: a JSON text that is not valid JSON is a fault of the
//! plugin.

use std::sync::Arc;

use serde_json::Value;

use super::bindings::types as wit;
use super::quoted::bound;
use mswea_core::{
    Action, Change, Message, Object, Output, Part, Reply, Tool, ToolCall, Usage, ViewChange,
    is_bulky,
};

/// Why a value from a guest breaks the contract.
pub type Broken = String;

fn json_out(object: &Object) -> Option<String> {
    (!object.is_empty()).then(|| Value::Object(object.clone()).to_string())
}

/// A message's `extra` without its large members, serialised without a copy, because this happens
/// for every message of every change.
struct Light<'a>(&'a Object);

impl serde::Serialize for Light<'_> {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.0.iter().filter(|(key, _)| !is_bulky(key)))
    }
}

fn extra_out(extra: &Object) -> Option<String> {
    if extra.keys().all(|key| is_bulky(key)) {
        return None;
    }
    // Invariant of JSON values: they serialise.
    serde_json::to_string(&Light(extra)).ok()
}

/// Parses an `extra` or another JSON object from a guest.
pub fn object_in(what: &str, text: Option<String>) -> Result<Object, Broken> {
    let Some(text) = text else {
        return Ok(Object::new());
    };
    match serde_json::from_str(&text) {
        Ok(Value::Object(object)) => Ok(object),
        Ok(Value::Null) => Ok(Object::new()),
        Ok(_) => Err(format!("`{what}` must be a JSON object")),
        Err(error) => Err(format!("`{what}` is not JSON: {error}")),
    }
}

fn value_in(what: &str, text: &str) -> Result<Value, Broken> {
    serde_json::from_str(text).map_err(|error| format!("`{what}` is not JSON: {error}"))
}

fn part_out(part: &Part) -> wit::ContentPart {
    match part {
        Part::Text { text } => wit::ContentPart::Text(text.clone()),
        Part::Image { url, extra } => wit::ContentPart::Image(wit::Image {
            url: url.clone(),
            extra: json_out(extra),
        }),
        Part::Reasoning { text, extra } => wit::ContentPart::Reasoning(wit::Reasoning {
            text: text.clone(),
            extra: json_out(extra),
        }),
        Part::Opaque { format, data } => wit::ContentPart::Opaque(wit::Opaque {
            format: format.clone(),
            data: data.to_string(),
            extra: None,
        }),
    }
}

fn part_in(part: wit::ContentPart) -> Result<Part, Broken> {
    Ok(match part {
        wit::ContentPart::Text(text) => Part::Text { text },
        wit::ContentPart::Image(image) => Part::Image {
            url: image.url,
            extra: object_in("image.extra", image.extra)?,
        },
        wit::ContentPart::Reasoning(reasoning) => Part::Reasoning {
            text: reasoning.text,
            extra: object_in("reasoning.extra", reasoning.extra)?,
        },
        wit::ContentPart::Opaque(opaque) => Part::Opaque {
            data: value_in("opaque.data", &opaque.data)?,
            format: opaque.format,
        },
    })
}

/// A message for a guest.
pub fn message_out(message: &Message) -> wit::Message {
    wit::Message {
        role: message.role.clone(),
        content: message.content.iter().map(part_out).collect(),
        tool_calls: message
            .tool_calls
            .iter()
            .map(|call| wit::ToolCall {
                id: call.id.clone(),
                name: call.name.clone(),
                arguments: call.arguments.clone(),
                extra: json_out(&call.extra),
            })
            .collect(),
        tool_call_id: message.tool_call_id.clone(),
        extra: extra_out(&message.extra),
    }
}

/// A message from a guest.
pub fn message_in(message: wit::Message) -> Result<Message, Broken> {
    Ok(Message {
        role: message.role,
        content: message
            .content
            .into_iter()
            .map(part_in)
            .collect::<Result<_, _>>()?,
        tool_calls: message
            .tool_calls
            .into_iter()
            .map(|call| {
                Ok(ToolCall {
                    id: call.id,
                    name: call.name,
                    arguments: call.arguments,
                    extra: object_in("tool-call.extra", call.extra)?,
                })
            })
            .collect::<Result<_, Broken>>()?,
        tool_call_id: message.tool_call_id,
        extra: object_in("message.extra", message.extra)?,
    })
}

/// Messages from a guest.
pub fn messages_in(messages: Vec<wit::Message>) -> Result<Vec<Message>, Broken> {
    messages.into_iter().map(message_in).collect()
}

/// A change for a guest.
pub fn change_out(change: &Change) -> wit::Change {
    wit::Change {
        // No history has 4 billion messages.
        start: u32::try_from(change.start).unwrap_or(u32::MAX),
        messages: change.messages.iter().map(|it| message_out(it)).collect(),
        extra: None,
    }
}

/// A change that passes a whole list to a guest.
pub fn all_out(messages: &[Arc<Message>]) -> wit::Change {
    wit::Change {
        start: 0,
        messages: messages.iter().map(|it| message_out(it)).collect(),
        extra: None,
    }
}

/// The change of a view, from a guest.
pub fn change_in(change: wit::Change) -> Result<ViewChange, Broken> {
    let start = change.start as usize;
    let mut extra = object_in("change.extra", change.extra)?;
    let places: Option<Vec<usize>> =
        match extra.remove("places") {
            None => None,
            Some(places) => Some(serde_json::from_value(places).map_err(|error| {
                format!("`change.extra.places` is not a list of indices: {error}")
            })?),
        };
    if let Some(places) = &places {
        let fits = places.len() == change.messages.len()
            && places.first().is_none_or(|first| *first == start)
            && places.is_sorted_by(|one, next| one < next);
        if !fits {
            return Err(
                "`change.extra.places` must be increasing indices, one for each message, from \
                 `change.start` on"
                    .to_owned(),
            );
        }
    }
    Ok(ViewChange {
        start,
        messages: messages_in(change.messages)?
            .into_iter()
            .map(Into::into)
            .collect(),
        places,
    })
}

/// A tool for a guest.
pub fn tool_out(tool: &Tool) -> wit::Tool {
    wit::Tool {
        name: tool.name.clone(),
        description: tool.description.clone(),
        parameters: tool.parameters.to_string(),
        extra: json_out(&tool.extra),
    }
}

/// A tool from a guest.
pub fn tool_in(tool: wit::Tool) -> Result<Tool, Broken> {
    Ok(Tool {
        name: tool.name,
        description: tool.description,
        parameters: value_in("tool.parameters", &tool.parameters)?,
        extra: object_in("tool.extra", tool.extra)?,
    })
}

/// An action for a guest.
pub fn action_out(action: &Action) -> wit::Action {
    wit::Action {
        command: action.command.clone(),
        tool_call_id: action.tool_call_id.clone(),
        extra: json_out(&action.extra),
    }
}

/// An action from a guest.
pub fn action_in(action: wit::Action) -> Result<Action, Broken> {
    Ok(Action {
        command: action.command,
        tool_call_id: action.tool_call_id,
        extra: object_in("action.extra", action.extra)?,
    })
}

/// An output for a guest.
pub fn output_out(output: &Output) -> wit::Output {
    wit::Output {
        output: output.output.clone(),
        returncode: output.returncode,
        exception_info: output.exception_info.clone(),
        extra: json_out(&output.extra),
    }
}

/// Token counts from a guest.
pub fn usage_in(usage: wit::Usage) -> Result<Usage, Broken> {
    Ok(Usage {
        input_tokens: usage.input_tokens,
        cache_read_tokens: usage.cache_read_tokens,
        cache_write_tokens: usage.cache_write_tokens,
        output_tokens: usage.output_tokens,
        reasoning_tokens: usage.reasoning_tokens,
        // A cost that is not a finite number would make the run's sum useless.
        cost: usage.cost.filter(|cost| cost.is_finite()),
        extra: object_in("usage.extra", usage.extra)?,
    })
}

/// A reply for a guest, without the provider's response.
pub fn reply_out(reply: &Reply) -> wit::Reply {
    wit::Reply {
        message: message_out(&reply.message),
        finish_reason: reply.finish_reason.clone(),
        usage: reply.usage.as_ref().map(|usage| wit::Usage {
            input_tokens: usage.input_tokens,
            cache_read_tokens: usage.cache_read_tokens,
            cache_write_tokens: usage.cache_write_tokens,
            output_tokens: usage.output_tokens,
            reasoning_tokens: usage.reasoning_tokens,
            cost: usage.cost,
            extra: json_out(&usage.extra),
        }),
        model: reply.model.clone(),
        response: None,
        extra: json_out(&reply.extra),
    }
}

/// A reply from a guest.
pub fn reply_in(reply: wit::Reply) -> Result<Reply, Broken> {
    if reply.message.role != "assistant" {
        return Err(format!(
            "a reply's message has the role `assistant`, not `{}`",
            bound(&reply.message.role)
        ));
    }
    Ok(Reply {
        message: message_in(reply.message)?,
        finish_reason: bound(&reply.finish_reason),
        usage: reply.usage.map(usage_in).transpose()?,
        model: bound(&reply.model),
        response: reply
            .response
            .map(|response| value_in("reply.response", &response))
            .transpose()?,
        extra: object_in("reply.extra", reply.extra)?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn object(value: Value) -> Object {
        value.as_object().cloned().unwrap()
    }

    #[test]
    fn a_message_survives_the_round_trip_without_bulky_extras() {
        let message = Message {
            role: "assistant".into(),
            content: vec![
                Part::text("a"),
                Part::Image {
                    url: "data:image/png;base64,".into(),
                    extra: object(json!({"detail": "low"})),
                },
                Part::Reasoning {
                    text: "hm".into(),
                    extra: Object::new(),
                },
                Part::Opaque {
                    format: "openai-chat".into(),
                    data: json!({"function_call": null}),
                },
            ],
            tool_calls: vec![ToolCall {
                id: "1".into(),
                name: "bash".into(),
                arguments: "{".into(),
                extra: Object::new(),
            }],
            tool_call_id: Some("1".into()),
            extra: object(json!({"returncode": 0, "raw_output": "long"})),
        };
        let back = message_in(message_out(&message)).unwrap();
        let mut light = message;
        light.extra.remove("raw_output");
        assert_eq!(back, light);
    }

    #[test]
    fn broken_json_is_named() {
        let action = wit::Action {
            command: "ls".into(),
            tool_call_id: None,
            extra: Some("[1]".into()),
        };
        assert_eq!(
            action_in(action).unwrap_err(),
            "`action.extra` must be a JSON object"
        );
    }

    #[test]
    fn places_fit_their_messages() {
        let change = |start, count, extra: &str| {
            change_in(wit::Change {
                start,
                messages: vec![message_out(&Message::new("user", "x")); count],
                extra: (!extra.is_empty()).then(|| extra.to_owned()),
            })
        };
        for (start, count, extra, places) in [
            (3, 2, "", None),
            (3, 2, r#"{"mine":1}"#, None),
            (3, 2, r#"{"places":[3,9]}"#, Some(vec![3, 9])),
            (3, 0, r#"{"places":[]}"#, Some(vec![])),
        ] {
            let got = change(start, count, extra).unwrap();
            assert_eq!((got.start, got.messages.len()), (3, count));
            assert_eq!(got.places, places);
        }
        for (count, extra) in [
            (2, r#"{"places":[3]}"#),
            (2, r#"{"places":[4,5]}"#),
            (2, r#"{"places":[3,3]}"#),
            (2, r#"{"places":[3,-1]}"#),
            (1, r#"{"places":3}"#),
            (1, "[]"),
        ] {
            let error = change(3, count, extra).unwrap_err();
            assert!(error.contains("`change.extra"), "{error}");
        }
    }
}

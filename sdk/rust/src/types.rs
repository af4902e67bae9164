//! The values of the contract, as `wit/types.wit` documents them, with constructors that the
//! generated code lacks.

// The types are generated, with the same derives for records and variants, and a variant has no
// `Default` to derive.
#![allow(clippy::derivable_impls)]

use serde_json::Value;

pub use crate::bindings::common::mswea::plugin::types::{
    Action, Change, ContentPart, Image, Json, Message, Opaque, Output, PluginError, Reasoning,
    Reply, Tool, ToolCall, Usage,
};

impl ContentPart {
    /// A text part.
    pub fn text(text: impl Into<String>) -> Self {
        Self::Text(text.into())
    }

    /// The text, if this is a text part.
    pub fn as_text(&self) -> Option<&str> {
        match self {
            Self::Text(text) => Some(text),
            _ => None,
        }
    }
}

impl Default for Message {
    fn default() -> Self {
        Self {
            role: String::new(),
            content: Vec::new(),
            tool_calls: Vec::new(),
            tool_call_id: None,
            extra: None,
        }
    }
}

impl Message {
    /// A message with one text part.
    pub fn new(role: &str, text: impl Into<String>) -> Self {
        Self {
            role: role.to_owned(),
            content: vec![ContentPart::text(text)],
            ..Self::default()
        }
    }

    /// A message of role `tool`: the answer to one tool call.
    pub fn tool(tool_call_id: impl Into<String>, text: impl Into<String>) -> Self {
        Self {
            tool_call_id: Some(tool_call_id.into()),
            ..Self::new("tool", text)
        }
    }

    /// The text parts, joined.
    pub fn text(&self) -> String {
        self.content
            .iter()
            .filter_map(ContentPart::as_text)
            .collect()
    }

    /// `extra` as JSON; `Null` if there is none or it is malformed.
    pub fn extra_value(&self) -> Value {
        extra_value(self.extra.as_deref())
    }
}

/// An `extra` field as JSON; `Null` if there is none or it is malformed.
pub fn extra_value(extra: Option<&str>) -> Value {
    extra
        .and_then(|text| serde_json::from_str(text).ok())
        .unwrap_or(Value::Null)
}

impl Default for Change {
    fn default() -> Self {
        Self::all(Vec::new())
    }
}

impl Change {
    /// Replaces all messages.
    pub fn all(messages: Vec<Message>) -> Self {
        Self {
            start: 0,
            messages,
            extra: None,
        }
    }

    /// Replaces all messages from `start` on.
    pub fn tail(start: usize, messages: Vec<Message>) -> Self {
        Self {
            // A history of 2^32 messages does not fit into a guest's memory.
            start: u32::try_from(start).unwrap_or(u32::MAX),
            messages,
            extra: None,
        }
    }

    /// A processor's answer in which only some messages differ: each with its index, in order.
    /// Messages between two of them stay as in the last answer; the last one ends the view.
    pub fn spread(differing: Vec<(usize, Message)>) -> Self {
        let places: Vec<usize> = differing.iter().map(|(place, _)| *place).collect();
        let messages = differing.into_iter().map(|(_, message)| message);
        let start = places.first().copied().unwrap_or_default();
        let mut change = Self::tail(start, messages.collect());
        if places
            .last()
            .is_some_and(|last| last - start >= places.len())
        {
            change.extra = Some(format!(r#"{{"places":{places:?}}}"#));
        }
        change
    }

    /// Applies the change to a list.
    pub fn apply(self, list: &mut Vec<Message>) {
        let start = self.start as usize;
        let extra = extra_value(self.extra.as_deref());
        let Some(places) = extra.get("places").and_then(Value::as_array) else {
            list.truncate(start);
            list.extend(self.messages);
            return;
        };
        let places = places.iter().filter_map(Value::as_u64);
        let mut end = start;
        for (place, message) in places.zip(self.messages) {
            let place = usize::try_from(place).unwrap_or(usize::MAX);
            match list.get_mut(place) {
                Some(there) => *there = message,
                None => list.push(message),
            }
            end = place.saturating_add(1);
        }
        list.truncate(end);
    }
}

impl Tool {
    /// A tool with a JSON Schema of its arguments.
    pub fn new(
        name: impl Into<String>,
        description: impl Into<String>,
        parameters: &Value,
    ) -> Self {
        Self {
            name: name.into(),
            description: description.into(),
            parameters: parameters.to_string(),
            extra: None,
        }
    }
}

impl Default for Action {
    fn default() -> Self {
        Self::new("")
    }
}

impl Action {
    /// A command without a tool call.
    pub fn new(command: impl Into<String>) -> Self {
        Self {
            command: command.into(),
            tool_call_id: None,
            extra: None,
        }
    }

    /// The command of the tool call `id`.
    pub fn for_call(id: impl Into<String>, command: impl Into<String>) -> Self {
        Self {
            tool_call_id: Some(id.into()),
            ..Self::new(command)
        }
    }
}

impl Default for Output {
    fn default() -> Self {
        Self {
            output: String::new(),
            returncode: 0,
            exception_info: String::new(),
            extra: None,
        }
    }
}

impl Output {
    /// The output for an action that was not executed, which a formatter needs for its tool call.
    pub fn not_executed() -> Self {
        Self {
            returncode: -1,
            exception_info: "action was not executed".to_owned(),
            ..Self::default()
        }
    }
}

impl Default for Usage {
    fn default() -> Self {
        Self {
            input_tokens: 0,
            cache_read_tokens: 0,
            cache_write_tokens: 0,
            output_tokens: 0,
            reasoning_tokens: 0,
            cost: None,
            extra: None,
        }
    }
}

impl Default for Reply {
    fn default() -> Self {
        Self {
            message: Message {
                role: "assistant".to_owned(),
                ..Message::default()
            },
            finish_reason: String::new(),
            usage: None,
            model: String::new(),
            response: None,
            extra: None,
        }
    }
}

impl PluginError {
    /// An error with a code of your own.
    pub fn new(code: impl Into<String>, message: impl Into<String>) -> Self {
        Self {
            code: code.into(),
            message: message.into(),
            extra: None,
        }
    }

    /// The config is wrong; the message should say what is wrong and what to write instead.
    pub fn invalid_config(message: impl Into<String>) -> Self {
        Self::new("invalid-config", message)
    }

    /// The host passed invalid input.
    pub fn invalid_input(message: impl Into<String>) -> Self {
        Self::new("invalid-input", message)
    }

    /// The plugin does not support this.
    pub fn unsupported(message: impl Into<String>) -> Self {
        Self::new("unsupported", message)
    }

    /// The plugin itself is at fault.
    pub fn internal(message: impl Into<String>) -> Self {
        Self::new("internal", message)
    }

    /// Names the wrong config value, as a JSON pointer (`/action_regex`), so that the host can show
    /// the file and the line.
    #[must_use]
    pub fn at(mut self, pointer: &str) -> Self {
        self.extra = Some(serde_json::json!({ "pointer": pointer }).to_string());
        self
    }
}

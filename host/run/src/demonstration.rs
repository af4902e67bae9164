//! Demonstrations: messages of a recorded run, which the model is shown before the task.

use serde_json::Value;

use mswea_core::{Message, Object};

/// A message before the task.
#[derive(Clone, Debug, PartialEq)]
pub enum Demonstration {
    /// A message of a recorded run, with its role.
    Recorded(Box<Message>),
    /// The template of a message of the user.
    Template(String),
}

impl Demonstration {
    /// Reads the map `agent.demonstrations`: its `messages` are a list of messages in the journal's
    /// format, or of maps with a `template`.
    ///
    /// # Errors
    /// A text with the mistake in the map.
    pub fn of(map: &Object) -> Result<Vec<Self>, String> {
        if let Some(key) = map.keys().find(|key| *key != "messages") {
            return Err(format!("there is no `{key}`: the key is `messages`"));
        }
        let Some(messages) = map.get("messages") else {
            return Ok(Vec::new());
        };
        let list = messages.as_array().ok_or("`messages` is a list")?;
        list.iter()
            .enumerate()
            .map(|(place, item)| {
                if let Some(Value::String(template)) = item.get("template") {
                    return Ok(Self::Template(template.clone()));
                }
                let read = serde_json::from_value(item.clone());
                read.map(|message| Self::Recorded(Box::new(message)))
                    .map_err(|error| format!("`messages[{place}]` is no message: {error}"))
            })
            .collect()
    }

    /// The message; that of a template has the rendered `text`.
    pub(crate) fn message(&self, text: Option<String>) -> Message {
        let mut message = match self {
            Self::Recorded(message) => (**message).clone(),
            Self::Template(_) => {
                let mut message = Message::new("user", text.unwrap_or_default());
                let kind = "demonstration".into();
                message.extra.insert("message_type".to_owned(), kind);
                message
            }
        };
        // Marks the message for processors, which leave it unchanged.
        message.extra.insert("is_demo".to_owned(), true.into());
        message
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn messages_and_templates_are_read() {
        let read = |map: Value| Demonstration::of(map.as_object().unwrap());
        let two = read(json!({"messages": [
            {"template": "t"},
            {"role": "assistant", "content": [{"type": "text", "text": "a"}]},
        ]}));
        let two = two.unwrap();
        assert_eq!(two[0], Demonstration::Template("t".to_owned()));
        assert_eq!(two[1].message(None).text(), "a");
        assert_eq!(two[1].message(None).extra["is_demo"], true);
        assert_eq!(read(json!({})), Ok(Vec::new()));
        for (map, part) in [
            (json!({"message": []}), "the key is `messages`"),
            (json!({"messages": 5}), "is a list"),
            (
                json!({"messages": [{"role": "user"}]}),
                "`messages[0]` is no message",
            ),
        ] {
            let error = read(map.clone()).unwrap_err();
            assert!(error.contains(part), "{map}: {error}");
        }
    }
}

//! The host's messages in SWE-agent's terms: the fields `message_type`, `is_demo` and `tags` of its
//! history items correspond to a message's role and `extra`.

use mswea_sdk::types::Message;
use serde::Deserialize;
use serde_json::{Map, Value};

/// One key of a message's `extra`.
fn extra_key(message: &Message, key: &str) -> Option<Value> {
    let extra = message.extra.as_deref()?;
    // Most messages lack most keys, so their `extra` need not be parsed.
    if !extra.contains(key) {
        return None;
    }
    let mut keys: Map<String, Value> = serde_json::from_str(extra).ok()?;
    keys.remove(key)
}

/// Whether it is part of a demonstration.
pub fn is_demo(message: &Message) -> bool {
    extra_key(message, "is_demo") == Some(Value::Bool(true))
}

/// Whether it is an observation of this run: of role `tool`, or of role `user` with a return code,
/// as formatters for plain text make them.
pub fn is_observation(message: &Message) -> bool {
    let has_role = match message.role.as_str() {
        "tool" => true,
        "user" => extra_key(message, "returncode").is_some(),
        _ => false,
    };
    has_role && !is_demo(message)
}

/// An action of a message, as the host records it in the message's `extra`.
#[derive(Deserialize)]
pub struct Action {
    /// Its command.
    #[serde(default)]
    pub command: String,
    /// The id of its tool call.
    #[serde(default)]
    pub tool_call_id: Option<String>,
}

/// The actions of a message.
pub fn actions(message: &Message) -> Vec<Action> {
    extra_key(message, "actions")
        .and_then(|actions| serde_json::from_value(actions).ok())
        .unwrap_or_default()
}

/// Adds tags to a message, each once; its other keys stay.
pub fn add_tags(message: &mut Message, tags: &[String]) {
    let extra = message.extra.as_deref().unwrap_or_default().trim();
    let present = match extra_key(message, "tags") {
        None => {
            // The existing keys are not parsed, so that they stay unchanged to the letter.
            let rest = match extra.strip_prefix('{') {
                Some(rest) => rest.trim_start(),
                None if extra.is_empty() || extra == "null" => "}",
                // The message breaks the contract, and is left unchanged.
                None => return,
            };
            let comma = if rest == "}" { "" } else { "," };
            let tags = Value::from(tags);
            message.extra = Some(format!("{{\"tags\":{tags}{comma}{rest}"));
            return;
        }
        Some(present) => present,
    };
    let (Value::Array(mut list), Ok(mut keys)) =
        (present, serde_json::from_str::<Map<String, Value>>(extra))
    else {
        return;
    };
    for tag in tags {
        if !list.iter().any(|there| there == tag.as_str()) {
            list.push(Value::from(tag.as_str()));
        }
    }
    keys.insert("tags".to_owned(), Value::Array(list));
    message.extra = Some(Value::Object(keys).to_string());
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(role: &str, extra: &str) -> Message {
        Message {
            extra: Some(extra.to_owned()),
            ..Message::new(role, "x")
        }
    }

    #[test]
    fn what_counts_as_what() {
        // role, extra, whether it is an observation, whether it is a demonstration
        for (role, extra, observation, demo) in [
            ("tool", "{}", true, false),
            ("tool", "no JSON", true, false),
            ("tool", r#"{"is_demo":true}"#, false, true),
            ("tool", r#"{"is_demo":"true"}"#, true, false),
            ("tool", r#"{"x":"is_demo"}"#, true, false),
            ("user", "{}", false, false),
            ("user", r#"{"returncode":0}"#, true, false),
            ("user", r#"{"returncode":null}"#, true, false),
            ("user", r#"{"x":{"returncode":0}}"#, false, false),
            ("user", r#"{"returncode":0,"is_demo":true}"#, false, true),
            ("assistant", r#"{"returncode":0}"#, false, false),
        ] {
            let message = message(role, extra);
            let found = (is_observation(&message), is_demo(&message));
            assert_eq!(found, (observation, demo), "{role} {extra}");
        }
    }

    #[test]
    fn tags_are_added_once_and_all_else_stays() {
        let tags = ["a".to_owned(), "b".to_owned()];
        for (extra, expected) in [
            ("", r#"{"tags":["a","b"]}"#),
            ("null", r#"{"tags":["a","b"]}"#),
            (" { } ", r#"{"tags":["a","b"]}"#),
            (
                r#"{"t":1763720000.1234567,"x":{}}"#,
                r#"{"tags":["a","b"],"t":1763720000.1234567,"x":{}}"#,
            ),
            (
                r#"{"x":1,"tags":["b","c"],"y":2}"#,
                r#"{"x":1,"tags":["b","c","a"],"y":2}"#,
            ),
            (r#"{"tags":"b"}"#, r#"{"tags":"b"}"#),
            ("[1]", "[1]"),
        ] {
            let mut message = message("tool", extra);
            add_tags(&mut message, &tags);
            assert_eq!(message.extra.as_deref(), Some(expected), "{extra}");
        }
    }

    #[test]
    fn actions_are_read_where_they_have_their_shape() {
        let count = |extra: &str| actions(&message("assistant", extra)).len();
        for (extra, expected) in [
            (
                r#"{"actions":[{"command":"a","tool_call_id":"c","z":1},{}]}"#,
                2,
            ),
            (r#"{"actions":[]}"#, 0),
            (r#"{"actions":{"command":"a"}}"#, 0),
            (r#"{"actions":[3]}"#, 0),
            ("{}", 0),
        ] {
            assert_eq!(count(extra), expected, "{extra}");
        }
    }
}

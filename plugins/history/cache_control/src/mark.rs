//! A message's mark: the key `cache_control` of its `extra`.

use mswea_sdk::types::Message;
use serde_json::{Map, Value};

/// The key, as `wit/types.wit` documents it.
const KEY: &str = "cache_control";

/// Removes the mark of a message.
pub fn remove(message: &mut Message) {
    // Nearly no message has one, so most `extra`s need not be parsed.
    let Some(extra) = message.extra.as_deref().filter(|extra| extra.contains(KEY)) else {
        return;
    };
    let Ok(mut keys) = serde_json::from_str::<Map<String, Value>>(extra) else {
        return;
    };
    if keys.shift_remove(KEY).is_some() {
        message.extra = (!keys.is_empty()).then(|| Value::Object(keys).to_string());
    }
}

/// Marks a message that has no mark. The other keys are not parsed, so that they stay unchanged to
/// the letter.
pub fn set(message: &mut Message, mark: &str) {
    let extra = message.extra.as_deref().unwrap_or_default().trim();
    let rest = match extra.strip_prefix('{') {
        Some(rest) => rest.trim_start(),
        None if extra.is_empty() || extra == "null" => "}",
        // The message breaks the contract, and is left unchanged.
        None => return,
    };
    let comma = if rest == "}" { "" } else { "," };
    message.extra = Some(format!("{{\"{KEY}\":{mark}{comma}{rest}"));
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(extra: Option<&str>) -> Message {
        Message {
            extra: extra.map(str::to_owned),
            ..Message::new("user", "x")
        }
    }

    #[test]
    fn marks_come_and_go() {
        for (clean, marked) in [
            (None, r#"{"cache_control":1}"#),
            (
                Some(r#"{"t":1763720000.1234567,"a":{}}"#),
                r#"{"cache_control":1,"t":1763720000.1234567,"a":{}}"#,
            ),
            (Some(r#"{"a":"}"}"#), r#"{"cache_control":1,"a":"}"}"#),
        ] {
            let mut message = message(clean);
            set(&mut message, "1");
            assert_eq!(message.extra.as_deref(), Some(marked));
            let keys: Map<String, Value> = serde_json::from_str(marked).unwrap();
            assert_eq!(keys[KEY], 1);
            remove(&mut message);
            let parsed =
                |extra: Option<&str>| extra.map(|e| serde_json::from_str::<Value>(e).unwrap());
            assert_eq!(parsed(message.extra.as_deref()), parsed(clean));
        }
        for (extra, marked) in [
            ("{}", r#"{"cache_control":1}"#),
            (" { } ", r#"{"cache_control":1}"#),
            ("null", r#"{"cache_control":1}"#),
            ("[1]", "[1]"),
        ] {
            let mut message = message(Some(extra));
            set(&mut message, "1");
            assert_eq!(message.extra.as_deref(), Some(marked), "{extra}");
        }
    }

    #[test]
    fn what_is_no_mark_stays() {
        for extra in ["no cache_control", r#"{"a":"cache_control"}"#, "{}", "[]"] {
            let mut message = message(Some(extra));
            remove(&mut message);
            assert_eq!(message.extra.as_deref(), Some(extra));
        }
    }
}

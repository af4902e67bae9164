//! Marks in a message's `extra` that history processors and the host set for adapters.

use mswea_sdk::types::Message;
use serde::Deserialize;
use serde_json::{Map, Value};

/// The keys that are used here.
#[derive(Deserialize)]
struct Extra {
    cache_control: Option<Value>,
    content_list: Option<Value>,
}

/// The message's mark for the cache.
pub fn cache_control(message: &Message) -> Option<Map<String, Value>> {
    match marked(message, "cache_control", |extra| extra.cache_control)? {
        Value::Object(mark) => Some(mark),
        _ => None,
    }
}

/// Whether the message demands that its content is a list.
pub fn is_list(message: &Message) -> bool {
    marked(message, "content_list", |extra| extra.content_list) == Some(Value::Bool(true))
}

fn marked<T>(message: &Message, key: &str, take: fn(Extra) -> Option<T>) -> Option<T> {
    let extra = message.extra.as_deref()?;
    // Most messages have none of them, so their `extra` need not be parsed.
    if !extra.contains(key) {
        return None;
    }
    take(serde_json::from_str(extra).ok()?)
}

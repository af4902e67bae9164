//! Chunks of a stream, parsed without the keys that every chunk repeats.
//!
//! Every chunk contains the id, the model and so on besides its few new characters. Parsing these
//! keys would cost more than parsing the new text.

use std::borrow::Cow;
use std::fmt;

use serde::Deserialize;
use serde::de::{Deserializer, IgnoredAny, MapAccess, Visitor};
use serde_json::{Map, Value};

/// Parses `data`, without the keys of `known`.
///
/// # Errors
/// If it is not a JSON object.
pub(super) fn skim(
    data: &str,
    known: &Map<String, Value>,
) -> serde_json::Result<Map<String, Value>> {
    let mut reader = serde_json::Deserializer::from_str(data);
    let chunk = reader.deserialize_map(Skim(known))?;
    reader.end()?;
    Ok(chunk)
}

struct Skim<'a>(&'a Map<String, Value>);

#[derive(Deserialize)]
struct Key<'a>(#[serde(borrow)] Cow<'a, str>);

impl<'de> Visitor<'de> for Skim<'_> {
    type Value = Map<String, Value>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let mut chunk = Map::new();
        while let Some(Key(key)) = map.next_key()? {
            match &*key {
                // Only the value `error` is used, and it is rare.
                "object" => {
                    let object: Value = map.next_value()?;
                    if object == "error" {
                        chunk.insert(key.into_owned(), object);
                    }
                }
                // Groq reports its usage in a later chunk.
                known if known != "x_groq" && self.0.contains_key(known) => {
                    map.next_value::<IgnoredAny>()?;
                }
                _ => {
                    chunk.insert(key.into_owned(), map.next_value()?);
                }
            }
        }
        Ok(chunk)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_is_known_is_left_out() {
        let known = json!({"id": 1, "model": "m", "x_groq": {}})
            .as_object()
            .cloned()
            .unwrap();
        for (data, expected) in [
            (
                r#"{"id": [{"a": 1}], "x": null, "choices": [1]}"#,
                Some(json!({"x": null, "choices": [1]})),
            ),
            (r#"{"object": "chat.completion.chunk"}"#, Some(json!({}))),
            (
                r#"{"object": "\u0065rror"}"#,
                Some(json!({"object": "error"})),
            ),
            (r#"{"object": null}"#, Some(json!({}))),
            (
                r#"{"x_groq": {"usage": 1}}"#,
                Some(json!({"x_groq": {"usage": 1}})),
            ),
            (r#"{"model": "a"} {}"#, None),
            (r#"{"model": "a""#, None),
            (r#"{"model": tru}"#, None),
            ("[]", None),
            ("", None),
        ] {
            let chunk = skim(data, &known).ok().map(Value::Object);
            assert_eq!(chunk, expected, "{data}");
        }
    }
}

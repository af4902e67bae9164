//! Values and texts of a file that may be anybody's, as far as they are short: what is longer is passed over.

use std::fmt;

use serde::Deserializer;
use serde::de::{DeserializeSeed, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Number, Value};

/// Methods of a [`Visitor`] that keeps nothing of null, truth values and numbers.
macro_rules! pass_over_scalars {
    () => {
        fn visit_unit<E>(self) -> Result<(), E> {
            Ok(())
        }

        fn visit_bool<E>(self, _: bool) -> Result<(), E> {
            Ok(())
        }

        fn visit_i64<E>(self, _: i64) -> Result<(), E> {
            Ok(())
        }

        fn visit_u64<E>(self, _: u64) -> Result<(), E> {
            Ok(())
        }

        fn visit_f64<E>(self, _: f64) -> Result<(), E> {
            Ok(())
        }
    };
}
pub(crate) use pass_over_scalars;

/// About how many bytes of memory a value beside the messages takes, and the longest text in it.
const OF_HEAD: (usize, usize) = (8 << 20, 1 << 20);
/// The same of a value in a message or a step.
const OF_STEP: (usize, usize) = (16 << 10, 4 << 10);
/// About how many bytes of memory a number, or the entry of a list or of an object takes.
const ENTRY: usize = 100;
/// The longest text of a message that is kept.
const TEXT: usize = 64 << 10;

/// A value, of which texts that are too long are empty, and entries that are too many left out.
pub(crate) struct KeptValue {
    left: usize,
    text: usize,
}

impl KeptValue {
    /// A value beside the messages.
    pub(crate) fn of_head() -> Self {
        Self::within(OF_HEAD)
    }

    /// A value in a message or a step.
    pub(crate) fn of_step() -> Self {
        Self::within(OF_STEP)
    }

    fn within((left, text): (usize, usize)) -> Self {
        Self { left, text }
    }
}

impl<'de> DeserializeSeed<'de> for KeptValue {
    type Value = Value;

    fn deserialize<D: Deserializer<'de>>(mut self, input: D) -> Result<Value, D::Error> {
        KeptPart(&mut self).deserialize(input)
    }
}

/// A part of a value.
struct KeptPart<'k>(&'k mut KeptValue);

impl KeptPart<'_> {
    /// Whether there is room for so many bytes.
    fn takes(&mut self, bytes: usize) -> bool {
        let left = self.0.left.checked_sub(bytes);
        self.0.left = left.unwrap_or(self.0.left);
        left.is_some()
    }
}

impl<'de> DeserializeSeed<'de> for KeptPart<'_> {
    type Value = Value;

    fn deserialize<D: Deserializer<'de>>(self, input: D) -> Result<Value, D::Error> {
        input.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for KeptPart<'_> {
    type Value = Value;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("a value")
    }

    fn visit_map<A: MapAccess<'de>>(mut self, mut entries: A) -> Result<Value, A::Error> {
        let mut map = Map::new();
        while let Some(key) = entries.next_key::<String>()? {
            if key.len() <= self.0.text && self.takes(ENTRY + key.len()) {
                let value = entries.next_value_seed(KeptPart(self.0))?;
                map.insert(key, value);
            } else {
                // Of several values the last one counts.
                map.shift_remove(&key);
                entries.next_value::<IgnoredAny>()?;
            }
        }
        Ok(map.into())
    }

    fn visit_seq<A: SeqAccess<'de>>(mut self, mut entries: A) -> Result<Value, A::Error> {
        let mut list = Vec::new();
        while self.takes(ENTRY) {
            match entries.next_element_seed(KeptPart(self.0))? {
                Some(value) => list.push(value),
                None => return Ok(list.into()),
            }
        }
        while entries.next_element::<IgnoredAny>()?.is_some() {}
        Ok(list.into())
    }

    fn visit_str<E>(mut self, text: &str) -> Result<Value, E> {
        let is_kept = text.len() <= self.0.text && self.takes(text.len());
        Ok(Value::from(if is_kept { text } else { "" }))
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_bool<E>(self, value: bool) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_i64<E>(self, value: i64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_u64<E>(self, value: u64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_f64<E>(self, value: f64) -> Result<Value, E> {
        Ok(Number::from_f64(value).map_or(Value::Null, Value::Number))
    }
}

/// The beginning of the text of a message, which may consist of parts; empty if it is something else.
pub(crate) struct KeptText;

impl<'de> DeserializeSeed<'de> for KeptText {
    type Value = String;

    fn deserialize<D: Deserializer<'de>>(self, input: D) -> Result<String, D::Error> {
        let mut text = String::new();
        let level = TextLevel::Content;
        input.deserialize_any(TextPart {
            text: &mut text,
            level,
        })?;
        Ok(text)
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum TextLevel {
    /// A text, or a list of parts.
    Content,
    /// An object with a text.
    Part,
    Text,
}

/// The content of a message, or a part of it. Values of other types are passed over.
struct TextPart<'t> {
    text: &'t mut String,
    level: TextLevel,
}

impl<'de> DeserializeSeed<'de> for TextPart<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, input: D) -> Result<(), D::Error> {
        input.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for TextPart<'_> {
    type Value = ();

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("a value")
    }

    fn visit_str<E>(self, text: &str) -> Result<(), E> {
        if self.level == TextLevel::Part {
            return Ok(());
        }
        if !self.text.is_empty() {
            self.text.push('\n');
        }
        let room = TEXT.saturating_sub(self.text.len());
        self.text
            .push_str(&text[..text.floor_char_boundary(room.min(text.len()))]);
        Ok(())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut entries: A) -> Result<(), A::Error> {
        if self.level == TextLevel::Content {
            let level = TextLevel::Part;
            while self.text.len() < TEXT {
                let text = &mut *self.text;
                if entries
                    .next_element_seed(TextPart { text, level })?
                    .is_none()
                {
                    return Ok(());
                }
            }
        }
        while entries.next_element::<IgnoredAny>()?.is_some() {}
        Ok(())
    }

    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<(), A::Error> {
        while let Some(key) = entries.next_key::<String>()? {
            if self.level == TextLevel::Part && key == "text" {
                let (text, level) = (&mut *self.text, TextLevel::Text);
                entries.next_value_seed(TextPart { text, level })?;
            } else {
                entries.next_value::<IgnoredAny>()?;
            }
        }
        Ok(())
    }

    pass_over_scalars!();
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn text(value: &Value) -> String {
        KeptText.deserialize(value).unwrap()
    }

    #[test]
    fn the_text_of_a_message() {
        for (content, expected) in [
            (json!("a"), "a"),
            (
                json!([{"type": "text", "text": "a"}, {"image": 1}, "x", 7, {"text": "b"}, {"text": ["c"]}]),
                "a\nb",
            ),
            (json!({"text": "a"}), ""),
            (json!(7), ""),
            (json!([[{"text": "a"}]]), ""),
        ] {
            assert_eq!(text(&content), expected, "{content}");
        }
        let long = text(&json!([{"text": "é".repeat(TEXT)}, {"text": "b"}]));
        assert!((TEXT - 2..=TEXT).contains(&long.len()), "{}", long.len());
    }

    #[test]
    fn what_is_too_long_is_left_out() {
        let kept = |value: &Value| KeptValue::within((1000, 20)).deserialize(value).unwrap();
        let short = json!({"a": [1, -2, 0.5, null, true], "b": "text"});
        assert_eq!(kept(&short), short);
        let list = json!({"zeros": vec![0; 100], "a": 1});
        assert!(kept(&list)["zeros"].as_array().unwrap().len() < 10);
        let text = json!({"long": "x".repeat(21), "a": 1});
        assert_eq!(kept(&text), json!({"long": "", "a": 1}));
        let twice = format!(r#"{{"a": 1, "b": [{}0], "a": 2}}"#, "0, ".repeat(100));
        let mut twice = serde_json::Deserializer::from_str(&twice);
        let read = KeptValue::within((1000, 20)).deserialize(&mut twice);
        assert!(read.unwrap().get("a").is_none());
        let keys: Map<String, Value> = (0..100).map(|key| (key.to_string(), json!(key))).collect();
        assert!(kept(&keys.into()).as_object().unwrap().len() < 10);
    }
}

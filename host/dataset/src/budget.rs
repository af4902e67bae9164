//! The memory that rows may take. A small file can stand for any amount: a list of a value that a
//! file has once, or a million empty fields.

use std::cell::Cell;
use std::fmt;

use mswea_text::MendedJson;
use serde::de::{DeserializeSeed, Deserializer, Error as _, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Value};

/// The approximate number of bytes that a value takes beside its text.
const VALUE: u64 = 48;
/// The approximate number of bytes that the name of a field takes beside its text.
const NAME: u64 = 72;

/// The approximate number of bytes that rows may still take.
#[derive(Debug)]
pub struct RowBudget {
    left: Cell<u64>,
    most: u64,
}

impl Default for RowBudget {
    /// 2 GiB: several times as much as the largest data sets of issues take.
    fn default() -> Self {
        Self::of(2 << 30)
    }
}

impl RowBudget {
    /// For rows that take about `most` bytes.
    pub(crate) fn of(most: u64) -> Self {
        Self {
            left: Cell::new(most),
            most,
        }
    }

    fn take(&self, bytes: u64) -> Result<(), String> {
        match self.left.get().checked_sub(bytes) {
            Some(left) => {
                self.left.set(left);
                Ok(())
            }
            None => Err(format!(
                "its rows take more than {} MiB of memory",
                self.most >> 20
            )),
        }
    }

    /// Takes what a value with this text needs.
    pub(crate) fn value(&self, text: usize) -> Result<(), String> {
        self.take(VALUE + text as u64)
    }

    /// Takes what the name of a field needs.
    pub(crate) fn name(&self, text: usize) -> Result<(), String> {
        self.take(NAME + text as u64)
    }

    /// The value of a text in JSON, also as Python writes it.
    pub(crate) fn json(&self, text: &str) -> Result<Value, serde_json::Error> {
        let left = self.left.get();
        self.strict_json(text.as_bytes())
            .or_else(|error| match MendedJson::of(text.as_bytes()) {
                None => Err(error),
                Some(mended) => {
                    self.left.set(left);
                    self.strict_json(&mended.text)
                }
            })
    }

    fn strict_json(&self, text: &[u8]) -> Result<Value, serde_json::Error> {
        let mut reader = serde_json::Deserializer::from_slice(text);
        let value = Counted(self).deserialize(&mut reader)?;
        reader.end()?;
        Ok(value)
    }
}

/// Reads a value and counts it before it is stored.
struct Counted<'b>(&'b RowBudget);

impl<'de> DeserializeSeed<'de> for Counted<'_> {
    type Value = Value;

    fn deserialize<D: Deserializer<'de>>(self, reader: D) -> Result<Value, D::Error> {
        reader.deserialize_any(self)
    }
}

impl Counted<'_> {
    fn counted<E: serde::de::Error>(&self, text: usize) -> Result<(), E> {
        self.0.value(text).map_err(E::custom)
    }
}

impl<'de> Visitor<'de> for Counted<'_> {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a value")
    }

    fn visit_bool<E: serde::de::Error>(self, value: bool) -> Result<Value, E> {
        self.counted(0)?;
        Ok(value.into())
    }

    fn visit_i64<E: serde::de::Error>(self, value: i64) -> Result<Value, E> {
        self.counted(0)?;
        Ok(value.into())
    }

    fn visit_u64<E: serde::de::Error>(self, value: u64) -> Result<Value, E> {
        self.counted(0)?;
        Ok(value.into())
    }

    fn visit_f64<E: serde::de::Error>(self, value: f64) -> Result<Value, E> {
        self.counted(0)?;
        Ok(value.into())
    }

    fn visit_unit<E: serde::de::Error>(self) -> Result<Value, E> {
        self.counted(0)?;
        Ok(Value::Null)
    }

    fn visit_str<E: serde::de::Error>(self, value: &str) -> Result<Value, E> {
        self.counted(value.len())?;
        Ok(value.into())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Value, A::Error> {
        self.counted(0)?;
        let mut found = Vec::new();
        while let Some(item) = items.next_element_seed(Counted(self.0))? {
            found.push(item);
        }
        Ok(Value::Array(found))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<Value, A::Error> {
        self.counted(0)?;
        let mut found = Map::new();
        while let Some(name) = entries.next_key::<String>()? {
            self.0.name(name.len()).map_err(A::Error::custom)?;
            let value = entries.next_value_seed(Counted(self.0))?;
            found.insert(name, value);
        }
        Ok(Value::Object(found))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_those_of_the_text() {
        for text in [
            "null",
            "[true,-1,18446744073709551615,1.5,\"ä\\n\"]",
            r#"{"b":{"a":[]},"a":null}"#,
        ] {
            let value = RowBudget::default().json(text).unwrap();
            assert_eq!(value.to_string(), text);
        }
        for text in ["", "[1", "[] []", "{\"a\"}"] {
            assert!(RowBudget::default().json(text).is_err(), "{text}");
        }
    }

    #[test]
    fn what_takes_more_than_the_budget_is_refused() {
        for (text, most) in [
            ("[[],[],[],[]]", 5 * VALUE),
            ("\"12345\"", VALUE + 5),
            (r#"{"name":0}"#, 2 * VALUE + NAME + 4),
        ] {
            RowBudget::of(most).json(text).unwrap();
            let error = RowBudget::of(most - 1).json(text).unwrap_err().to_string();
            assert!(error.contains("of memory"), "{error}");
        }
    }
}

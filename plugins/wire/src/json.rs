//! JSON: written piece by piece, and read from servers that are not strict about it.

use std::borrow::Cow;

use mswea_sdk::adapter::Delta;
use serde_json::{Map, Value};

use crate::Server;

/// A request's body. It names each key once: where the parameters have one too, that counts.
pub struct Body<'a> {
    server: &'a Server,
    out: Vec<u8>,
}

impl<'a> Body<'a> {
    /// A body that will hold a history of this size.
    pub fn new(server: &'a Server, size: usize) -> Self {
        let mut out = Vec::with_capacity(size + 4096);
        out.push(b'{');
        Self { server, out }
    }

    /// Writes a key, if it is ours to write; what comes then is its value.
    fn begin(&mut self, key: &str) -> bool {
        let Server {
            model_kwargs,
            extra_body,
            ..
        } = self.server;
        if model_kwargs.contains_key(key) || extra_body.contains_key(key) {
            return false;
        }
        self.key(key);
        true
    }

    fn key(&mut self, key: &str) {
        if self.out.len() > 1 {
            self.out.push(b',');
        }
        append(&mut self.out, key);
        self.out.push(b':');
    }

    /// Writes a key and its value, if it is ours to write; says whether it was.
    pub fn put<T: serde::Serialize + ?Sized>(&mut self, key: &str, value: &T) -> bool {
        let is_ours = self.begin(key);
        if is_ours {
            append(&mut self.out, value);
        }
        is_ours
    }

    /// Writes a key and a list: `elements` are encoded already, with commas between them (and one before them, or not), and
    /// `close` is what the last of them lacks, in pieces.
    pub fn put_list(&mut self, key: &str, elements: &[u8], close: &[&[u8]]) {
        if self.begin(key) {
            self.out.push(b'[');
            let elements = elements.strip_prefix(b",").unwrap_or(elements);
            self.out.extend_from_slice(elements);
            for piece in close {
                self.out.extend_from_slice(piece);
            }
            self.out.push(b']');
        }
    }

    /// Writes the parameters, and closes the body.
    pub fn finish(mut self) -> Vec<u8> {
        let Server {
            model_kwargs,
            extra_body,
            ..
        } = self.server;
        let kwargs = model_kwargs.iter();
        let kwargs = kwargs.filter(|(key, _)| !extra_body.contains_key(*key));
        for (key, value) in kwargs.chain(extra_body) {
            self.key(key);
            append(&mut self.out, value);
        }
        self.out.push(b'}');
        self.out
    }
}

/// Writes a value.
pub fn append<T: serde::Serialize + ?Sized>(out: &mut Vec<u8>, value: &T) {
    serde_json::to_writer(out, value)
        .expect("invariant: values with string keys can be written, and memory takes every byte");
}

/// A text as JSON. One that is no JSON is a fault of whoever made it, and stays a string: the
/// server will say so in better words than we could.
pub fn parse_or_string(text: &str) -> Value {
    serde_json::from_str(text).unwrap_or_else(|_| Value::String(text.to_owned()))
}

/// A JSON text of a server's, with `\ufffd` in the place of each escape of half a character. Python
/// takes `\ud800` and writes it too; a text of ours has no place for it.
pub fn whole_characters(text: Cow<'_, str>) -> Cow<'_, str> {
    let halves = halves(text.as_bytes());
    if halves.is_empty() {
        return text;
    }
    let mut mended = text.into_owned();
    for at in halves {
        mended.replace_range(at..at + ESCAPE, "\\ufffd");
    }
    Cow::Owned(mended)
}

/// Bytes of `\ud800`.
const ESCAPE: usize = 6;

/// Where the escapes are that are half of a pair without the other half.
fn halves(text: &[u8]) -> Vec<usize> {
    let mut found = Vec::new();
    let mut at = 0;
    while let Some(next) = text[at..].iter().position(|byte| *byte == b'\\') {
        at += next;
        at += match escaped(&text[at..]) {
            Some(0xd800..=0xdbff)
                if matches!(escaped(&text[at + ESCAPE..]), Some(0xdc00..=0xdfff)) =>
            {
                2 * ESCAPE
            }
            Some(0xd800..=0xdfff) => {
                found.push(at);
                ESCAPE
            }
            Some(_) => ESCAPE,
            // No other escape begins with the second half of `\\`.
            None => 2,
        };
        at = at.min(text.len());
    }
    found
}

/// The number of a `\u` escape, if the text begins with one.
fn escaped(text: &[u8]) -> Option<u32> {
    let digits = text.get(..ESCAPE)?.strip_prefix(b"\\u")?;
    digits.iter().try_fold(0, |number, digit| {
        Some(number << 4 | char::from(*digit).to_digit(16)?)
    })
}

/// A JSON object in an `extra` or an opaque part.
pub fn object(text: Option<&str>) -> Option<Map<String, Value>> {
    serde_json::from_str(text?).ok()
}

/// A count, which some servers write as `3.0`.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "checked to be a count; `as` saturates"
)]
pub fn count(value: Option<&Value>) -> Option<u64> {
    let value = value?;
    value.as_u64().or_else(|| {
        let number = value.as_f64()?;
        (number >= 0.0).then_some(number as u64)
    })
}

/// An amount of money; what is none, or negative, is not reported.
pub fn cost(value: Option<&Value>) -> Option<f64> {
    let cost = value.and_then(Value::as_f64);
    cost.filter(|cost| cost.is_finite() && *cost >= 0.0)
}

/// The text of a value that should be one; empty if it is none.
pub fn text(value: Option<&Value>) -> &str {
    value.and_then(Value::as_str).unwrap_or_default()
}

/// Adds a piece to what is shown of an answer; pieces of one kind are joined.
pub fn show(deltas: &mut Vec<Delta>, kind: &str, text: &str) {
    if text.is_empty() {
        return;
    }
    match deltas.last_mut() {
        Some(last) if last.kind == kind => last.text.push_str(text),
        _ => deltas.push(Delta::new(kind, text)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn halves_of_characters_are_replaced() {
        for (text, expected) in [
            (r#""\ud800""#, r#""\ufffd""#),
            (
                r#""a\uDFFFb\ud83d\ude00\ud800""#,
                r#""a\ufffdb\ud83d\ude00\ufffd""#,
            ),
            (r#""\ude00\ud83d""#, r#""\ufffd\ufffd""#),
            (r#""\ud83d\ud83d\ude00""#, r#""\ufffd\ud83d\ude00""#),
            (r#""é\\ud800\\\ud800\"\n""#, r#""é\\ud800\\\ufffd\"\n""#),
            (r#""\u00e9 \ud80""#, r#""\u00e9 \ud80""#),
            ("\"\\", "\"\\"),
            ("", ""),
        ] {
            let mended = whole_characters(Cow::Borrowed(text));
            assert_eq!(mended, expected);
            assert_eq!(matches!(mended, Cow::Borrowed(_)), text == expected);
        }
    }
}

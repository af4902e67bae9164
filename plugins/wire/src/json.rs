//! JSON: written piece by piece, and parsed from servers that deviate from the standard.

use std::borrow::Cow;

use memchr::{memchr, memchr2, memmem};
use mswea_sdk::adapter::Delta;
use serde_json::{Map, Value};

use crate::Server;
use crate::pieces::{Kept, Unchanged, Written};

/// A request's body. It has each key once: a parameter of the same name takes precedence.
pub struct Body<'a> {
    server: &'a Server,
    out: Vec<u8>,
    unchanged: Option<Unchanged>,
    kept: Option<Kept>,
    messages_at: Option<usize>,
}

impl<'a> Body<'a> {
    /// A body with room for a history of this size, of which the last body has `unchanged`.
    pub fn new(server: &'a Server, size: usize, unchanged: Option<Unchanged>) -> Self {
        let kept = unchanged.map_or(0, |unchanged| unchanged.len);
        let mut out = Vec::with_capacity(size.saturating_sub(kept) + 4096);
        out.push(b'{');
        Self {
            server,
            out,
            unchanged,
            kept: None,
            messages_at: None,
        }
    }

    /// Writes a key, unless a parameter sets it; returns whether its value has to follow.
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

    /// Writes a key and its value, unless a parameter sets it; returns whether it was written.
    pub fn put<T: serde::Serialize + ?Sized>(&mut self, key: &str, value: &T) -> bool {
        let is_ours = self.begin(key);
        if is_ours {
            append(&mut self.out, value);
        }
        is_ours
    }

    /// Writes a key and a list: `elements` are encoded already, with commas between them.
    pub fn put_list(&mut self, key: &str, elements: &[u8]) {
        if self.begin(key) {
            self.out.push(b'[');
            self.out.extend_from_slice(elements);
            self.out.push(b']');
        }
    }

    /// Writes a key and the list of the messages, once in a body. `elements` are encoded already,
    /// with commas between them (and possibly before them); their unchanged bytes are not written,
    /// the host has them. `close` is the missing end of the last one, in pieces.
    pub fn put_messages(&mut self, key: &str, elements: &[u8], close: &[&[u8]]) {
        if !self.begin(key) {
            return;
        }
        self.out.push(b'[');
        let comma = usize::from(elements.starts_with(b","));
        let behind = self.out.len();
        self.messages_at = Some(behind);
        let unchanged = self.unchanged.take().map(|Unchanged { at, len }| Kept {
            behind,
            start: at,
            len: len.saturating_sub(comma),
        });
        self.kept = unchanged.filter(|kept| kept.len > 0);
        let kept = self.kept.as_ref().map_or(0, |kept| kept.len);
        self.out.extend_from_slice(&elements[comma + kept..]);
        for piece in close {
            self.out.extend_from_slice(piece);
        }
        self.out.push(b']');
    }

    /// Writes the parameters, and closes the body.
    pub fn finish(mut self) -> Written {
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
        Written {
            fresh: self.out,
            kept: self.kept,
            messages_at: self.messages_at,
        }
    }
}

/// Writes a value.
pub fn append<T: serde::Serialize + ?Sized>(out: &mut Vec<u8>, value: &T) {
    serde_json::to_writer(out, value).expect(
        "invariant: values with string keys can be written, and writing to memory does not fail",
    );
}

/// A text as JSON. One that is not valid JSON stays a string, and the server reports the error.
pub fn parse_or_string(text: &str) -> Value {
    serde_json::from_str(text).unwrap_or_else(|_| Value::String(text.to_owned()))
}

/// A server's JSON text as the standard has it: with `\ufffd` in place of each escape of half a
/// surrogate pair, and with null in place of `NaN` and `Infinity`. Python reads and writes all of
/// them; here no text can hold the first, and no value the others.
pub fn mended(text: Cow<'_, str>) -> Cow<'_, str> {
    let text = whole_characters(text);
    let has = |word: &str| memmem::find(text.as_bytes(), word.as_bytes()).is_some();
    match has("NaN") || has("Infinity") {
        true => Cow::Owned(without_words(&text)),
        false => text,
    }
}

/// The text with null in place of the words for numbers that JSON does not have.
fn without_words(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    // Between quotes the words are text.
    while let Some(at) = rest.find(['"', 'N', 'I', '-']) {
        out.push_str(&rest[..at]);
        rest = &rest[at..];
        let end = match rest.strip_prefix('"') {
            Some(inside) => 1 + end_of_text(inside.as_bytes()),
            None => match ["NaN", "Infinity", "-Infinity"]
                .into_iter()
                .find(|word| rest.starts_with(word))
            {
                Some(word) => {
                    out.push_str("null");
                    rest = &rest[word.len()..];
                    continue;
                }
                None => 1,
            },
        };
        out.push_str(&rest[..end]);
        rest = &rest[end..];
    }
    out + rest
}

/// The position after the quote that ends a text.
fn end_of_text(text: &[u8]) -> usize {
    let mut at = 0;
    while let Some(next) = memchr2(b'"', b'\\', &text[at..]) {
        at += next;
        if text[at] == b'"' {
            return at + 1;
        }
        at = text.len().min(at + 2);
    }
    text.len()
}

fn whole_characters(text: Cow<'_, str>) -> Cow<'_, str> {
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

/// The length of `\ud800`.
const ESCAPE: usize = 6;

/// The positions of escapes that are half of a pair without the other half.
fn halves(text: &[u8]) -> Vec<usize> {
    let mut found = Vec::new();
    let mut at = 0;
    while let Some(next) = memchr(b'\\', &text[at..]) {
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
            // No other escape begins with the second character of `\\`.
            None => 2,
        };
        at = at.min(text.len());
    }
    found
}

/// The code of a `\u` escape, if the text begins with one.
fn escaped(text: &[u8]) -> Option<u32> {
    let digits = text.get(..ESCAPE)?.strip_prefix(b"\\u")?;
    digits.iter().try_fold(0, |number, digit| {
        Some(number << 4 | char::from(*digit).to_digit(16)?)
    })
}

/// The JSON object in an `extra` or an opaque part.
pub fn object(text: Option<&str>) -> Option<Map<String, Value>> {
    serde_json::from_str(text?).ok()
}

/// A count, which some servers write as `3.0` or `"3"`; one that is negative is not reported.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "checked to be a count; `as` saturates"
)]
pub fn count(value: Option<&Value>) -> Option<u64> {
    let value = value?;
    if let Some(text) = value.as_str() {
        return text.trim().parse().ok();
    }
    value.as_u64().or_else(|| {
        let number = value.as_f64()?;
        (number >= 0.0).then_some(number as u64)
    })
}

/// An amount of money; one that is missing or negative is not reported.
pub fn cost(value: Option<&Value>) -> Option<f64> {
    let cost = value.and_then(Value::as_f64);
    cost.filter(|cost| cost.is_finite() && *cost >= 0.0)
}

/// The text of a value; empty if it is no text.
pub fn text(value: Option<&Value>) -> &str {
    value.and_then(Value::as_str).unwrap_or_default()
}

/// Adds a piece to the deltas; pieces of one kind are joined.
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
    fn numbers_that_json_does_not_have_are_null() {
        for (text, expected) in [
            (
                r#"{"a":NaN,"b":[-Infinity, Infinity]}"#,
                r#"{"a":null,"b":[null, null]}"#,
            ),
            (
                r#"["NaN", "\"NaN", "é\\", NaN, -1]"#,
                r#"["NaN", "\"NaN", "é\\", null, -1]"#,
            ),
            ("[1, \"NaN", "[1, \"NaN"),
            ("[\"NaN\\", "[\"NaN\\"),
            ("[Nothing, Info]", "[Nothing, Info]"),
        ] {
            assert_eq!(mended(Cow::Borrowed(text)), expected);
        }
    }

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

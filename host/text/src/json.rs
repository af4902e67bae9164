//! JSON as Python writes it, which no other reader accepts: `NaN`, `Infinity` and `-Infinity`, which
//! have no value in JSON and become null, and halves of characters, which become U+FFFD. Editors put
//! a byte-order mark before it.

use serde::de::DeserializeOwned;

/// Parses JSON that another program wrote.
///
/// # Errors
/// If it is no JSON, not even as Python writes it.
pub fn read_json<T: DeserializeOwned>(bytes: &[u8]) -> serde_json::Result<T> {
    // Most files need no second look.
    serde_json::from_slice(bytes).or_else(|error| match MendedJson::of(bytes) {
        None => Err(error),
        Some(mended) => serde_json::from_slice(&mended.text),
    })
}

/// JSON in the form of the standard.
pub struct MendedJson {
    /// The text.
    pub text: Vec<u8>,
    /// How many halves of characters were replaced.
    pub halves: u64,
}

impl MendedJson {
    /// The mended text; none if there is nothing to mend.
    #[must_use]
    pub fn of(bytes: &[u8]) -> Option<Self> {
        let rest = bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(bytes);
        let mut mended = Self {
            text: Vec::with_capacity(rest.len()),
            halves: 0,
        };
        let mut is_changed = rest.len() < bytes.len();
        let mut in_string = false;
        let mut at = 0;
        while let Some(&byte) = rest.get(at) {
            let (len, text): (usize, &[u8]) = match byte {
                b'"' => {
                    in_string = !in_string;
                    (1, b"\"")
                }
                b'\\' if in_string => match escaped(&rest[at..]) {
                    Some(0xd800..=0xdbff)
                        if matches!(escaped(&rest[at + ESCAPE..]), Some(0xdc00..=0xdfff)) =>
                    {
                        (2 * ESCAPE, &rest[at..at + 2 * ESCAPE])
                    }
                    Some(0xd800..=0xdfff) => {
                        mended.halves += 1;
                        (ESCAPE, b"\\ufffd")
                    }
                    Some(_) => (ESCAPE, &rest[at..at + ESCAPE]),
                    // `\\` is one escape; its second half does not begin another one.
                    None => {
                        let end = rest.len().min(at + 2);
                        (end - at, &rest[at..end])
                    }
                },
                b'N' | b'I' | b'-' if !in_string => match number(&rest[at..]) {
                    Some(len) => {
                        is_changed = true;
                        (len, b"null")
                    }
                    None => (1, &rest[at..=at]),
                },
                _ => (1, &rest[at..=at]),
            };
            mended.text.extend_from_slice(text);
            at += len;
        }
        (is_changed || mended.halves > 0).then_some(mended)
    }
}

/// The length of the word for a number that JSON does not have, if the text begins with one.
fn number(text: &[u8]) -> Option<usize> {
    let words: [&[u8]; 3] = [b"NaN", b"Infinity", b"-Infinity"];
    let word = words.into_iter().find(|word| text.starts_with(word))?;
    let next = text.get(word.len());
    let is_end = next.is_none_or(|byte| !byte.is_ascii_alphanumeric() && *byte != b'_');
    is_end.then_some(word.len())
}

/// The number of bytes of `\ud800`.
const ESCAPE: usize = 6;

/// The number in a `\u` escape, if the text begins with one.
fn escaped(text: &[u8]) -> Option<u32> {
    let digits = text.get(..ESCAPE)?.strip_prefix(b"\\u")?;
    digits.iter().try_fold(0, |number, digit| {
        Some(number << 4 | char::from(*digit).to_digit(16)?)
    })
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    #[test]
    fn what_python_writes_is_read() {
        for (text, expected) in [
            (
                "[NaN, Infinity, -Infinity, 1]",
                json!([null, null, null, 1]),
            ),
            (r#"{"a":NaN,"b":-Infinity}"#, json!({"a": null, "b": null})),
            ("NaN", Value::Null),
            ("\u{feff}{}", json!({})),
            ("\u{feff}\r\n[NaN]\n", json!([null])),
            (
                r#"["NaN, Infinity", "\"NaN", NaN]"#,
                json!(["NaN, Infinity", "\"NaN", null]),
            ),
            (r#"["\\", NaN, "\ud800"]"#, json!(["\\", null, "\u{fffd}"])),
            ("[-1, 1e-3]", json!([-1, 1e-3])),
        ] {
            assert_eq!(
                read_json::<Value>(text.as_bytes()).unwrap(),
                expected,
                "{text}"
            );
        }
        for text in [
            "[NaNs]",
            "[nan]",
            "[+Infinity]",
            "[-NaN]",
            "[Infinity_]",
            "[NaN",
            "\u{feff}",
            "{NaN: 1}",
        ] {
            assert!(read_json::<Value>(text.as_bytes()).is_err(), "{text}");
        }
    }

    #[test]
    fn halves_of_characters() {
        for (text, mended, halves) in [
            (r#""\ud800""#, r#""\ufffd""#, 1),
            (r#""\uDFFF""#, r#""\ufffd""#, 1),
            (r#""\ud83d\ude00\ud800""#, r#""\ud83d\ude00\ufffd""#, 1),
            (r#""\ude00\ud83d""#, r#""\ufffd\ufffd""#, 2),
            (r#""\ud83d\ud83d\ude00x""#, r#""\ufffd\ud83d\ude00x""#, 1),
            (r#""\ud83d\u0041""#, r#""\ufffd\u0041""#, 1),
            (r#""\ud83d\n""#, r#""\ufffd\n""#, 1),
            (r#""\\\ud800""#, r#""\\\ufffd""#, 1),
            (r#""\"\ud800""#, r#""\"\ufffd""#, 1),
        ] {
            let found = MendedJson::of(text.as_bytes()).unwrap();
            assert_eq!(found.halves, halves, "{text}");
            assert_eq!(String::from_utf8(found.text).unwrap(), mended, "{text}");
        }
        for text in [
            r#""a""#,
            r#""\ud83d\ude00""#,
            r#""\\ud800""#,
            r#""\\\\ud800""#,
            r#""\u00e9""#,
            // An incomplete escape, and a text without one.
            r#""\ud80"#,
            r#""\ud8"#,
            r#""\u"#,
            "\"\\",
            r#""\ud+00""#,
            "",
        ] {
            assert!(MendedJson::of(text.as_bytes()).is_none(), "{text}");
        }
    }
}

//! A call's input as the text that other APIs have for arguments.

use std::io;

use serde::Serialize;
use serde_json::Value;
use serde_json::ser::{Formatter, Serializer};

/// The text as mini-swe-agent writes it: Python's form, with blanks after commas and colons, and
/// ASCII only. So recorded runs can be compared.
pub fn text(input: &Value) -> String {
    let mut out = Vec::new();
    let mut serializer = Serializer::with_formatter(&mut out, Python);
    input.serialize(&mut serializer).expect(
        "invariant: values with string keys can be written, and writing to memory does not fail",
    );
    String::from_utf8(out).expect("invariant: ASCII only")
}

struct Python;

impl Formatter for Python {
    fn begin_array_value<W: ?Sized + io::Write>(
        &mut self,
        w: &mut W,
        first: bool,
    ) -> io::Result<()> {
        separate(w, first)
    }

    fn begin_object_key<W: ?Sized + io::Write>(
        &mut self,
        w: &mut W,
        first: bool,
    ) -> io::Result<()> {
        separate(w, first)
    }

    fn begin_object_value<W: ?Sized + io::Write>(&mut self, w: &mut W) -> io::Result<()> {
        w.write_all(b": ")
    }

    fn write_string_fragment<W: ?Sized + io::Write>(
        &mut self,
        w: &mut W,
        text: &str,
    ) -> io::Result<()> {
        let mut rest = text;
        while let Some(at) = rest.find(|c: char| !c.is_ascii() || c == '\x7f') {
            let (plain, other) = rest.split_at(at);
            w.write_all(plain.as_bytes())?;
            let mut chars = other.chars();
            for unit in chars.next().iter().flat_map(|c| utf16(*c)) {
                write!(w, "\\u{unit:04x}")?;
            }
            rest = chars.as_str();
        }
        w.write_all(rest.as_bytes())
    }
}

fn utf16(c: char) -> Vec<u16> {
    c.encode_utf16(&mut [0; 2]).to_vec()
}

fn separate<W: ?Sized + io::Write>(w: &mut W, first: bool) -> io::Result<()> {
    if first { Ok(()) } else { w.write_all(b", ") }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// The results of `json.dumps` of Python 3.11.
    #[test]
    fn is_pythons() {
        for (input, expected) in [
            (json!({}), "{}"),
            (json!({"command": "ls"}), r#"{"command": "ls"}"#),
            (
                json!({"a": [1, 2.5, null, true, []], "b": {"c": "d"}}),
                r#"{"a": [1, 2.5, null, true, []], "b": {"c": "d"}}"#,
            ),
            (
                json!({"é": "\n\t\"\\/\u{1}\u{7f} ü😀!"}),
                r#"{"\u00e9": "\n\t\"\\/\u0001\u007f \u00fc\ud83d\ude00!"}"#,
            ),
        ] {
            assert_eq!(text(&input), expected);
            assert_eq!(serde_json::from_str::<Value>(expected).unwrap(), input);
        }
    }
}

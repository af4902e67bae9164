//! What Python writes: floats, the text side of `json.dumps`, and the white space and line rules of `str`.
//!
//! Users' templates were written for Jinja2, and Python tools read trajectories: both depend on the
//! exact form of floats and escapes. The host and the component that renders templates use it, so it has
//! no dependencies.

#[cfg(feature = "json")]
mod json;

#[cfg(feature = "json")]
pub use json::PythonJson;

/// `repr()` of a float: the shortest text that parses to the same number, with an exponent outside
/// of `1e-4 <= |f| < 1e16`.
pub fn float_repr(value: f64) -> String {
    if value.is_nan() {
        return "nan".to_owned();
    }
    if value.is_infinite() {
        return if value > 0.0 { "inf" } else { "-inf" }.to_owned();
    }
    // Rust's debug form uses an exponent for the same numbers, but writes `1e16` where Python
    // writes `1e+16`.
    let text = format!("{value:?}");
    let Some((mantissa, exponent)) = text.split_once('e') else {
        return text;
    };
    match exponent.strip_prefix('-') {
        Some(digits) => format!("{mantissa}e-{digits:0>2}"),
        None => format!("{mantissa}e+{exponent:0>2}"),
    }
}

/// Which characters a JSON text escapes beyond those that JSON demands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Escapes {
    /// Everything except printable ASCII, as `json.dumps(ensure_ascii=True)`.
    pub ascii: bool,
    /// `<`, `>`, `&` and `'`, as Jinja2's `tojson`.
    pub html: bool,
}

/// Appends a string as `json.dumps` writes it, quotes included.
pub fn push_json_str(out: &mut String, text: &str, escapes: Escapes) {
    out.push('"');
    push_json_fragment(out, text, escapes);
    out.push('"');
}

/// Whether a byte is a character that is written as itself in every case.
fn is_plain(byte: u8) -> bool {
    const PLAIN: [bool; 256] = {
        let mut plain = [false; 256];
        let mut byte = b' ';
        while byte < 0x7f {
            plain[byte as usize] = !matches!(byte, b'"' | b'\\' | b'<' | b'>' | b'&' | b'\'');
            byte += 1;
        }
        plain
    };
    PLAIN[usize::from(byte)]
}

/// The inside of a string as `json.dumps` writes it.
pub fn push_json_fragment(out: &mut String, text: &str, escapes: Escapes) {
    let mut rest = text;
    while let Some(index) = rest.bytes().position(|byte| !is_plain(byte)) {
        out.push_str(&rest[..index]);
        rest = &rest[index..];
        let mut chars = rest.chars();
        let Some(char) = chars.next() else { break };
        rest = chars.as_str();
        match char {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            '\u{8}' => out.push_str("\\b"),
            '\u{c}' => out.push_str("\\f"),
            '<' | '>' | '&' | '\'' if !escapes.html => out.push(char),
            '\u{7f}'.. if !escapes.ascii => out.push(char),
            _ => {
                let mut units = [0; 2];
                for unit in char.encode_utf16(&mut units) {
                    out.push_str("\\u");
                    for shift in [12, 8, 4, 0] {
                        let digit = u32::from(*unit >> shift) & 0xf;
                        out.extend(char::from_digit(digit, 16));
                    }
                }
            }
        }
    }
    out.push_str(rest);
}

/// The characters for which `str.isspace` is true.
pub fn is_space(char: char) -> bool {
    char.is_whitespace() || ('\u{1c}'..='\u{1f}').contains(&char)
}

/// `str.splitlines`: more line ends than `\n`, and no empty line after the last of them.
pub fn splitlines(text: &str, keep_ends: bool) -> Vec<&str> {
    let mut lines = Vec::new();
    let mut start = 0;
    let mut chars = text.char_indices().peekable();
    while let Some((index, char)) = chars.next() {
        let is_end = matches!(
            char,
            '\n' | '\r' | '\u{b}' | '\u{c}' | '\u{1c}'
                ..='\u{1e}' | '\u{85}' | '\u{2028}' | '\u{2029}'
        );
        if !is_end {
            continue;
        }
        let mut end = index + char.len_utf8();
        if char == '\r' && chars.next_if(|(_, next)| *next == '\n').is_some() {
            end += 1;
        }
        lines.push(&text[start..if keep_ends { end } else { index }]);
        start = end;
    }
    if start < text.len() {
        lines.push(&text[start..]);
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn floats() {
        for (value, text) in [
            (0.0, "0.0"),
            (-0.0, "-0.0"),
            (1.0, "1.0"),
            (0.1 + 0.2, "0.30000000000000004"),
            (1e-4, "0.0001"),
            (1e-5, "1e-05"),
            (1.5e-7, "1.5e-07"),
            (1e15, "1000000000000000.0"),
            (1e16, "1e+16"),
            (-1.25e100, "-1.25e+100"),
            (5e-324, "5e-324"),
            (f64::MAX, "1.7976931348623157e+308"),
            (f64::INFINITY, "inf"),
            (f64::NEG_INFINITY, "-inf"),
            (f64::NAN, "nan"),
        ] {
            assert_eq!(float_repr(value), text);
        }
    }

    #[test]
    fn lines() {
        assert_eq!(
            splitlines("a\r\nb\rc\n\nd\u{2028}e\u{b}", false),
            ["a", "b", "c", "", "d", "e"]
        );
        assert_eq!(splitlines("a\r\nb", true), ["a\r\n", "b"]);
        assert!(splitlines("", false).is_empty());
    }

    #[test]
    fn json_strings() {
        let plain = Escapes {
            ascii: false,
            html: false,
        };
        let ascii = Escapes {
            ascii: true,
            html: false,
        };
        let html = Escapes {
            ascii: true,
            html: true,
        };
        for (text, escapes, expected) in [
            (
                "a\"\\\n\r\t\u{8}\u{c}\u{1}\u{7f}é",
                plain,
                "\"a\\\"\\\\\\n\\r\\t\\b\\f\\u0001\u{7f}é\"",
            ),
            ("\u{7f}é😀'<", ascii, r#""\u007f\u00e9\ud83d\ude00'<""#),
            (
                "<a href='x'>&",
                html,
                r#""\u003ca href=\u0027x\u0027\u003e\u0026""#,
            ),
        ] {
            let mut out = String::new();
            push_json_str(&mut out, text, escapes);
            assert_eq!(out, expected);
        }
    }
}

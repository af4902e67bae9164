//! What Python prints: floats, `str()` and `repr()` of values, the text side of `json.dumps`, and
//! the white space and line rules of `str`.
//!
//! Users' templates were written for Jinja2, and Python tools read trajectories: both depend on the
//! exact form of floats and escapes.

use std::fmt::{self, Write};
use std::io;

use minijinja::Value;
use minijinja::value::{DynObject, ValueKind};

use super::group::Group;
use super::meter;
use super::objects::{MapView, Range};

/// Values nested more deeply are not printed, because the printers recurse.
const MAX_DEPTH: usize = 200;

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

/// `str()` of a template value.
pub(super) fn write_str(out: &mut dyn Write, value: &Value) -> fmt::Result {
    match value.as_str() {
        Some(text) => out.write_str(text),
        None if value.is_undefined() => Ok(()),
        None => write_repr(out, value, 0),
    }
}

/// A writer that fails when the meter's limit is reached; the whole rendering then fails.
struct Metered<W> {
    out: W,
    report: fn(usize) -> Result<(), minijinja::Error>,
    /// Bytes written since the last report.
    since: usize,
}

/// Bytes that are written between two reports; a single longer text is reported as a whole.
const REPORTED: usize = 4 << 10;

impl<W: Write> Write for Metered<W> {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        self.since += text.len();
        if self.since >= REPORTED {
            (self.report)(std::mem::take(&mut self.since)).map_err(|_| fmt::Error)?;
        }
        self.out.write_str(text)
    }
}

/// A text that may grow until the meter's limit is reached.
fn metered() -> Metered<String> {
    Metered {
        out: String::new(),
        report: meter::build,
        since: 0,
    }
}

/// [`write_str`] into the output of a rendering.
pub(super) fn print(out: &mut dyn Write, value: &Value) -> fmt::Result {
    let mut out = Metered {
        out,
        report: meter::print,
        since: 0,
    };
    write_str(&mut out, value)?;
    meter::print(out.since).map_err(|_| fmt::Error)
}

/// [`write_str`] into a new string.
pub(super) fn to_str(value: &Value) -> String {
    let mut out = metered();
    // it fails only if the whole rendering fails
    let _ = write_str(&mut out, value);
    out.out
}

/// `repr()` into a new string.
pub(super) fn repr(value: &Value) -> String {
    let mut out = metered();
    // it fails only if the whole rendering fails
    let _ = write_repr(&mut out, value, 0);
    out.out
}

/// `ascii()`: `repr()` with escapes for non-ASCII characters.
pub(super) fn ascii_repr(value: &Value) -> String {
    let mut out = String::new();
    for char in repr(value).chars() {
        if char.is_ascii() {
            out.push(char);
        } else {
            // writing to a `String` cannot fail
            let _ = write_escape(&mut out, char);
        }
    }
    out
}

fn write_escape(out: &mut dyn Write, char: char) -> fmt::Result {
    match char {
        '\0'..='\u{ff}' => write!(out, "\\x{:02x}", u32::from(char)),
        '\u{100}'..='\u{ffff}' => write!(out, "\\u{:04x}", u32::from(char)),
        _ => write!(out, "\\U{:08x}", u32::from(char)),
    }
}

fn write_repr(out: &mut dyn Write, value: &Value, depth: usize) -> fmt::Result {
    if depth > MAX_DEPTH {
        return out.write_str("...");
    }
    if let Some(range) = value.downcast_object_ref::<Range>() {
        let Range {
            start, stop, step, ..
        } = range;
        return match step {
            1 => write!(out, "range({start}, {stop})"),
            _ => write!(out, "range({start}, {stop}, {step})"),
        };
    }
    if let Some(view) = value.downcast_object_ref::<MapView>() {
        write!(out, "{}(", view.name)?;
        write_repr(out, &Value::from(view.items.clone()), depth + 1)?;
        return out.write_char(')');
    }
    match value.kind() {
        ValueKind::Number if !value.is_integer() => match f64::try_from(value.clone()) {
            Ok(number) => out.write_str(&float_repr(number)),
            Err(_) => write!(out, "{value}"),
        },
        ValueKind::Seq => {
            let tuple = value.is_tuple() || value.downcast_object_ref::<Group>().is_some();
            out.write_char(if tuple { '(' } else { '[' })?;
            let mut count = 0;
            for item in value.try_iter().into_iter().flatten() {
                if count > 0 {
                    out.write_str(", ")?;
                }
                write_repr(out, &item, depth + 1)?;
                count += 1;
            }
            match (tuple, count) {
                (true, 1) => out.write_str(",)"),
                (true, _) => out.write_char(')'),
                (false, _) => out.write_char(']'),
            }
        }
        ValueKind::Map => {
            out.write_char('{')?;
            let pairs = value.as_object().and_then(DynObject::try_iter_pairs);
            for (index, (key, item)) in pairs.into_iter().flatten().enumerate() {
                if index > 0 {
                    out.write_str(", ")?;
                }
                write_repr(out, &key, depth + 1)?;
                out.write_str(": ")?;
                write_repr(out, &item, depth + 1)?;
            }
            out.write_char('}')
        }
        ValueKind::String => write_quoted(out, value.as_str().unwrap_or_default()),
        ValueKind::Undefined => out.write_str("Undefined"),
        _ => write!(out, "{value:?}"),
    }
}

/// `repr()` of a text.
fn write_quoted(out: &mut dyn Write, text: &str) -> fmt::Result {
    let quote = if text.contains('\'') && !text.contains('"') {
        '"'
    } else {
        '\''
    };
    out.write_char(quote)?;
    for char in text.chars() {
        match char {
            '\n' => out.write_str("\\n")?,
            '\r' => out.write_str("\\r")?,
            '\t' => out.write_str("\\t")?,
            '\\' => out.write_str("\\\\")?,
            _ if char == quote => write!(out, "\\{char}")?,
            _ if is_printable(char) => out.write_char(char)?,
            _ => write_escape(out, char)?,
        }
    }
    out.write_char(quote)
}

/// `str.isprintable` of one character. Characters that Unicode has not assigned are an exception: a
/// table of those would have to follow Python's Unicode version.
pub(super) fn is_printable(char: char) -> bool {
    !(char.is_control()
        || (char.is_whitespace() && char != ' ')
        || matches!(char,
            '\u{ad}' | '\u{600}'..='\u{605}' | '\u{61c}' | '\u{6dd}' | '\u{70f}' | '\u{180e}'
            | '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2060}'..='\u{206f}'
            | '\u{e000}'..='\u{f8ff}' | '\u{feff}' | '\u{fff9}'..='\u{fffb}'
            | '\u{fffe}' | '\u{ffff}' | '\u{e0000}'..='\u{e007f}' | '\u{f0000}'..))
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

fn push_json_fragment(out: &mut String, text: &str, escapes: Escapes) {
    let mut copied = 0;
    for (index, char) in text.char_indices() {
        let short = match char {
            '"' => "\\\"",
            '\\' => "\\\\",
            '\n' => "\\n",
            '\r' => "\\r",
            '\t' => "\\t",
            '\u{8}' => "\\b",
            '\u{c}' => "\\f",
            '<' | '>' | '&' | '\'' if escapes.html => "",
            '\0'..='\u{1f}' => "",
            '\u{7f}'.. if escapes.ascii => "",
            _ => continue,
        };
        out.push_str(&text[copied..index]);
        copied = index + char.len_utf8();
        if short.is_empty() {
            let mut units = [0; 2];
            for unit in char.encode_utf16(&mut units) {
                // writing to a `String` cannot fail
                let _ = write!(out, "\\u{unit:04x}");
            }
        } else {
            out.push_str(short);
        }
    }
    out.push_str(&text[copied..]);
}

/// A serde_json formatter whose output is that of Python's `json.dump(value, indent=2)`.
pub struct PythonJson<'a> {
    pretty: serde_json::ser::PrettyFormatter<'a>,
    buffer: String,
}

impl Default for PythonJson<'_> {
    /// Two spaces of indent, ASCII only.
    fn default() -> Self {
        Self {
            pretty: serde_json::ser::PrettyFormatter::new(),
            buffer: String::new(),
        }
    }
}

macro_rules! delegate {
    ($($name:ident($($arg:ident: $type:ty),*);)*) => {
        $(fn $name<W: ?Sized + io::Write>(&mut self, writer: &mut W $(, $arg: $type)*) -> io::Result<()> {
            self.pretty.$name(writer $(, $arg)*)
        })*
    };
}

impl serde_json::ser::Formatter for PythonJson<'_> {
    delegate! {
        begin_array();
        end_array();
        begin_array_value(first: bool);
        end_array_value();
        begin_object();
        end_object();
        begin_object_key(first: bool);
        begin_object_value();
        end_object_value();
    }

    fn write_f64<W: ?Sized + io::Write>(&mut self, writer: &mut W, value: f64) -> io::Result<()> {
        writer.write_all(float_repr(value).as_bytes())
    }

    fn write_string_fragment<W: ?Sized + io::Write>(
        &mut self,
        writer: &mut W,
        fragment: &str,
    ) -> io::Result<()> {
        // serde_json passes parts without characters that JSON must escape; nearly all of them are
        // ASCII
        if fragment.bytes().all(|byte| byte < 0x7f) {
            return writer.write_all(fragment.as_bytes());
        }
        self.buffer.clear();
        let escapes = Escapes {
            ascii: true,
            html: false,
        };
        push_json_fragment(&mut self.buffer, fragment, escapes);
        writer.write_all(self.buffer.as_bytes())
    }
}

/// The characters for which `str.isspace` is true.
pub(super) fn is_space(char: char) -> bool {
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

//! What Python prints: `str()` and `repr()` of values.

use std::fmt::{self, Write};

use minijinja::Value;
use minijinja::value::{DynObject, ValueKind};
use mswea_python::float_repr;

/// Values nested more deeply are not printed, because the printers recurse.
const MAX_DEPTH: usize = 200;

/// `str()` of a template value.
pub(crate) fn write_str(out: &mut dyn Write, value: &Value) -> fmt::Result {
    match value.as_str() {
        Some(text) => out.write_str(text),
        None if value.is_undefined() => Ok(()),
        None => write_repr(out, value, 0),
    }
}

/// [`write_str`] into a new string.
pub(crate) fn to_str(value: &Value) -> String {
    let mut out = String::new();
    // writing to a `String` cannot fail
    let _ = write_str(&mut out, value);
    out
}

/// `repr()` into a new string.
pub(crate) fn repr(value: &Value) -> String {
    let mut out = String::new();
    // writing to a `String` cannot fail
    let _ = write_repr(&mut out, value, 0);
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
    match value.kind() {
        ValueKind::Number if !value.is_integer() => match f64::try_from(value.clone()) {
            Ok(number) => out.write_str(&float_repr(number)),
            Err(_) => write!(out, "{value}"),
        },
        ValueKind::Seq => {
            let tuple = value.is_tuple();
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
pub(crate) fn is_printable(char: char) -> bool {
    !(char.is_control()
        || (char.is_whitespace() && char != ' ')
        || matches!(char,
            '\u{ad}' | '\u{600}'..='\u{605}' | '\u{61c}' | '\u{6dd}' | '\u{70f}' | '\u{180e}'
            | '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2060}'..='\u{206f}'
            | '\u{e000}'..='\u{f8ff}' | '\u{feff}' | '\u{fff9}'..='\u{fffb}'
            | '\u{fffe}' | '\u{ffff}' | '\u{e0000}'..='\u{e007f}' | '\u{f0000}'..))
}

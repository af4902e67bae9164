//! The `tojson` filter, exact to the byte: `json.dumps(value, sort_keys=True)` and then the escapes
//! that Jinja2 adds for HTML.
//!
//! Observation templates pass command output through it, so its text is what the model reads.
//! minijinja's own filter keeps UTF-8 and the order of insertion.

use minijinja::value::{DynObject, Kwargs, ValueKind};
use minijinja::{Error, ErrorKind, Value};

use mswea_python::{Escapes, float_repr, push_json_str};

/// Values nested more deeply are refused, because the writer recurses.
const MAX_DEPTH: usize = 200;

/// Wider indents are refused: they multiply with depth and length.
const MAX_INDENT: usize = 64;

/// `value|tojson(indent=none, ensure_ascii=true)`. The second argument is an extension: UTF-8 costs
/// fewer tokens than escapes in text that is not English.
pub(crate) fn tojson(value: &Value, indent: Option<Value>, kwargs: Kwargs) -> Result<Value, Error> {
    let indent = match indent {
        Some(indent) => Some(indent),
        None => kwargs.get("indent")?,
    };
    let ascii = kwargs.get::<Option<bool>>("ensure_ascii")?.unwrap_or(true);
    kwargs.assert_all_used()?;
    let mut writer = Writer {
        out: String::new(),
        indent: indent.as_ref().map(indent_text).transpose()?.flatten(),
        escapes: Escapes { ascii, html: true },
    };
    writer.value(value, 0)?;
    Ok(Value::from_safe_string(writer.out))
}

fn indent_text(indent: &Value) -> Result<Option<String>, Error> {
    if indent.is_none() || indent.is_undefined() {
        return Ok(None);
    }
    if let Some(text) = indent.as_str() {
        return if text.len() <= MAX_INDENT {
            Ok(Some(text.to_owned()))
        } else {
            Err(invalid("`indent` of `tojson` is too wide"))
        };
    }
    // as in Python, a boolean counts as an integer and a negative width as none
    let width = match bool::try_from(indent.clone()) {
        Ok(flag) => i64::from(flag),
        Err(_) => i64::try_from(indent.clone())
            .map_err(|_| invalid("`indent` of `tojson` must be a number or a text"))?,
    };
    match usize::try_from(width.max(0)) {
        Ok(width) if width <= MAX_INDENT => Ok(Some(" ".repeat(width))),
        _ => Err(invalid("`indent` of `tojson` is too wide")),
    }
}

fn invalid(message: &'static str) -> Error {
    Error::new(ErrorKind::InvalidOperation, message)
}

struct Writer {
    out: String,
    indent: Option<String>,
    escapes: Escapes,
}

impl Writer {
    fn value(&mut self, value: &Value, depth: usize) -> Result<(), Error> {
        if depth > MAX_DEPTH {
            return Err(invalid("value is nested too deeply for `tojson`"));
        }
        match value.kind() {
            ValueKind::None => self.out.push_str("null"),
            ValueKind::Bool => self
                .out
                .push_str(if value.is_true() { "true" } else { "false" }),
            ValueKind::Number => self.out.push_str(&number(value)),
            ValueKind::String => self.text(value.as_str().unwrap_or_default()),
            ValueKind::Seq => self.list(value, depth)?,
            ValueKind::Map => self.map(value, depth)?,
            kind => {
                return Err(Error::new(
                    ErrorKind::InvalidOperation,
                    format!("{} value cannot be written as JSON", article(kind)),
                ));
            }
        }
        Ok(())
    }

    fn text(&mut self, text: &str) {
        push_json_str(&mut self.out, text, self.escapes);
    }

    fn list(&mut self, value: &Value, depth: usize) -> Result<(), Error> {
        self.out.push('[');
        let mut empty = true;
        for item in value.try_iter()? {
            self.separate(empty, depth + 1);
            empty = false;
            self.value(&item, depth + 1)?;
        }
        self.close(']', empty, depth);
        Ok(())
    }

    fn map(&mut self, value: &Value, depth: usize) -> Result<(), Error> {
        let mut pairs: Vec<(Value, Value)> = value
            .as_object()
            .and_then(DynObject::try_iter_pairs)
            .into_iter()
            .flatten()
            .collect();
        // texts by code point, which is the order of their UTF-8 bytes; other keys by minijinja's
        // order
        pairs.sort_by(
            |(left, _), (right, _)| match (left.as_str(), right.as_str()) {
                (Some(left), Some(right)) => left.cmp(right),
                _ => left.cmp(right),
            },
        );
        self.out.push('{');
        for (index, (key, item)) in pairs.iter().enumerate() {
            self.separate(index == 0, depth + 1);
            match key.kind() {
                ValueKind::String => self.text(key.as_str().unwrap_or_default()),
                ValueKind::None => self.out.push_str("\"null\""),
                ValueKind::Bool => {
                    self.out.push_str(if key.is_true() {
                        "\"true\""
                    } else {
                        "\"false\""
                    });
                }
                ValueKind::Number => {
                    let text = number(key);
                    self.text(&text);
                }
                _ => return Err(invalid("keys for `tojson` must be texts or numbers")),
            }
            self.out.push_str(": ");
            self.value(item, depth + 1)?;
        }
        self.close('}', pairs.is_empty(), depth);
        Ok(())
    }

    fn separate(&mut self, first: bool, depth: usize) {
        match self.indent {
            None if first => {}
            None => self.out.push_str(", "),
            Some(_) => {
                if !first {
                    self.out.push(',');
                }
                self.line(depth);
            }
        }
    }

    fn close(&mut self, bracket: char, empty: bool, depth: usize) {
        if !empty && self.indent.is_some() {
            self.line(depth);
        }
        self.out.push(bracket);
    }

    fn line(&mut self, depth: usize) {
        self.out.push('\n');
        for _ in 0..depth {
            self.out
                .push_str(self.indent.as_deref().unwrap_or_default());
        }
    }
}

fn number(value: &Value) -> String {
    match f64::try_from(value.clone()) {
        Ok(float) if !value.is_integer() => match float {
            // JavaScript's names, as `json.dumps` writes them
            float if float.is_nan() => "NaN".to_owned(),
            float if float.is_infinite() => {
                if float > 0.0 { "Infinity" } else { "-Infinity" }.to_owned()
            }
            float => float_repr(float),
        },
        _ => value.to_string(),
    }
}

fn article(kind: ValueKind) -> &'static str {
    match kind {
        ValueKind::Undefined => "an undefined",
        ValueKind::Bytes => "a bytes",
        ValueKind::Iterable => "an iterator",
        _ => "this",
    }
}

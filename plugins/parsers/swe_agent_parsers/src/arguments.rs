//! How the value of an argument becomes words of a command line.

use mswea_sdk::host;
use serde_json::{Value, json};

use crate::commands::{Argument, Known};
use crate::problem::{Code, Fault};
use crate::python::quote;

/// An `argument_format`. Two forms are nearly all there is, and need no engine.
#[derive(Debug, PartialEq)]
pub struct Format {
    template: String,
    shape: Shape,
}

#[derive(Debug, PartialEq)]
enum Shape {
    /// `{{value}}` between two texts.
    Plain { before: String, after: String },
    /// `{{value|join(' ')}}` between two texts.
    Join {
        before: String,
        separator: String,
        after: String,
    },
    /// Anything else: the host renders it.
    Template,
}

impl Format {
    /// Reads a template. With `strip_quotes`, those right around the value go: the value
    /// brings its own.
    pub fn new(template: &str, strip_quotes: bool) -> Self {
        Self {
            template: template.to_owned(),
            shape: shape(template, strip_quotes).unwrap_or(Shape::Template),
        }
    }
}

fn shape(template: &str, strip_quotes: bool) -> Option<Shape> {
    let (mut before, rest) = template.split_once("{{")?;
    let (expression, mut after) = rest.split_once("}}")?;
    let is_text = |text: &str| !text.contains(['{', '}', '\n']);
    if !is_text(before) || !is_text(after) {
        return None;
    }
    if strip_quotes {
        for mark in ['"', '\''] {
            if let (Some(first), Some(second)) =
                (before.strip_suffix(mark), after.strip_prefix(mark))
            {
                (before, after) = (first, second);
                break;
            }
        }
    }
    let (before, after) = (before.to_owned(), after.to_owned());
    let (name, filter) = match expression.split_once('|') {
        Some((name, filter)) => (name, Some(filter.trim())),
        None => (expression, None),
    };
    if name.trim() != "value" {
        return None;
    }
    let Some(filter) = filter else {
        return Some(Shape::Plain { before, after });
    };
    let inner = filter.strip_prefix("join(")?.strip_suffix(')')?.trim();
    let mark = inner.chars().next().filter(|mark| "'\"".contains(*mark))?;
    let separator = inner.strip_prefix(mark)?.strip_suffix(mark)?;
    let is_plain = !separator.contains(['\\', '\'', '"', '|']);
    is_plain.then(|| Shape::Join {
        before,
        separator: separator.to_owned(),
        after,
    })
}

/// The words for one argument of a call.
///
/// # Errors
///
/// `invalid_arg`, if the value does not fit.
pub fn words(known: &Known, number: usize, value: &Value, compat: bool) -> Result<String, Fault> {
    let (argument, format) = (&known.command.arguments[number], &known.formats[number]);
    let quotes = known.command.quotes();
    if compat {
        if let (Shape::Join { .. }, Value::Null | Value::Bool(_) | Value::Number(_)) =
            (&format.shape, value)
        {
            return Err(unfit(argument, "has to be a JSON array"));
        }
        return as_theirs(format, value, quotes);
    }
    let word = |text: &str| match quotes {
        true => quote(text),
        false => text.to_owned(),
    };
    match argument.kind.as_str() {
        "array" => {
            let items = list(argument, value)?;
            let words: Vec<_> = items.iter().map(|item| word(&plain(item))).collect();
            match &format.shape {
                Shape::Plain { before, after } => Ok(format!("{before}{}{after}", words.join(" "))),
                Shape::Join {
                    before,
                    separator,
                    after,
                } => Ok(format!("{before}{}{after}", words.join(separator))),
                Shape::Template => render(format, &json!(words)),
            }
        }
        kind => {
            let text = match (kind, value) {
                ("object", Value::Object(_)) => value.to_string(),
                ("object", Value::String(text)) if is_object(text) => text.clone(),
                (kind, Value::Array(_) | Value::Object(_)) => {
                    return Err(unfit(argument, &format!("has to be of type {kind}")));
                }
                ("object", _) => return Err(unfit(argument, "has to be a JSON object")),
                (_, scalar) => plain(scalar),
            };
            if let Some(choices) = argument.choices.as_ref().filter(|list| !list.is_empty())
                && !choices.contains(&text)
            {
                let choices: Vec<_> = choices.iter().map(|name| format!("`{name}`")).collect();
                let what = format!("has to be one of {}", choices.join(", "));
                return Err(unfit(argument, &what));
            }
            match &format.shape {
                Shape::Plain { before, after } | Shape::Join { before, after, .. } => {
                    Ok(format!("{before}{}{after}", word(&text)))
                }
                Shape::Template => render(format, &json!(word(&text))),
            }
        }
    }
}

/// The words for an argument that is given and empty, in SWE-agent's way: no quotes.
///
/// # Errors
///
/// The plugin's own.
pub fn nothing(known: &Known, number: usize) -> Result<String, Fault> {
    as_theirs(&known.formats[number], &json!(""), false)
}

/// A JSON value as a text: a string without its quotes.
pub fn plain(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}

fn unfit(argument: &Argument, what: &str) -> Fault {
    Fault::new(
        Code::InvalidArg,
        format!("The argument `{}` {what}.", argument.name),
    )
}

/// A list, also one that the model wrote as a text.
fn list(argument: &Argument, value: &Value) -> Result<Vec<Value>, Fault> {
    let items = match value {
        Value::Array(items) => Some(items.clone()),
        Value::String(text) => serde_json::from_str(text).ok(),
        _ => None,
    };
    items.ok_or_else(|| unfit(argument, "has to be a JSON array"))
}

fn is_object(text: &str) -> bool {
    serde_json::from_str(text).is_ok_and(|value: Value| value.is_object())
}

/// A value as SWE-agent writes it: strings are quoted, and all else is left to the template,
/// for which a text is a list of characters.
fn as_theirs(format: &Format, value: &Value, quotes: bool) -> Result<String, Fault> {
    let Value::String(text) = value else {
        return render(format, value);
    };
    let word = match quotes {
        true => quote(text),
        false => text.clone(),
    };
    match &format.shape {
        Shape::Plain { before, after } => Ok(format!("{before}{word}{after}")),
        Shape::Join {
            before,
            separator,
            after,
        } => {
            let mut line = before.clone();
            for (number, c) in word.chars().enumerate() {
                if number > 0 {
                    line.push_str(separator);
                }
                line.push(c);
            }
            Ok(line + after)
        }
        Shape::Template => render(format, &json!(word)),
    }
}

fn render(format: &Format, value: &Value) -> Result<String, Fault> {
    host::render(&format.template, &json!({ "value": value })).map_err(Fault::Plugin)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn forms_of_formats() {
        let plain = |before: &str, after: &str| Shape::Plain {
            before: before.to_owned(),
            after: after.to_owned(),
        };
        let join = |before: &str, separator: &str, after: &str| Shape::Join {
            before: before.to_owned(),
            separator: separator.to_owned(),
            after: after.to_owned(),
        };
        for (template, expected) in [
            ("{{value}}", plain("", "")),
            ("--x {{ value }} y", plain("--x ", " y")),
            ("--x \"{{value}}\"", plain("--x ", "")),
            ("'{{value}}'", plain("", "")),
            ("'{{value}}\"", plain("'", "\"")),
            ("--r {{value|join(' ')}}", join("--r ", " ", "")),
            ("{{ value | join(\",\") }}", join("", ",", "")),
            ("{{value|join}}", Shape::Template),
            ("{{value|join('\\n')}}", Shape::Template),
            ("{{value|join('a')|upper}}", Shape::Template),
            ("{{value|upper}}", Shape::Template),
            ("{{-value}}", Shape::Template),
            ("{% if value %}{{value}}{% endif %}", Shape::Template),
            ("{{value}}{{value}}", Shape::Template),
            ("{{value}}\n", Shape::Template),
            ("{value}", Shape::Template),
            ("x", Shape::Template),
            ("{{", Shape::Template),
            ("", Shape::Template),
        ] {
            assert_eq!(Format::new(template, true).shape, expected, "{template}");
        }
        assert_eq!(Format::new("\"{{value}}\"", false).shape, plain("\"", "\""));
    }
}

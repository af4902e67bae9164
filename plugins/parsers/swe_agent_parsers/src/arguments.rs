//! Makes the words of a command line from the value of an argument.

use mswea_sdk::host;
use serde_json::{Value, json};

use crate::commands::Known;
use crate::format::{Format, Shape};
use crate::manifest::Argument;
use crate::problem::{Code, Fault};
use crate::python::quote;

/// The words for one argument of a call.
///
/// # Errors
///
/// `invalid_arg` if the value does not fit.
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
            let words = items.iter().map(|item| Ok(word(&python(item)?)));
            let words = words.collect::<Result<Vec<_>, Fault>>()?;
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

/// The words for an argument with an empty value, as SWE-agent writes it: without quotes.
///
/// # Errors
///
/// The plugin's own error if the template does not render.
pub fn nothing(known: &Known, number: usize) -> Result<String, Fault> {
    as_theirs(&known.formats[number], &json!(""), false)
}

/// A JSON value as a text: a string without its quotes, a truth value as Python writes it.
pub fn plain(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Bool(true) => "True".to_owned(),
        Value::Bool(false) => "False".to_owned(),
        other => other.to_string(),
    }
}

/// An item of a list as a text: lists and maps in it as Python writes them.
fn python(item: &Value) -> Result<String, Fault> {
    match item {
        Value::Array(_) | Value::Object(_) => {
            host::render("{{ value }}", &json!({ "value": item })).map_err(Fault::Plugin)
        }
        scalar => Ok(plain(scalar)),
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

/// A value as SWE-agent writes it: strings are quoted, and other values are passed to the template,
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

//! The documentation of commands for prompts, `command_docs`, in SWE-agent's form.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

/// The error if a docstring names a variable without a value.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the docstring names the variable `{{{0}}}`, which has no value")]
pub struct DocsError(pub String);

/// A docstring with the values of its variables: `{WINDOW}` is replaced by the value of `WINDOW` in
/// `variables`. Braces around anything else than a name in capitals are text.
///
/// # Errors
/// [`DocsError`] if the docstring names a variable that `variables` lacks.
pub fn filled(text: &str, variables: &BTreeMap<String, String>) -> Result<String, DocsError> {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(start) = rest.find('{') {
        let (before, from) = rest.split_at(start);
        out.push_str(before);
        let name = from[1..].split_once('}').map(|(name, _)| name);
        match name.filter(|name| is_variable(name)) {
            Some(name) => {
                let value = variables.get(name);
                out.push_str(value.ok_or_else(|| DocsError(name.to_owned()))?);
                rest = &from[name.len() + 2..];
            }
            None => {
                out.push('{');
                rest = &from[1..];
            }
        }
    }
    out.push_str(rest);
    Ok(out)
}

fn is_variable(name: &str) -> bool {
    name.starts_with(|c: char| c.is_ascii_uppercase() || c == '_')
        && name
            .chars()
            .all(|c| c.is_ascii_uppercase() || c.is_ascii_digit() || c == '_')
}

/// The entry of one command.
pub fn entry(command: &Map<String, Value>) -> String {
    let text = |key: &str| command.get(key).and_then(Value::as_str);
    let name = text("name").unwrap_or_default();
    let mut out = format!("{name}:\n");
    if let Some(docstring) = text("docstring") {
        out.push_str(&format!("  docstring: {docstring}\n"));
    }
    let arguments = command.get("arguments").and_then(Value::as_array);
    let arguments = arguments.map_or(&[][..], Vec::as_slice);
    let signature = match text("signature") {
        Some(signature) => signature.to_owned(),
        None => plain_signature(name, arguments, text("end_name")),
    };
    out.push_str(&format!("  signature: {signature}\n"));
    if !arguments.is_empty() {
        out.push_str("  arguments:\n");
    }
    for argument in arguments {
        let text = |key: &str| {
            argument
                .get(key)
                .and_then(Value::as_str)
                .unwrap_or_default()
        };
        let required = match is_required(argument) {
            true => "required",
            false => "optional",
        };
        out.push_str(&format!(
            "    - {} ({}) [{required}]: {}\n",
            text("name"),
            text("type"),
            text("description")
        ));
    }
    out.push('\n');
    out
}

fn is_required(argument: &Value) -> bool {
    argument.get("required") == Some(&Value::Bool(true))
}

/// The generated signature of a command whose manifest has none.
fn plain_signature(name: &str, arguments: &[Value], end: Option<&str>) -> String {
    let mut text = name.to_owned();
    for argument in arguments {
        let name = argument
            .get("name")
            .and_then(Value::as_str)
            .unwrap_or_default();
        text.push_str(&match is_required(argument) {
            true => format!(" <{name}>"),
            false => format!(" [<{name}>]"),
        });
    }
    if let Some(end) = end {
        text.push_str(&format!("\n{end}"));
    }
    text
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn entries_have_swe_agents_form() {
        for (command, expected) in [
            (
                json!({"name": "submit", "signature": "submit", "docstring": "ends", "arguments": []}),
                "submit:\n  docstring: ends\n  signature: submit\n\n",
            ),
            (
                json!({"name": "open", "signature": "open \"<path>\" [<line>]", "arguments": [
                    {"name": "path", "type": "string", "required": true, "description": "which"},
                    {"name": "line", "type": "integer", "required": false},
                ]}),
                "open:\n  signature: open \"<path>\" [<line>]\n  arguments:\n    - path (string) \
                 [required]: which\n    - line (integer) [optional]: \n\n",
            ),
            (
                json!({"name": "edit", "end_name": "end_of_edit", "arguments": [
                    {"name": "text", "type": "string", "required": true, "description": "t"},
                    {"name": "at", "type": "string", "required": false, "description": "a"},
                ]}),
                "edit:\n  signature: edit <text> [<at>]\nend_of_edit\n  arguments:\n    - text \
                 (string) [required]: t\n    - at (string) [optional]: a\n\n",
            ),
        ] {
            let Value::Object(command) = command else {
                panic!()
            };
            assert_eq!(entry(&command), expected);
        }
    }

    #[test]
    fn variables_are_filled_in() {
        let variables = BTreeMap::from([("WINDOW".to_owned(), "100".to_owned())]);
        for (text, expected) in [
            ("up {WINDOW} lines", Ok("up 100 lines")),
            ("{WINDOW}{WINDOW}", Ok("100100")),
            ("a {x} {} { {WINDOW", Ok("a {x} {} { {WINDOW")),
            ("{{WINDOW}}", Ok("{100}")),
            ("{OVERLAP}", Err("OVERLAP")),
        ] {
            let expected = expected
                .map(str::to_owned)
                .map_err(|name| DocsError(name.to_owned()));
            assert_eq!(filled(text, &variables), expected, "{text}");
        }
    }
}

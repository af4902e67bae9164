//! SWE-agent's test vectors, one table for each parser, with the differences if `compat` is set.

mod calls;
mod config;
mod guard;
mod hostile;
mod text;
mod written;

use super::*;
use mswea_sdk::testing::{configure, parse, reply_text, set_render};
use problem::Code;

/// The result of parsing a reply.
#[derive(Clone, Debug, PartialEq)]
enum Found {
    /// Thought and command.
    Both(String, String),
    /// The code of the error.
    Wrong(String),
}

fn both(thought: &str, command: &str) -> Found {
    Found::Both(thought.to_owned(), command.to_owned())
}

fn wrong(code: &str) -> Found {
    Found::Wrong(code.to_owned())
}

fn parser(config: &Value) -> SweAgentParser {
    set_render(render);
    configure(config.clone()).expect("the config is good")
}

/// The host's environment, as far as formats of arguments need it.
fn render(template: &str, vars: &Value) -> Result<String, PluginError> {
    minijinja::Environment::new()
        .render_str(template, jinja(vars))
        .map_err(|error| PluginError::new("template", error.to_string()))
}

fn jinja(json: &Value) -> minijinja::Value {
    match json {
        Value::Null => ().into(),
        Value::Bool(value) => (*value).into(),
        Value::Number(number) => number.as_i64().into(),
        Value::String(text) => text.as_str().into(),
        Value::Array(items) => items.iter().map(jinja).collect(),
        Value::Object(map) => {
            minijinja::Value::from_pairs(map.iter().map(|(key, item)| (key.as_str(), jinja(item))))
        }
    }
}

fn found(parser: &mut SweAgentParser, reply: Reply) -> Found {
    match parse(parser, reply) {
        Err(problem) => {
            let details: Value = serde_json::from_str(&problem.details.expect("there are some"))
                .expect("they are JSON");
            assert_eq!(
                details["exception_message"],
                problem.message.trim_end_matches('.')
            );
            assert!(details["actions"].is_array());
            Found::Wrong(problem.code)
        }
        Ok(actions) => {
            let [action] = &actions[..] else {
                panic!("{} actions", actions.len());
            };
            let extra: Value = serde_json::from_str(action.extra.as_deref().expect("a thought"))
                .expect("it is JSON");
            both(extra["thought"].as_str().expect("a text"), &action.command)
        }
    }
}

/// Parses a text with or without `compat`.
fn text_in(kind: &str, compat: bool, text: &str) -> Found {
    let mut parser = parser(&json!({ "type": kind, "compat": compat }));
    found(&mut parser, reply_text(text))
}

/// Checks a table: text, expected result, expected result with `compat` if that differs.
fn check(kind: &str, rows: Vec<(&str, Found, Option<Found>)>) {
    for (text, ours, theirs) in rows {
        let text = text.replace('F', "```");
        let filled = |found: Found| match found {
            Found::Both(thought, command) => {
                Found::Both(thought.replace('F', "```"), command.replace('F', "```"))
            }
            wrong => wrong,
        };
        let (ours, theirs) = (filled(ours), theirs.map(filled));
        assert_eq!(text_in(kind, false, &text), ours, "{kind}: {text:?}");
        let theirs = theirs.unwrap_or(ours);
        assert_eq!(
            text_in(kind, true, &text),
            theirs,
            "{kind}, compat: {text:?}"
        );
    }
}

#[test]
fn words_are_stable() {
    for (code, word) in [
        (Code::Missing, "missing"),
        (Code::Multiple, "multiple"),
        (Code::InvalidCommand, "invalid_command"),
        (Code::InvalidJson, "invalid_json"),
        (Code::MissingKey, "missing_key"),
        (Code::MissingArg, "missing_arg"),
        (Code::UnexpectedArg, "unexpected_arg"),
        (Code::InvalidArg, "invalid_arg"),
    ] {
        let outcome = Fault::new(code, "x").outcome(&reply_text(""), false);
        let outcome = outcome.expect("it is the model's fault");
        assert_eq!(outcome.problem().expect("it is a problem").code, word);
    }
}

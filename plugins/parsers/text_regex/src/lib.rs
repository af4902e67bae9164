//! The parser for models that write plain text: a regular expression finds the one command.

mod fences;

use fences::Fences;
use mswea_sdk::parser::{Outcome, Problem};
use mswea_sdk::types::{Action, PluginError, Reply};
use mswea_sdk::{Descriptor, Parser, Plugin, from_config};
use regex::{Regex, RegexBuilder};
use serde::Deserialize;
use serde_json::{Value, json};

const DEFAULT_REGEX: &str = r"```mswea_bash_command\s*\n(.*?)\n```";

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Config {
    #[serde(default = "default_regex")]
    action_regex: String,
}

fn default_regex() -> String {
    DEFAULT_REGEX.to_owned()
}

/// The plugin: its compiled expression.
pub struct TextRegex {
    finder: Finder,
}

enum Finder {
    Fences(Fences),
    Regex(Regex),
}

impl Plugin for TextRegex {
    fn describe() -> Descriptor {
        Descriptor::new(
            "text_regex",
            env!("CARGO_PKG_VERSION"),
            "Takes the one command that a regular expression finds in the reply",
        )
        .config_schema(&json!({
            "type": "object",
            "properties": {
                "action_regex": {
                    "type": "string",
                    "format": "regex",
                    "minLength": 1,
                    "default": DEFAULT_REGEX,
                    "description": "Finds the command: its first group, or all of the match. \
                                    A dot matches line breaks, too.",
                },
            },
            "additionalProperties": false,
        }))
    }

    fn configure(config: Value) -> Result<Self, PluginError> {
        let config: Config = from_config(config)?;
        if let Some(fences) = Fences::recognise(&config.action_regex) {
            return Ok(Self {
                finder: Finder::Fences(fences),
            });
        }
        let regex = RegexBuilder::new(&config.action_regex)
            .dot_matches_new_line(true)
            .build()
            .map_err(|error| bad_regex(&error).at("/action_regex"))?;
        Ok(Self {
            finder: Finder::Regex(regex),
        })
    }
}

/// The message with the position of the error and the Rust form of Python's syntax.
fn bad_regex(error: &regex::Error) -> PluginError {
    let hint = match error {
        regex::Error::CompiledTooBig(_) => "make its repetitions smaller",
        _ => {
            "write it in the syntax of Rust's `regex` crate: it has no look-around and no \
             back-references, and a literal `{` is written `\\{`"
        }
    };
    // The library's message has a line `error: ...`, which would look like another error.
    let error = error.to_string().replace("\nerror: ", "\n    ");
    PluginError::invalid_config(format!("`action_regex` is not usable: {error}\n{hint}"))
}

impl TextRegex {
    /// All commands in a text, stripped.
    fn commands<'t>(&self, text: &'t str) -> Vec<&'t str> {
        let mut commands = match &self.finder {
            Finder::Fences(fences) => fences.find_all(text),
            Finder::Regex(regex) => regex
                .captures_iter(text)
                .map(|captures| {
                    // The whole match if there is no group; empty if the group took no part in the
                    // match.
                    let group = usize::from(captures.len() > 1);
                    captures.get(group).map_or("", |found| found.as_str())
                })
                .collect(),
        };
        for command in &mut commands {
            *command = strip(command);
        }
        commands
    }
}

/// Strips what Python's `str.strip` strips: Unicode's blanks and four separators.
fn strip(text: &str) -> &str {
    text.trim_matches(|c: char| c.is_whitespace() || ('\u{1c}'..='\u{1f}').contains(&c))
}

impl Parser for TextRegex {
    fn parse(&mut self, reply: Reply) -> Result<Outcome, PluginError> {
        let text = reply.message.text();
        let commands = self.commands(&text);
        if let [command] = commands[..] {
            return Ok(Outcome::Actions(vec![Action::new(command)]));
        }
        let message = format!("Expected exactly 1 action, found {}.", commands.len());
        let problem = Problem::new("wrong-count", message).details(&json!({
            "actions": commands,
            "n_actions": commands.len(),
            "finish_reason": reply.finish_reason,
        }));
        Ok(problem.into())
    }
}

mswea_sdk::export!(parser: TextRegex);

#[cfg(test)]
mod tests;

//! The parser for models that write plain text: a regular expression finds the one command.

use mswea_expression::Expression;
use mswea_sdk::parser::{Outcome, Problem};
use mswea_sdk::types::{Action, PluginError, Reply};
use mswea_sdk::{Descriptor, Parser, Plugin, from_config};
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
    expression: Expression,
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
        let refused = |why: &str| {
            PluginError::invalid_config(format!("`action_regex` is not usable: {why}"))
                .at("/action_regex")
        };
        let expression = Expression::dot_all(&config.action_regex).map_err(|mistake| {
            refused(&format!("{mistake}; it is written as for Python's `re`"))
        })?;
        match expression.groups() {
            0 | 1 => Ok(Self { expression }),
            groups => Err(refused(&format!(
                "it has {groups} groups, and which one is the command can't be known; write `(?:...)` \
                 for all but one"
            ))),
        }
    }
}

impl TextRegex {
    /// All commands in a text, stripped.
    fn commands<'t>(&self, text: &'t str) -> Result<Vec<&'t str>, PluginError> {
        let mut commands = Vec::new();
        for found in self.expression.find_all(text) {
            let found = found.map_err(|error| {
                PluginError::new("too-hard", format!("`action_regex`: {error}"))
            })?;
            // The whole match if there is no group; empty if the group took no part in the match.
            let range = found.group(self.expression.groups());
            commands.push(strip(&text[range.unwrap_or_default()]));
        }
        Ok(commands)
    }
}

/// Strips what Python's `str.strip` strips: Unicode's blanks and four separators.
fn strip(text: &str) -> &str {
    text.trim_matches(|c: char| c.is_whitespace() || ('\u{1c}'..='\u{1f}').contains(&c))
}

impl Parser for TextRegex {
    fn parse(&mut self, reply: Reply) -> Result<Outcome, PluginError> {
        let text = reply.message.text();
        let commands = self.commands(&text)?;
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

//! The policy that asks a person before some commands run, selected by regular expressions.
//!
//! It matches the text of a command, not its meaning to a shell. It is meant for mistakes; a
//! command can be written so that no expression matches.

mod defaults;

use mswea_expression::Expression;
use mswea_sdk::policy::{Objection, Verdict};
use mswea_sdk::types::{Action, PluginError};
use mswea_sdk::{Descriptor, Plugin, Policy, from_config};
use serde::Deserialize;
use serde_json::{Value, json};

#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq)]
#[serde(rename_all = "lowercase")]
enum Otherwise {
    #[default]
    Allow,
    Ask,
    Deny,
}

#[derive(Deserialize)]
#[serde(untagged)]
enum Entry {
    Bare(String),
    Full(Full),
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Full {
    pattern: String,
    #[serde(default)]
    reason: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, default)]
struct Config {
    allow: Vec<Entry>,
    deny: Vec<Entry>,
    ask: Vec<Entry>,
    default: Otherwise,
}

impl Default for Config {
    fn default() -> Self {
        let entry = |(pattern, reason): &(&str, &str)| {
            Entry::Full(Full {
                pattern: (*pattern).to_owned(),
                reason: (*reason).to_owned(),
            })
        };
        Self {
            allow: Vec::new(),
            deny: Vec::new(),
            ask: defaults::ASK.iter().map(entry).collect(),
            default: Otherwise::default(),
        }
    }
}

/// An expression and its reason.
struct Rule {
    expression: Expression,
    reason: String,
}

/// The plugin: its rules.
pub struct Confirm {
    allow: Vec<Rule>,
    deny: Vec<Rule>,
    ask: Vec<Rule>,
    default: Otherwise,
}

impl Plugin for Confirm {
    fn describe() -> Descriptor {
        Descriptor::new(
            "confirm",
            env!("CARGO_PKG_VERSION"),
            "Asks before a command runs that matches a regular expression",
        )
        .config_schema(&schema())
    }

    fn configure(config: Value) -> Result<Self, PluginError> {
        let config: Config = from_config(config)?;
        Ok(Self {
            allow: rules("allow", config.allow)?,
            deny: rules("deny", config.deny)?,
            ask: rules("ask", config.ask)?,
            default: config.default,
        })
    }
}

fn schema() -> Value {
    let mut schema: Value = serde_json::from_str(include_str!("../schema.json"))
        .expect("invariant: the file is JSON, which a test checks");
    let ask = defaults::ASK
        .iter()
        .map(|(pattern, reason)| json!({ "pattern": pattern, "reason": reason }));
    schema["properties"]["ask"]["default"] = ask.collect();
    schema
}

fn rules(list: &str, entries: Vec<Entry>) -> Result<Vec<Rule>, PluginError> {
    let mut rules = Vec::with_capacity(entries.len());
    for (number, entry) in entries.into_iter().enumerate() {
        let (pattern, reason, below) = match entry {
            Entry::Bare(pattern) => (pattern, String::new(), ""),
            Entry::Full(Full { pattern, reason }) => (pattern, reason, "/pattern"),
        };
        let expression = Expression::new(&pattern).map_err(|error| {
            PluginError::invalid_config(format!(
                "`{list}[{number}]` is not usable: {error}; it is written as for Python's `re`"
            ))
            .at(&format!("/{list}/{number}{below}"))
        })?;
        rules.push(Rule { expression, reason });
    }
    Ok(rules)
}

impl Rule {
    /// The reason in the config, or the expression itself.
    fn objection(&self, code: &str, list: &str) -> Objection {
        let pattern = self.expression.as_str();
        let reason = match self.reason.as_str() {
            "" => format!("it matches `{pattern}`"),
            reason => reason.to_owned(),
        };
        Objection {
            extra: Some(json!({ "list": list, "pattern": pattern }).to_string()),
            ..Objection::new(code, reason)
        }
    }
}

impl Policy for Confirm {
    fn judge(&mut self, action: Action) -> Result<Verdict, PluginError> {
        let command = &action.command;
        // A search that takes too long counts against the command.
        let first = |rules: &[Rule]| {
            let found = |rule: &Rule| rule.expression.is_in(command) != Ok(false);
            rules.iter().position(found)
        };
        let allows = |rule: &Rule| rule.expression.is_in(command) == Ok(true);
        if self.allow.iter().any(allows) {
            return Ok(Verdict::Allow);
        }
        if let Some(number) = first(&self.deny) {
            return Ok(Verdict::Deny(self.deny[number].objection("denied", "deny")));
        }
        if let Some(number) = first(&self.ask) {
            return Ok(Verdict::Ask(self.ask[number].objection("confirm", "ask")));
        }
        Ok(match self.default {
            Otherwise::Allow => Verdict::Allow,
            Otherwise::Ask => Verdict::ask("confirm", "no expression of `allow` matches it"),
            Otherwise::Deny => Verdict::deny("denied", "no expression of `allow` matches it"),
        })
    }
}

mswea_sdk::export!(policy: Confirm);

#[cfg(test)]
mod tests;

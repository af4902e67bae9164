//! The policy that asks a person before some commands run, selected by regular expressions.
//!
//! It matches the text of a command, not its meaning to a shell. It is meant for mistakes; a
//! command can be written so that no expression matches.

mod defaults;
mod literal;

use std::cell::OnceCell;

use mswea_sdk::policy::{Objection, Verdict};
use mswea_sdk::types::{Action, PluginError};
use mswea_sdk::{Descriptor, Plugin, Policy, from_config};
use regex_lite::{Regex, RegexBuilder};
use serde::Deserialize;
use serde_json::{Value, json};

/// Bytes that one compiled expression may take.
const MAX_SIZE: usize = 4 << 20;

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
    pattern: String,
    /// Compiled when it is first needed, or at once to check it.
    regex: OnceCell<Regex>,
    /// A text that a command must contain for the expression to match.
    literal: Option<String>,
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
        let regex = OnceCell::new();
        // The built-in expressions are correct, as tests compile them; most are never needed.
        if !defaults::ASK.iter().any(|(own, _)| *own == pattern) {
            let compiled = compile(&pattern).map_err(|error| {
                PluginError::invalid_config(format!(
                    "`{list}[{number}]` is not usable: {error}; write it in the syntax of Rust's \
                     `regex-lite` crate: no look-around, no back-references"
                ))
                .at(&format!("/{list}/{number}{below}"))
            })?;
            regex.get_or_init(|| compiled);
        }
        rules.push(Rule {
            literal: literal::required(&pattern),
            pattern,
            regex,
            reason,
        });
    }
    Ok(rules)
}

fn compile(pattern: &str) -> Result<Regex, regex_lite::Error> {
    RegexBuilder::new(pattern).size_limit(MAX_SIZE).build()
}

impl Rule {
    fn regex(&self) -> &Regex {
        self.regex
            .get_or_init(|| compile(&self.pattern).expect("invariant: a default is a good regex"))
    }

    fn matches(&self, command: &str) -> bool {
        let may = self
            .literal
            .as_ref()
            .is_none_or(|literal| command.contains(literal));
        may && self.regex().is_match(command)
    }

    /// The reason in the config, or the expression itself.
    fn objection(&self, code: &str, list: &str) -> Objection {
        let pattern = &self.pattern;
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
        let first = |rules: &[Rule]| rules.iter().position(|rule| rule.matches(command));
        if first(&self.allow).is_some() {
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

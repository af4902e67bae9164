//! The processor that marks the end of the conversation for the provider's prompt cache.
//!
//! It implements the protocol of changes itself: a step returns the messages that lost or got a
//! mark, and the new ones, however long the history is.

mod mark;

use mswea_sdk::processor::{Next, check_start};
use mswea_sdk::types::{Change, Message, PluginError};
use mswea_sdk::{Descriptor, Plugin, Processor, from_config};
use serde::Deserialize;
use serde_json::{Value, json};

/// The most marks that a request may have.
const MAX_MARKS: usize = 4;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Config {
    #[serde(default)]
    mode: Mode,
    #[serde(default)]
    ttl: Ttl,
    #[serde(default = "two")]
    last_n_messages: usize,
    #[serde(default)]
    last_n_messages_offset: usize,
    #[serde(default = "answered_roles")]
    tagged_roles: Vec<String>,
}

/// The rule in the config's words.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Mode {
    /// The last message, of any role: mini-swe-agent's rule.
    #[default]
    DefaultEnd,
    /// The last few messages of some roles: SWE-agent's rule.
    LastN,
}

/// How long the provider keeps the marked beginning.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
enum Ttl {
    #[default]
    #[serde(rename = "5m")]
    Minutes,
    #[serde(rename = "1h")]
    Hour,
}

fn two() -> usize {
    2
}

fn answered_roles() -> Vec<String> {
    vec!["user".to_owned(), "tool".to_owned()]
}

/// The plugin: its config, and the history as the host sent it.
pub struct CacheControl {
    rule: Rule,
    /// The mark, as JSON.
    mark: String,
    // The whole history, without marks: when its end is removed, the marks move back.
    history: Vec<Message>,
    /// Indexes of the marked messages, in order.
    marked: Vec<usize>,
}

/// The rule that selects the messages to mark.
enum Rule {
    Last,
    LastOf {
        count: usize,
        offset: usize,
        roles: Vec<String>,
    },
}

impl Rule {
    /// The indexes of the messages to mark, in order.
    fn choose(&self, history: &[Message]) -> Vec<usize> {
        match self {
            Self::Last => history.len().checked_sub(1).into_iter().collect(),
            Self::LastOf {
                count,
                offset,
                roles,
            } => {
                let candidates = history.len().saturating_sub(*offset);
                let mut chosen: Vec<usize> = (0..candidates)
                    .rev()
                    .filter(|index| roles.contains(&history[*index].role))
                    .take(*count)
                    .collect();
                chosen.reverse();
                chosen
            }
        }
    }
}

impl Plugin for CacheControl {
    fn describe() -> Descriptor {
        Descriptor::new(
            "cache_control",
            env!("CARGO_PKG_VERSION"),
            "Marks the end of the conversation for the provider's prompt cache",
        )
        .config_schema(&json!({
            "type": "object",
            "properties": {
                "mode": {
                    "type": "string",
                    "enum": ["default_end", "last_n"],
                    "default": "default_end",
                    "description": "`default_end` marks the last message, `last_n` the last few \
                                    of some roles.",
                },
                "ttl": {
                    "type": "string",
                    "enum": ["5m", "1h"],
                    "default": "5m",
                    "description": "How long the provider keeps what is marked; an hour costs \
                                    more to write.",
                },
                "last_n_messages": {
                    "type": "integer",
                    "minimum": 0,
                    "maximum": MAX_MARKS,
                    "default": two(),
                    "description": "With `last_n`: how many messages are marked; 0 removes all \
                                    marks.",
                },
                "last_n_messages_offset": {
                    "type": "integer",
                    "minimum": 0,
                    "default": 0,
                    "description": "With `last_n`: how many messages at the end, of whatever \
                                    role, are never marked.",
                },
                "tagged_roles": {
                    "type": "array",
                    "items": { "type": "string" },
                    "default": answered_roles(),
                    "description": "With `last_n`: the roles whose messages count.",
                },
            },
            "additionalProperties": false,
            "examples": [
                {},
                { "mode": "last_n", "last_n_messages": 3, "tagged_roles": ["user"] },
            ],
        }))
    }

    fn configure(config: Value) -> Result<Self, PluginError> {
        let config: Config = from_config(config)?;
        if config.last_n_messages > MAX_MARKS {
            let message = format!(
                "`last_n_messages` is {}, but a request may have {MAX_MARKS} marks at most; write \
                 a number up to that",
                config.last_n_messages
            );
            return Err(PluginError::invalid_config(message).at("/last_n_messages"));
        }
        Ok(Self {
            rule: match config.mode {
                Mode::DefaultEnd => Rule::Last,
                Mode::LastN => Rule::LastOf {
                    count: config.last_n_messages,
                    offset: config.last_n_messages_offset,
                    roles: config.tagged_roles,
                },
            },
            mark: match config.ttl {
                Ttl::Minutes => json!({ "type": "ephemeral" }),
                Ttl::Hour => json!({ "type": "ephemeral", "ttl": "1h" }),
            }
            .to_string(),
            history: Vec::new(),
            marked: Vec::new(),
        })
    }
}

impl Processor for CacheControl {
    fn apply(&mut self, mut change: Change) -> Result<Next, PluginError> {
        check_start(&change, self.history.len())?;
        let mut start = change.start as usize;
        for message in &mut change.messages {
            mark::remove(message);
        }
        change.apply(&mut self.history);
        let marked = self.rule.choose(&self.history);
        // Before the change, only messages that got or lost their mark are different.
        let turned = |one: &[usize], other: &[usize]| {
            let mut lost = one.iter().filter(|index| !other.contains(index));
            lost.next().copied()
        };
        for index in [turned(&self.marked, &marked), turned(&marked, &self.marked)] {
            start = start.min(index.unwrap_or(start));
        }
        self.marked = marked;
        let view = self.history.iter().enumerate().skip(start);
        let view = view.map(|(index, message)| {
            let mut message = message.clone();
            if self.marked.contains(&index) {
                mark::set(&mut message, &self.mark);
            }
            message
        });
        Ok(Next::Done(Change::tail(start, view.collect())))
    }
}

mswea_sdk::export!(processor: CacheControl);

#[cfg(test)]
mod tests;

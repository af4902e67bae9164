//! The processor that keeps the context below a budget: when it grows too large, the model is asked
//! for a summary of its older part, which replaces that part from then on.
//!
//! Only the view changes, not the history.

mod fold;
mod measure;
mod question;
mod template;

use std::rc::Rc;

use mswea_sdk::processor::{Next, Query, check_start};
use mswea_sdk::types::{Change, Message, PluginError, Reply, extra_value};
use mswea_sdk::{Descriptor, Plugin, Processor, from_config};
use serde::Deserialize;
use serde_json::{Value, json};

use fold::{Compaction, CompactionSettings, Fold};
use template::Template;

/// The smallest budget: a smaller one holds little more than the system's message and the task, and
/// would lead to a summary in almost every step.
const MIN_BUDGET: u64 = 8_000;

/// The most new questions in one step: the contract's maximum. With fewer, a fresh instance could
/// see more than this one.
const MOST_NEW: usize = 8;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Config {
    #[serde(default = "budget_tokens")]
    budget_tokens: u64,
    #[serde(default = "trigger")]
    trigger: f64,
    #[serde(default = "keep_last")]
    keep_last: usize,
    #[serde(default = "instructions")]
    instructions: String,
    #[serde(default = "summary_template")]
    summary_template: String,
}

fn budget_tokens() -> u64 {
    128_000
}

fn trigger() -> f64 {
    0.8
}

fn keep_last() -> usize {
    10
}

fn instructions() -> String {
    question::INSTRUCTIONS.to_owned()
}

fn summary_template() -> String {
    template::DEFAULT.to_owned()
}

/// The plugin: the fold, and the part of its result that the host has.
pub struct Compactor {
    fold: Fold,
    /// The replacement in the last change that was returned; none before the first.
    sent: Option<Option<Rc<Compaction>>>,
    /// Up to this index, the history is unchanged since then.
    start: usize,
    /// How many answers since the last `apply` were new, and not from the record.
    new: usize,
}

impl Plugin for Compactor {
    fn describe() -> Descriptor {
        Descriptor::new(
            "compaction",
            env!("CARGO_PKG_VERSION"),
            "Keeps the context below a budget by a summary of its older part",
        )
        .config_schema(&json!({
            "type": "object",
            "properties": {
                "budget_tokens": {
                    "type": "integer",
                    "minimum": MIN_BUDGET,
                    "default": budget_tokens(),
                    "description": "How many tokens the context may have: the model's window, or \
                                    what you want to pay for.",
                },
                "trigger": {
                    "type": "number",
                    "exclusiveMinimum": 0,
                    "maximum": 1,
                    "default": trigger(),
                    "description": "When the context takes more than this part of the budget, its \
                                    older part is summarised.",
                },
                "keep_last": {
                    "type": "integer",
                    "minimum": 1,
                    "default": keep_last(),
                    "description": "How many messages at the end stay as they are; fewer, if these \
                                    alone take more than half of the budget.",
                },
                "instructions": {
                    "type": "string",
                    "minLength": 1,
                    "default": question::INSTRUCTIONS,
                    "description": "The instructions for the summary. The task and the older part \
                                    follow.",
                },
                "summary_template": {
                    "type": "string",
                    "minLength": 1,
                    "default": template::DEFAULT,
                    "description": "The message in place of the older part. `{{summary}}` is the \
                                    model's answer; nothing else is replaced.",
                },
            },
            "additionalProperties": false,
            "examples": [
                {},
                { "budget_tokens": 32_000, "trigger": 0.7, "keep_last": 6 },
                { "budget_tokens": 8_000, "keep_last": 4 },
                { "summary_template": "What happened so far: {{summary}}" },
            ],
        }))
    }

    fn configure(config: Value) -> Result<Self, PluginError> {
        Self::new(config, MIN_BUDGET)
    }
}

impl Compactor {
    /// Reads the config; `least` is the smallest budget allowed.
    fn new(config: Value, least: u64) -> Result<Self, PluginError> {
        let config: Config = from_config(config)?;
        let bad = |key: &str, message: String| {
            Err(PluginError::invalid_config(message).at(&format!("/{key}")))
        };
        if config.budget_tokens < least {
            let message = format!(
                "`budget_tokens` is {}, which leaves no room for a summary; write a number from \
                 {least} on",
                config.budget_tokens
            );
            return bad("budget_tokens", message);
        }
        if !(config.trigger > 0.0 && config.trigger <= 1.0) {
            let message = format!(
                "`trigger` is {}; write a part of the budget, above 0 and up to 1",
                config.trigger
            );
            return bad("trigger", message);
        }
        if config.keep_last == 0 {
            let message = "`keep_last` must not be 0; write a number from 1 on".to_owned();
            return bad("keep_last", message);
        }
        if config.instructions.trim().is_empty() {
            let message =
                "`instructions` must not be empty; describe the summary, or leave the key \
                           out"
                .to_owned();
            return bad("instructions", message);
        }
        let template = match Template::parse(&config.summary_template) {
            Ok(template) => template,
            Err(reason) => {
                let message = format!(
                    "`summary_template` {reason}; write `{{{{summary}}}}` in place of the \
                     summary, and nothing else in double braces"
                );
                return bad("summary_template", message);
            }
        };
        Ok(Self {
            fold: Fold::new(CompactionSettings {
                budget: config.budget_tokens,
                limit: part(config.budget_tokens, config.trigger),
                keep_last: config.keep_last,
                instructions: config.instructions,
                template,
            }),
            sent: None,
            start: 0,
            new: 0,
        })
    }

    /// Continues to the next question or to the end.
    fn go_on(&mut self) -> Next {
        match self.fold.advance(self.new < MOST_NEW) {
            Some(question) => Next::Ask(Query {
                messages: vec![question],
                purpose: "summary".to_owned(),
                extra: None,
            }),
            None => Next::Done(self.changed()),
        }
    }

    /// The change of the view since the last one that was returned.
    fn changed(&mut self) -> Change {
        let history = self.fold.history();
        let now = self.fold.compaction().cloned();
        let before = self.sent.replace(now.clone());
        let start = std::mem::replace(&mut self.start, history.len());
        let Some(before) = before else {
            return Change::all(view(history, now.as_deref(), 0));
        };
        let is_same = match (&before, &now) {
            (Some(before), Some(now)) => Rc::ptr_eq(before, now),
            (None, None) => true,
            _ => false,
        };
        let from = match &now {
            _ if !is_same => {
                // Up to there, every view equals the history.
                let heads = [&before, &now].into_iter().flatten();
                heads
                    .map(|compaction| compaction.head)
                    .fold(start, usize::min)
            }
            None => start,
            // A cut that was decided before the change removes nothing of the change.
            Some(compaction) => compaction.head + 1 + start.saturating_sub(compaction.cut),
        };
        Change::tail(from, view(history, now.as_deref(), from))
    }
}

/// A part of a budget, rounded down.
fn part(budget: u64, of: f64) -> u64 {
    (budget as f64 * of) as u64
}

/// Whether the host answered from the run's record.
fn is_remembered(reply: &Reply) -> bool {
    let extra = reply.extra.as_deref().unwrap_or_default();
    // Parsed only if the word is in it: the rest is the provider's, of any size.
    extra.contains("\"remembered\"") && extra_value(Some(extra))["remembered"] == true
}

/// The view from one of its messages on.
fn view(history: &[Message], compaction: Option<&Compaction>, from: usize) -> Vec<Message> {
    let Some(compaction) = compaction else {
        return history[from..].to_vec();
    };
    let head = history[..compaction.head].iter();
    let note = std::iter::once(&compaction.message);
    let tail = history[compaction.cut..].iter();
    // The messages that were cut off are skipped at once.
    match from.checked_sub(compaction.head + 1) {
        Some(skipped) => tail.skip(skipped).cloned().collect(),
        None => head.chain(note).chain(tail).skip(from).cloned().collect(),
    }
}

impl Processor for Compactor {
    fn apply(&mut self, change: Change) -> Result<Next, PluginError> {
        check_start(&change, self.fold.history().len())?;
        let start = change.start as usize;
        if start == 0 {
            // After this the host has no earlier view.
            self.sent = None;
        }
        // If the last question was never answered, the answer to this call covers both changes.
        self.start = self.start.min(start);
        self.new = 0;
        self.fold.take(change);
        Ok(self.go_on())
    }

    fn resume(&mut self, reply: Reply) -> Result<Next, PluginError> {
        if !self.fold.answer(&reply.message.text()) {
            return Err(PluginError::invalid_input(
                "there is an answer, but nothing was asked; this is a fault of the host",
            ));
        }
        self.new += usize::from(!is_remembered(&reply));
        Ok(self.go_on())
    }
}

mswea_sdk::export!(processor: Compactor);

#[cfg(test)]
mod tests;

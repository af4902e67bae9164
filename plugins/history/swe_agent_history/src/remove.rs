//! `remove_regex`: removes the text that regular expressions match.

use std::cell::Cell;

use mswea_expression::Expression;
use mswea_sdk::host::{self, Level};
use mswea_sdk::types::{ContentPart, Message, PluginError};

use crate::engine::Rule;

/// The expressions, and the messages that they apply to.
pub struct Remover {
    patterns: Vec<Pattern>,
    keep_last: usize,
    /// Messages before this index are searched.
    limit: usize,
}

struct Pattern {
    expression: Expression,
    /// Whether a search that was given up has been reported.
    has_told: Cell<bool>,
}

impl Pattern {
    /// Removes the matches; a text in which the search takes too long stays as it is.
    fn remove(&self, text: &mut String) {
        match self.expression.removed(text) {
            Ok(Some(rest)) => *text = rest,
            Ok(None) => {}
            Err(error) if !self.has_told.replace(true) => host::log(
                Level::Warn,
                &format!(
                    "`remove` leaves a text of {} bytes as it is, also what `{}` matches in it: {error}",
                    text.len(),
                    self.expression.as_str()
                ),
            ),
            Err(_) => {}
        }
    }
}

impl Remover {
    /// A rule with an empty history.
    ///
    /// # Errors
    ///
    /// A message if an expression does not compile.
    pub fn new(patterns: &[String], keep_last: usize) -> Result<Self, PluginError> {
        let compile = |(number, pattern): (usize, &String)| {
            let compiled = Expression::dot_all(pattern).map_err(|error| {
                PluginError::invalid_config(format!(
                    "entry {} of `remove`, `{pattern}`, is not usable: {error}; it is written as for \
                     Python's `re`",
                    number + 1
                ))
                .at(&format!("/remove/{number}"))
            });
            compiled.map(|expression| Pattern {
                expression,
                has_told: Cell::new(false),
            })
        };
        Ok(Self {
            patterns: patterns
                .iter()
                .enumerate()
                .map(compile)
                .collect::<Result<_, _>>()?,
            keep_last,
            limit: 0,
        })
    }
}

impl Rule for Remover {
    fn update(&mut self, history: &[Message], start: usize) -> Vec<usize> {
        let before = self.limit;
        self.limit = history.len().saturating_sub(self.keep_last);
        let moved = before.min(self.limit)..before.max(self.limit).min(start);
        moved.collect()
    }

    fn view(&self, history: &[Message], index: usize) -> Message {
        let mut message = history[index].clone();
        if index >= self.limit {
            return message;
        }
        for part in &mut message.content {
            let ContentPart::Text(text) = part else {
                continue;
            };
            for pattern in &self.patterns {
                pattern.remove(text);
            }
        }
        message
    }
}

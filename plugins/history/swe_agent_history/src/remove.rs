//! `remove_regex`: removes the text that regular expressions match.

use mswea_expression::Expression;
use mswea_sdk::types::{ContentPart, Message, PluginError};

use crate::engine::Rule;

/// The expressions, and the messages that they apply to.
pub struct Remover {
    patterns: Vec<Expression>,
    keep_last: usize,
    /// Messages before this index are searched.
    limit: usize,
}

impl Remover {
    /// A rule with an empty history.
    ///
    /// # Errors
    ///
    /// A message if an expression does not compile.
    pub fn new(patterns: &[String], keep_last: usize) -> Result<Self, PluginError> {
        let compile = |(number, pattern): (usize, &String)| {
            Expression::dot_all(pattern).map_err(|error| {
                PluginError::invalid_config(format!(
                    "entry {} of `remove`, `{pattern}`, is not usable: {error}; it is written as for \
                     Python's `re`",
                    number + 1
                ))
                .at(&format!("/remove/{number}"))
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
                // A text in which the search takes too long stays as it is.
                if let Ok(Some(rest)) = pattern.removed(text) {
                    *text = rest;
                }
            }
        }
        message
    }
}

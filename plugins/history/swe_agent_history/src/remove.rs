//! `remove_regex`: what regular expressions match goes.

use mswea_sdk::types::{ContentPart, Message, PluginError};
use regex_lite::{NoExpand, Regex, RegexBuilder};

use crate::engine::Rule;

/// An expression.
struct Pattern {
    regex: Regex,
    /// What every match begins with; looking for it is quick, and most texts don't have it.
    prefix: String,
}

/// The text that every match of an expression begins with, as far as that is plain to see.
fn prefix(pattern: &str) -> String {
    // An alternative begins with something else, flags and classes may make it anything.
    if pattern.contains('|') || pattern.starts_with(['(', '\\']) {
        return String::new();
    }
    let is_plain = |c: char| !r"\.+*?()|[]{}^$".contains(c);
    let end = pattern.find(|c| !is_plain(c)).unwrap_or(pattern.len());
    let mut prefix = pattern[..end].to_owned();
    // What can be repeated can be missing.
    if pattern[end..].starts_with(['*', '?', '{']) {
        prefix.pop();
    }
    prefix
}

/// The expressions, and how far they reach.
pub struct Remover {
    patterns: Vec<Pattern>,
    keep_last: usize,
    /// Messages before this index are searched.
    limit: usize,
}

impl Remover {
    /// A rule that knows no history yet.
    ///
    /// # Errors
    ///
    /// When an expression is none.
    pub fn new(patterns: &[String], keep_last: usize) -> Result<Self, PluginError> {
        let compile = |(number, pattern): (usize, &String)| {
            let regex = RegexBuilder::new(pattern)
                .dot_matches_new_line(true)
                .build();
            let regex = regex.map_err(|error| {
                PluginError::invalid_config(format!(
                    "entry {} of `remove`, `{pattern}`, is not usable: {error}; write it in the \
                     syntax of Rust's `regex-lite` crate, which has no look-around, no \
                     back-references and no Unicode classes, and where a literal `{{` is `\\{{`",
                    number + 1
                ))
                .at(&format!("/remove/{number}"))
            })?;
            Ok(Pattern {
                prefix: prefix(pattern),
                regex,
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
            for Pattern { regex, prefix } in &self.patterns {
                if text.contains(prefix) && regex.is_match(text) {
                    *text = regex.replace_all(text, NoExpand("")).into_owned();
                }
            }
        }
        message
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_match_begins_with() {
        for (pattern, expected) in [
            ("<diff>.*</diff>", "<diff>"),
            ("plain text", "plain text"),
            ("", ""),
            ("ab*c", "a"),
            ("ab?", "a"),
            ("ab{0,2}", "a"),
            ("ab+c", "ab"),
            ("é*", ""),
            ("a|b", ""),
            ("(?i)abc", ""),
            ("a(?i)bc", "a"),
            ("x(a|b)", ""),
            (r"\d", ""),
            (r"a\d", "a"),
            ("^ab", ""),
            ("[ab]c", ""),
        ] {
            assert_eq!(prefix(pattern), expected, "{pattern}");
        }
    }
}

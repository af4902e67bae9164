//! `remove_regex`: removes the text that regular expressions match.

use mswea_sdk::types::{ContentPart, Message, PluginError};
use regex_lite::{NoExpand, Regex, RegexBuilder};

use crate::engine::Rule;

/// An expression.
struct Pattern {
    regex: Regex,
    /// The beginning of every match: searching for it is fast, and most texts lack it.
    prefix: String,
}

/// The text that every match of an expression begins with, as far as a simple analysis shows.
fn prefix(pattern: &str) -> String {
    // An alternative begins differently, and flags and classes can match other characters.
    if pattern.contains('|') || pattern.starts_with(['(', '\\']) {
        return String::new();
    }
    let is_plain = |c: char| !r"\.+*?()|[]{}^$".contains(c);
    let end = pattern.find(|c| !is_plain(c)).unwrap_or(pattern.len());
    let mut prefix = pattern[..end].to_owned();
    // A repeated character can be missing.
    if pattern[end..].starts_with(['*', '?', '{']) {
        prefix.pop();
    }
    prefix
}

/// The expressions, and the messages that they apply to.
pub struct Remover {
    patterns: Vec<Pattern>,
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

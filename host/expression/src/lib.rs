//! Regular expressions that mean what they mean to Python's `re` (3.11 and later), for every config
//! key and flag that takes one. Searches are bounded: Python's own would run on for years.
//!
//! An engine of another dialect, behind a translation, would match something else wherever the
//! translation has a gap, in silence. So this is a parser and a backtracking matcher of its own,
//! which works as Python's does, and `tests/vectors.json` has Python's answers for it. What it can't
//! have is an error of [`Expression::new`]: characters by name (`\N{EM DASH}`). It is used by
//! plugins, too, so it has no dependencies and is small.

mod machine;
mod node;
mod parse;
mod program;
mod unicode;

use std::fmt;
use std::ops::Range;

use program::MatchProgram;

/// An expression that was compiled.
#[derive(Clone, Debug)]
pub struct Expression {
    pattern: String,
    program: MatchProgram,
}

/// A mistake in an expression, as Python describes it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mistake {
    what: String,
    /// In characters; `None` if it is the whole expression.
    position: Option<usize>,
}

impl fmt::Display for Mistake {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.position {
            Some(position) => write!(f, "{} at position {position}", self.what),
            None => f.write_str(&self.what),
        }
    }
}

impl std::error::Error for Mistake {}

/// A search was given up, because it would take too many steps or too much memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SearchTooHard;

impl fmt::Display for SearchTooHard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the search takes too long; make the expression simpler, above all repetitions within repetitions")
    }
}

impl std::error::Error for SearchTooHard {}

/// A match: where it and its groups are, in bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FoundMatch {
    groups: Vec<Option<Range<usize>>>,
}

impl FoundMatch {
    /// Where the whole match is.
    pub fn range(&self) -> Range<usize> {
        self.group(0).unwrap_or_default()
    }

    /// Where a group is; 0 is the whole match. `None` if the group took no part in it.
    pub fn group(&self, number: usize) -> Option<Range<usize>> {
        self.groups.get(number).cloned().flatten()
    }
}

impl Expression {
    /// Compiles an expression, as `re.compile(pattern)`.
    ///
    /// # Errors
    /// The mistake in it.
    pub fn new(pattern: &str) -> Result<Self, Mistake> {
        Self::with(pattern, false)
    }

    /// As `re.compile(pattern, re.DOTALL)`: a dot matches line breaks, too.
    ///
    /// # Errors
    /// The mistake in it.
    pub fn dot_all(pattern: &str) -> Result<Self, Mistake> {
        Self::with(pattern, true)
    }

    fn with(pattern: &str, dot_all: bool) -> Result<Self, Mistake> {
        let parsed = parse::parse(pattern, dot_all)?;
        Ok(Self {
            pattern: pattern.to_owned(),
            program: program::compile(&parsed)?,
        })
    }

    /// The expression as it was written.
    pub fn as_str(&self) -> &str {
        &self.pattern
    }

    /// How many groups it has, without the whole match.
    pub fn groups(&self) -> usize {
        self.program.groups
    }

    /// Whether it is found in a text, as `re.search`.
    ///
    /// # Errors
    /// [`SearchTooHard`] if the search was given up.
    pub fn is_in(&self, text: &str) -> Result<bool, SearchTooHard> {
        Ok(self.find(text)?.is_some())
    }

    /// The first match, as `re.search`.
    ///
    /// # Errors
    /// [`SearchTooHard`] if the search was given up.
    pub fn find(&self, text: &str) -> Result<Option<FoundMatch>, SearchTooHard> {
        self.find_all(text).next().transpose()
    }

    /// Whether it matches at the start of a text, as `re.match`.
    ///
    /// # Errors
    /// [`SearchTooHard`] if the search was given up.
    pub fn begins(&self, text: &str) -> Result<bool, SearchTooHard> {
        let found = machine::run(&self.program, text, 0, machine::SearchMode::AtStart)?;
        Ok(found.is_some())
    }

    /// All matches, as `re.finditer`. It ends after an error.
    pub fn find_all<'e>(&'e self, text: &'e str) -> Matches<'e> {
        Matches {
            expression: self,
            text,
            at: Some(0),
            advance: false,
        }
    }

    /// The text without its matches, as `re.sub(pattern, "", text)`; `None` if there are none.
    ///
    /// # Errors
    /// [`SearchTooHard`] if the search was given up.
    pub fn removed(&self, text: &str) -> Result<Option<String>, SearchTooHard> {
        let mut rest = String::new();
        let mut at = None;
        for found in self.find_all(text) {
            let range = found?.range();
            rest.push_str(&text[at.unwrap_or(0)..range.start]);
            at = Some(range.end);
        }
        Ok(at.map(|at| rest + &text[at..]))
    }
}

/// The matches in a text, one after the other.
#[derive(Debug)]
pub struct Matches<'e> {
    expression: &'e Expression,
    text: &'e str,
    /// Where the next search begins.
    at: Option<usize>,
    /// Whether the last match was empty: then the next one has to end behind it.
    advance: bool,
}

impl Iterator for Matches<'_> {
    type Item = Result<FoundMatch, SearchTooHard>;

    fn next(&mut self) -> Option<Self::Item> {
        let at = self.at.take()?;
        let mode = match self.advance {
            true => machine::SearchMode::Advance,
            false => machine::SearchMode::Search,
        };
        match machine::run(&self.expression.program, self.text, at, mode) {
            Ok(None) => None,
            Ok(Some(found)) => {
                let range = found.range();
                self.advance = range.is_empty();
                self.at = Some(range.end);
                Some(Ok(found))
            }
            Err(error) => Some(Err(error)),
        }
    }
}

/// A text as an expression that matches just this text, as `re.escape`.
pub fn escape(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        if r"()[]{}?*+-|^$\.&~#".contains(c) || " \t\n\r\x0b\x0c".contains(c) {
            out.push('\\');
        }
        out.push(c);
    }
    out
}

#[cfg(test)]
mod tests;

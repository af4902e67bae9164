//! Searches the output of a program for regular expressions, with a bound on the work.
//!
//! A pattern comes from the user or the model, and has the meaning of Python's `re`. Some would need far
//! more time than a text is long. So the number of steps is bounded, and one piece of the text is
//! searched at a time.

use std::ops::Range;
use std::sync::Arc;
use std::time::{Duration, Instant};

use mswea_core::ProgramError;
use mswea_expression::Expression;

use crate::aside::aside;

/// The longest pattern, in bytes.
const LONGEST: usize = 4096;
/// The size of a piece.
const PIECE: usize = 64 * 1024;
/// How many bytes before a piece are searched again with it: matches up to this length are always
/// found.
pub(super) const OVERLAP: usize = 16 * 1024;
/// How long one search may take.
const SEARCHING: Duration = Duration::from_secs(2);

/// Compiled patterns.
#[derive(Clone, Debug)]
pub(super) struct Patterns(Arc<[Expression]>);

/// A match: the index of its pattern, and its range.
pub(super) type PatternMatch = (usize, Range<usize>);

impl Patterns {
    /// Compiles patterns.
    ///
    /// # Errors
    /// [`ProgramError::Pattern`] for the first one that is no regular expression or too large.
    pub(super) fn new(patterns: &[&str]) -> Result<Self, ProgramError> {
        let compiled = patterns.iter().map(|&pattern| {
            if pattern.len() > LONGEST {
                let start = pattern.chars().take(100).collect::<String>();
                return Err(refused(&format!("{start}..."), "it is longer than 4 KiB"));
            }
            Expression::new(pattern).map_err(|error| refused(pattern, &error.to_string()))
        });
        compiled.collect::<Result<_, _>>().map(Self)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Searches for the first match, on a thread of its own.
    ///
    /// # Errors
    /// [`ProgramError::Pattern`] if a pattern takes too long.
    pub(super) async fn find(&self, text: String) -> Result<Option<PatternMatch>, ProgramError> {
        let this = self.clone();
        let found = aside(move || this.find_here(&text)).await;
        found.unwrap_or_else(|| Err(refused("", "the search has failed")))
    }

    fn find_here(&self, text: &str) -> Result<Option<PatternMatch>, ProgramError> {
        let began = Instant::now();
        let mut at = 0;
        loop {
            let end = text.ceil_char_boundary(at + PIECE);
            if let Some((which, found)) = self.in_piece(&text[at..end])? {
                return Ok(Some((which, at + found.start..at + found.end)));
            }
            if end == text.len() {
                return Ok(None);
            }
            if began.elapsed() > SEARCHING {
                let pattern = self.0.first().map_or("", Expression::as_str);
                return Err(refused(pattern, "looking for it takes too long"));
            }
            at = text.ceil_char_boundary(end - OVERLAP);
        }
    }

    fn in_piece(&self, piece: &str) -> Result<Option<PatternMatch>, ProgramError> {
        let mut first: Option<PatternMatch> = None;
        for (which, pattern) in self.0.iter().enumerate() {
            let found = pattern.find(piece);
            let found = found.map_err(|error| refused(pattern.as_str(), &error.to_string()))?;
            if let Some(found) = found
                && first
                    .as_ref()
                    .is_none_or(|(_, before)| found.range().start < before.start)
            {
                first = Some((which, found.range()));
            }
        }
        Ok(first)
    }
}

fn refused(pattern: &str, why: &str) -> ProgramError {
    ProgramError::Pattern {
        pattern: pattern.to_owned(),
        why: why.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_match_counts() {
        let far = format!("{}(gdb) x", "\u{e9}".repeat(100_000));
        for (patterns, text, wanted) in [
            (&[r"\(gdb\) "][..], "GNU gdb\n(gdb) ", Some((0, 8..14))),
            (&["b", "a"], "xab", Some((1, 1..2))),
            (&["ab", "a"], "xab", Some((0, 1..3))),
            (&["$"], "x", Some((0, 1..1))),
            (&["(?m)^> $"], "a> \n> ", Some((0, 4..6))),
            (&["(?<!x)y"], "xyy", Some((0, 2..3))),
            (&[], "x", None),
            (&["no"], "x", None),
            (&[r"\(gdb\) "], &far, Some((0, 200_000..200_006))),
        ] {
            let compiled = Patterns::new(patterns).unwrap();
            assert_eq!(compiled.find_here(text), Ok(wanted), "{patterns:?}");
        }
    }

    #[test]
    fn patterns_are_bounded() {
        let huge = "x".repeat(5000);
        for (pattern, wanted) in [
            ("(", "can't be used"),
            (&huge, "longer than 4 KiB"),
            ("a**", "can't be used"),
        ] {
            let error = Patterns::new(&[pattern]).unwrap_err().to_string();
            assert!(error.contains(wanted), "{error}");
        }
        // These would take years without a bound.
        let text = "a".repeat(1 << 20);
        let began = Instant::now();
        let compiled = Patterns::new(&["(a+)+$b"]).unwrap();
        assert_eq!(compiled.find_here(&text), Ok(None));
        let compiled = Patterns::new(&[r"(?=(a+)+)(a+)\1+[bc]"]).unwrap();
        let error = compiled.find_here(&text).unwrap_err().to_string();
        assert!(error.contains("can't be used"), "{error}");
        assert!(
            began.elapsed() < Duration::from_secs(20),
            "{:?}",
            began.elapsed()
        );
    }
}

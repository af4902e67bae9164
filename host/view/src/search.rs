//! Searches the texts of all runs, with limits of time and of results.

use std::time::{Duration, Instant};

use fancy_regex::{Regex, RegexBuilder};
use mswea_export::{Conversation, ConversationStep, SecretValues};
use mswea_text::{harmless, one_line};
use serde_json::{Value, json};

use crate::blanked::SecretsFiles;
use crate::opened;
use crate::steps::{self, cleaned};
use crate::table::ListedRun;

/// The time limit of a search, and the limits of results in all and in one run.
const TIME: Duration = Duration::from_millis(2_500);
const PLACES: usize = 200;
const PLACES_OF_RUN: usize = 5;
/// The number of characters that are shown around a result.
const AROUND: usize = 100;
/// The number of characters of a match that are shown.
const MATCH: usize = 300;
/// The longest pattern.
const PATTERN: usize = 1_000;
/// The limit of backtracking of an engine in a text.
const BACKTRACKS: usize = 200_000;

/// The text or expression that is searched for.
pub(crate) struct SearchFor {
    regex: Regex,
    /// Whether the record contains these characters unescaped, so that a file without them need not
    /// be parsed.
    is_plain: bool,
}

impl SearchFor {
    /// Searches for a text, ignoring case, or for a regular expression.
    ///
    /// # Errors
    /// A message if the text is empty, too long, or no regular expression.
    pub(crate) fn new(text: &str, is_regex: bool) -> Result<Self, String> {
        if text.is_empty() {
            return Err("write what is to be found".to_owned());
        }
        if text.len() > PATTERN {
            return Err(format!(
                "the text to be found has more than {PATTERN} bytes"
            ));
        }
        let pattern = match is_regex {
            true => text.to_owned(),
            false => format!("(?i){}", fancy_regex::escape(text)),
        };
        let built = RegexBuilder::new(&pattern)
            .backtrack_limit(BACKTRACKS)
            .build();
        let is_literal = |c: char| c.is_ascii_alphanumeric() || matches!(c, ' ' | '_' | '-' | '.');
        Ok(Self {
            regex: built
                .map_err(|error| format!("the regular expression is not valid: {error}"))?,
            is_plain: !is_regex && text.chars().all(is_literal),
        })
    }

    /// Searches the runs from `cursor` on.
    pub(crate) fn run(
        &self,
        runs: &[ListedRun],
        cursor: usize,
        secrets: &SecretValues,
        files: &SecretsFiles,
    ) -> Value {
        let began = Instant::now();
        let mut found = Vec::new();
        let mut places = 0;
        let mut skipped = 0;
        let mut at = cursor.min(runs.len());
        while at < runs.len() && places < PLACES && began.elapsed() < TIME {
            let run = &runs[at];
            at += 1;
            if self.is_plain && !self.may_be_in(run) {
                continue;
            }
            let Ok(open) = opened::read_once(&run.place, files) else {
                skipped += 1;
                continue;
            };
            // Reading the run may have used all of the time.
            let until = Instant::now() + TIME;
            let (hits, is_whole) = self.places(open.conversation(), secrets, until);
            skipped += usize::from(!is_whole);
            if hits.is_empty() {
                continue;
            }
            places += hits.len();
            let mut card = run.card.to_json(&run.id, &run.place.name, secrets);
            card["hits"] = hits.into();
            found.push(card);
        }
        json!({ "runs": found, "cursor": at, "total": runs.len(), "skipped": skipped })
    }

    fn may_be_in(&self, run: &ListedRun) -> bool {
        let Ok(bytes) = mswea_files::read(&run.place.path, mswea_files::RECORDS) else {
            return true;
        };
        let text = String::from_utf8_lossy(&bytes);
        self.regex.is_match(&*text).unwrap_or(true)
    }

    /// The results in a run, and whether all of it was searched. It was not if the expression takes
    /// too long.
    fn places(
        &self,
        run: &Conversation,
        secrets: &SecretValues,
        until: Instant,
    ) -> (Vec<Value>, bool) {
        let mut hits = Vec::new();
        let texts = run.steps.iter().enumerate();
        let texts = texts.flat_map(|(index, step)| parts(step).map(move |part| (index, part)));
        for (index, (name, text)) in texts {
            if hits.len() >= PLACES_OF_RUN {
                break;
            }
            if Instant::now() >= until {
                return (hits, false);
            }
            match self.regex.is_match(&*text) {
                Ok(true) => {}
                Ok(false) => continue,
                Err(_) => return (hits, false),
            }
            // In the text as shown, so that no part of a secret is found.
            let text = cleaned(text.into_owned(), secrets);
            let found = match self.regex.find(&*text) {
                Ok(Some(found)) => found,
                Ok(None) => continue,
                Err(_) => return (hits, false),
            };
            let before = text[..found.start()].chars().rev().take(AROUND);
            let before: String = before.collect::<Vec<_>>().into_iter().rev().collect();
            let after: String = text[found.end()..].chars().take(AROUND).collect();
            let shown: String = found.as_str().chars().take(MATCH).collect();
            hits.push(json!({
                "step": index, "part": one_line(name), "before": before, "match": harmless(&shown), "after": after,
            }));
        }
        (hits, true)
    }
}

type PartOfStep<'s> = (&'static str, std::borrow::Cow<'s, str>);

fn parts(step: &ConversationStep) -> impl Iterator<Item = PartOfStep<'_>> {
    let own = [
        ("text", step.text.as_str().into()),
        ("thought", step.reasoning.as_str().into()),
    ];
    let calls = step.calls.iter();
    let calls = calls.map(|call| ("action", steps::call_text(&call.arguments).into()));
    let shown = step.shown.iter();
    let shown = shown.map(|it| ("output", steps::readable(&it.text)));
    own.into_iter().chain(calls).chain(shown)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_expression_that_takes_long_in_one_run_is_given_up() {
        let step = |text: String| ConversationStep {
            text,
            ..ConversationStep::default()
        };
        let run = Conversation {
            steps: vec![step("a".repeat(100_000)); 500],
            ..Conversation::default()
        };
        let secrets = SecretValues::new(Vec::<String>::new());
        let pattern = r"(a+)+\1b";
        let search = SearchFor::new(pattern, true).unwrap();
        let began = Instant::now();
        let (hits, _) = search.places(&run, &secrets, began + Duration::from_millis(200));
        assert!(hits.is_empty(), "{pattern}");
        let took = began.elapsed();
        assert!(took < Duration::from_secs(20), "{pattern}: {took:?}");
    }
}

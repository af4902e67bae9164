//! Compares two runs: finds the steps that correspond, and the first difference.

use std::hash::{DefaultHasher, Hash as _, Hasher as _};

use mswea_export::{Conversation, ConversationStep};
use serde_json::{Value, json};

use crate::steps::call_text;

/// The largest number of pairs of steps or of messages that are compared.
const PAIRS: usize = 4_000_000;

/// The hashes by which a step is compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct StepKey {
    /// The author and the action: the calls, or the text if there are none.
    action: u64,
    /// The action, the text and the result.
    all: u64,
}

/// The keys of a run's steps.
pub(crate) fn keys(run: &Conversation) -> Vec<StepKey> {
    run.steps.iter().map(key).collect()
}

fn key(step: &ConversationStep) -> StepKey {
    let mut action = DefaultHasher::new();
    step.source.word().hash(&mut action);
    for call in &step.calls {
        (&call.name, call_text(&call.arguments)).hash(&mut action);
    }
    if step.calls.is_empty() {
        step.text.hash(&mut action);
    }
    let mut all = action.clone();
    step.text.hash(&mut all);
    for shown in &step.shown {
        (&shown.text, shown.returncode, &shown.exception).hash(&mut all);
    }
    StepKey {
        action: action.finish(),
        all: all.finish(),
    }
}

/// Pairs of steps; one side may be missing.
type AlignedRow = (Option<usize>, Option<usize>);

/// The rows of the page: two steps, and whether `all` of them is the same, only the `action`, or `none`.
/// `first` is the first row that is not the same, `first_action` the first one with another action.
pub(crate) fn aligned(one: &[StepKey], other: &[StepKey]) -> Value {
    let rows = rows(one, other);
    let same = |(left, right): &AlignedRow| match (left, right) {
        (Some(left), Some(right)) => {
            let (left, right) = (one[*left], other[*right]);
            match (left.action == right.action, left.all == right.all) {
                (true, true) => "all",
                (true, false) => "action",
                _ => "none",
            }
        }
        _ => "none",
    };
    let words: Vec<&str> = rows.iter().map(same).collect();
    let shown = rows.iter().zip(&words);
    let shown = shown.map(|((left, right), same)| json!([left, right, same]));
    json!({
        "rows": shown.collect::<Vec<_>>(),
        "first": words.iter().position(|same| *same != "all"),
        "first_action": words.iter().position(|same| *same == "none"),
    })
}

fn rows(one: &[StepKey], other: &[StepKey]) -> Vec<AlignedRow> {
    let is_same = |(left, right): &(&StepKey, &StepKey)| left.action == right.action;
    let common = one.iter().zip(other).take_while(is_same).count();
    let mut rows: Vec<AlignedRow> = (0..common).map(|at| (Some(at), Some(at))).collect();
    let (left, right) = (&one[common..], &other[common..]);
    let actions = |keys: &[StepKey]| keys.iter().map(|key| key.action).collect::<Vec<_>>();
    let matches = longest_common(&actions(left), &actions(right));
    let (mut at_left, mut at_right) = (0, 0);
    let ends = matches.into_iter().chain([(left.len(), right.len())]);
    for (to_left, to_right) in ends {
        // The steps between two matches are paired in order.
        for index in 0..(to_left - at_left).max(to_right - at_right) {
            let side = |at: usize, to: usize| (at + index < to).then_some(common + at + index);
            rows.push((side(at_left, to_left), side(at_right, to_right)));
        }
        if to_left < left.len() && to_right < right.len() {
            rows.push((Some(common + to_left), Some(common + to_right)));
        }
        (at_left, at_right) = (to_left + 1, to_right + 1);
    }
    rows
}

/// A longest common subsequence, as pairs of indices; empty if the lists are too long.
pub(crate) fn longest_common<T: PartialEq>(left: &[T], right: &[T]) -> Vec<(usize, usize)> {
    if left.len().saturating_mul(right.len()) > PAIRS {
        return Vec::new();
    }
    let width = right.len() + 1;
    // The lengths for the rests of both lists.
    let mut lengths = vec![0_u32; (left.len() + 1) * width];
    for i in (0..left.len()).rev() {
        for j in (0..right.len()).rev() {
            lengths[i * width + j] = match left[i] == right[j] {
                true => lengths[(i + 1) * width + j + 1] + 1,
                false => lengths[(i + 1) * width + j].max(lengths[i * width + j + 1]),
            };
        }
    }
    let (mut i, mut j) = (0, 0);
    let mut pairs = Vec::new();
    while i < left.len() && j < right.len() {
        if left[i] == right[j] {
            pairs.push((i, j));
            (i, j) = (i + 1, j + 1);
        } else if lengths[(i + 1) * width + j] >= lengths[i * width + j + 1] {
            i += 1;
        } else {
            j += 1;
        }
    }
    pairs
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A letter is an action; a capital letter is the same action with another result.
    fn run(letters: &str) -> Vec<StepKey> {
        let key = |c: char| StepKey {
            action: u64::from(c.to_ascii_lowercase()),
            all: u64::from(c),
        };
        letters.chars().map(key).collect()
    }

    #[test]
    fn steps_of_the_same_actions_stand_side_by_side() {
        // Two runs; their rows as `ab` for two steps side by side; the first difference, and that of actions.
        for (one, other, rows, first, first_action) in [
            ("abc", "abc", "aa bb cc", None, None),
            ("abc", "aBc", "aa bB cc", Some(1), None),
            ("abcd", "axcd", "aa bx cc dd", Some(1), Some(1)),
            ("abcd", "acd", "aa b- cc dd", Some(1), Some(1)),
            ("acd", "abbcd", "aa -b -b cc dd", Some(1), Some(1)),
            ("ab", "abc", "aa bb -c", Some(2), Some(2)),
            ("", "a", "-a", Some(0), Some(0)),
            ("ab", "xyz", "ax by -z", Some(0), Some(0)),
            ("", "", "", None, None),
        ] {
            let value = aligned(&run(one), &run(other));
            let letter = |text: &str, at: &Value| {
                let at = at.as_u64().map(|at| usize::try_from(at).unwrap());
                at.map_or('-', |at| text.chars().nth(at).unwrap())
            };
            let shown = value["rows"].as_array().unwrap().iter();
            let shown = shown.map(|row| {
                let pair = [letter(one, &row[0]), letter(other, &row[1])];
                pair.iter().collect::<String>()
            });
            assert_eq!(shown.collect::<Vec<_>>().join(" "), rows);
            assert_eq!(value["first"].as_u64(), first, "{one} {other}");
            assert_eq!(
                value["first_action"].as_u64(),
                first_action,
                "{one} {other}"
            );
        }
    }
}

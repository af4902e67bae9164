//! Groups of similar disagreements, so that a hundred with the same cause need to be read only
//! once.

use std::collections::BTreeMap;

use serde::Serialize;
use serde_json::Value;

use super::answer::Degree;
use super::comparison::{Case, Comparison};
use super::excerpt;
use super::lines;

/// Longer differing parts of texts are not quoted.
const QUOTED: usize = 32;
/// How many differences of one disagreement are named.
const NAMED: usize = 3;

/// Disagreements with the same differences in the same places.
#[derive(Debug, Serialize)]
pub(super) struct DisagreementGroup {
    /// Their degree.
    pub degree: Degree,
    /// Their differences, in one line.
    pub what: String,
    /// Their indexes in [`Comparison::cases`].
    #[serde(rename = "disagreements")]
    pub cases: Vec<usize>,
}

impl Comparison {
    /// The kept disagreements in groups, the worst degree first, and of each degree the largest
    /// group.
    pub(super) fn groups(&self) -> Vec<DisagreementGroup> {
        let mut groups: BTreeMap<(Degree, String), Vec<usize>> = BTreeMap::new();
        for (index, case) in self.cases.iter().enumerate() {
            let group = groups.entry((case.degree, what(case)));
            group.or_default().push(index);
        }
        let groups = groups.into_iter();
        let groups = groups.map(|((degree, what), cases)| DisagreementGroup {
            degree,
            what,
            cases,
        });
        let mut groups: Vec<_> = groups.collect();
        // Differences in wording matter least.
        let worst = [Degree::OneFailed, Degree::Different, Degree::BothFailed];
        groups.sort_by_key(|group| {
            let rank = worst.iter().position(|degree| *degree == group.degree);
            let rank = rank.unwrap_or(worst.len());
            (rank, std::cmp::Reverse(group.cases.len()), group.cases[0])
        });
        groups
    }
}

/// The differences of a disagreement, in one line.
fn what(case: &Case) -> String {
    // The same difference in several members of a list is named once.
    let mut seen: Vec<String> = Vec::new();
    for (path, old, new) in excerpt::differences(&case.old, &case.new) {
        let how = match (old, new) {
            (_, None) => " only in the first".to_owned(),
            (None, _) => " only in the second".to_owned(),
            (Some(Value::String(old)), Some(Value::String(new))) => {
                format!(": {}", texts(old, new))
            }
            (Some(old), Some(new)) => format!(": {} and {}", short(old), short(new)),
        };
        let one = format!("`{}`{how}", general(&path));
        if !seen.contains(&one) {
            seen.push(one);
        }
    }
    let more = seen.len().saturating_sub(NAMED);
    seen.truncate(NAMED);
    let mut text = seen.join("; ");
    if more > 0 {
        text.push_str(&format!("; and {more} more"));
    }
    match text.is_empty() {
        true => "in a part that is not shown".to_owned(),
        false => text,
    }
}

/// A path without numbers: `/between/message 17` becomes `between.message.*`.
fn general(path: &str) -> String {
    let parts = path.split(['/', ' ']).filter(|part| !part.is_empty());
    let parts = parts.map(|part| {
        if part.parse::<u64>().is_ok() {
            "*"
        } else {
            part
        }
    });
    excerpt::printable(&parts.collect::<Vec<_>>().join("."))
}

/// The difference of two texts, in words.
fn texts(old: &str, new: &str) -> String {
    if old.split_whitespace().eq(new.split_whitespace()) {
        return "other white space".to_owned();
    }
    let (left, right) = lines::marks(old, new);
    let (left, right) = (&old[left], &new[right]);
    match left.len().max(right.len()) <= QUOTED {
        true => format!("{} and {}", quoted(left), quoted(right)),
        false => "another text".to_owned(),
    }
}

/// A part of a text, without its numbers, which differ from case to case.
fn quoted(text: &str) -> String {
    let mut out = String::new();
    for c in excerpt::printable(&text.replace('\n', " ")).chars() {
        match c.is_ascii_digit() {
            true if out.ends_with('#') => {}
            true => out.push('#'),
            false => out.push(c),
        }
    }
    match out.is_empty() {
        true => "nothing".to_owned(),
        false => format!("`{out}`"),
    }
}

fn short(value: &Value) -> String {
    match value {
        Value::Array(_) => "a list".to_owned(),
        Value::Object(_) => "an object".to_owned(),
        Value::String(_) => "a text".to_owned(),
        other => format!("`{other}`"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn case(step: u32, degree: Degree, old: Value, new: Value) -> Case {
        Case {
            run: "r".into(),
            step,
            index: None,
            degree,
            input: json!({}),
            old,
            new,
        }
    }

    #[test]
    fn what_is_alike_is_together() {
        let actions = |command: &str| json!({"actions": [{"command": command}]});
        let own = Comparison {
            cases: vec![
                case(
                    1,
                    Degree::Wording,
                    json!({"m": "a b"}),
                    json!({"m": "a  b"}),
                ),
                case(2, Degree::Different, actions("ls -l 12"), actions("ls 12")),
                case(
                    3,
                    Degree::Different,
                    actions("cat"),
                    json!({"malformed": {}}),
                ),
                case(4, Degree::Different, actions("x -l 7 y"), actions("x 7 y")),
                case(
                    5,
                    Degree::OneFailed,
                    actions("a"),
                    json!({"failed": "crashed"}),
                ),
                case(
                    6,
                    Degree::Different,
                    json!({"between": {"message 3": {"content": "x"}}}),
                    json!({"between": {"message 3": {"content": "y"}}}),
                ),
                case(
                    7,
                    Degree::Different,
                    json!({"between": {"message 9": {"content": "x"}}}),
                    json!({"between": {"message 9": {"content": "y"}}}),
                ),
            ],
            ..Comparison::default()
        };
        let groups: Vec<(String, Vec<usize>)> = own
            .groups()
            .into_iter()
            .map(|group| (group.what, group.cases))
            .collect();
        let expected = [
            (
                "`actions` only in the first; `failed` only in the second",
                vec![4],
            ),
            ("`actions.*.command`: `-l ` and nothing", vec![1, 3]),
            ("`between.message.*.content`: `x` and `y`", vec![5, 6]),
            (
                "`actions` only in the first; `malformed` only in the second",
                vec![2],
            ),
            ("`m`: other white space", vec![0]),
        ];
        let expected: Vec<(String, Vec<usize>)> = expected
            .into_iter()
            .map(|(what, cases)| (what.to_owned(), cases))
            .collect();
        assert_eq!(groups, expected);
    }

    #[test]
    fn texts_differ_in_a_few_ways() {
        let long = "y".repeat(99);
        for (old, new, how) in [
            ("a", " a\n", "other white space"),
            ("", "a", "nothing and `a`"),
            ("a", "", "`a` and nothing"),
            ("line 12", "line 7", "`#` and `#`"),
            (&*format!("a {long}"), "a", "another text"),
            (&*long, &*"z".repeat(50), "another text"),
        ] {
            assert_eq!(texts(old, new), how, "{old} {new}");
        }
    }
}

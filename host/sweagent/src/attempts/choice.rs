//! Interprets the replies of the chooser and of its preselector.

/// The attempts that can be chosen: those that were submitted, if there are at least two.
pub fn candidates(statuses: &[&str]) -> Vec<usize> {
    let submitted = statuses.iter().enumerate();
    let submitted: Vec<usize> = submitted
        .filter(|(_, status)| **status == "submitted")
        .map(|(place, _)| place)
        .collect();
    match submitted.len() {
        0 | 1 => (0..statuses.len()).collect(),
        _ => submitted,
    }
}

/// The candidates in the preselector's reply: the numbers in its last line. All candidates, if it
/// contains no number, or one that is not a candidate.
pub fn preselected(reply: &str, candidates: &[usize]) -> Vec<usize> {
    let line = reply.lines().next_back().unwrap_or_default();
    let named = numbers(line);
    let named: Option<Vec<usize>> = named
        .into_iter()
        .map(|place| candidates.get(place?).copied())
        .collect();
    match named {
        Some(named) if !named.is_empty() => named,
        _ => candidates.to_vec(),
    }
}

/// The candidate in the chooser's reply: its last number, else the first candidate. None if there
/// are no candidates.
pub fn chosen(reply: &str, candidates: &[usize]) -> Option<usize> {
    let place = numbers(reply).pop().flatten().unwrap_or_default();
    candidates.get(place).or(candidates.first()).copied()
}

/// The numbers without a sign in a text; none in place of a number that is too large.
fn numbers(text: &str) -> Vec<Option<usize>> {
    let parts = text.split(|c: char| !c.is_ascii_digit());
    parts
        .filter(|part| !part.is_empty())
        .map(|part| part.parse().ok())
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn submitted_attempts_are_preferred_if_there_are_two() {
        for (statuses, expected) in [
            (&["submitted", "exit_cost", "submitted"][..], &[0, 2][..]),
            (&["submitted", "submitted (exit_cost)"], &[0, 1]),
            (&["exit_cost"], &[0]),
            (&[], &[]),
        ] {
            assert_eq!(candidates(statuses), expected, "{statuses:?}");
        }
    }

    #[test]
    fn the_preselector_names_candidates_in_its_last_line() {
        for (reply, expected) in [
            ("1 and 2\n0, 2", &[3, 7][..]),
            ("2", &[7]),
            ("none", &[3, 5, 7]),
            ("", &[3, 5, 7]),
            ("0, 9", &[3, 5, 7]),
            ("99999999999999999999999", &[3, 5, 7]),
        ] {
            assert_eq!(preselected(reply, &[3, 5, 7]), expected, "{reply:?}");
        }
    }

    #[test]
    fn the_last_number_of_the_reply_is_the_choice() {
        for (reply, candidates, expected) in [
            ("not 0 but\n2", &[0, 1, 2][..], Some(2)),
            ("1\nthat is it", &[0, 4], Some(4)),
            ("9", &[0, 1], Some(0)),
            ("zz", &[0, 1], Some(0)),
            ("99999999999999999999999", &[5, 6], Some(5)),
            ("-1", &[5, 6], Some(6)),
            ("0", &[], None),
        ] {
            assert_eq!(chosen(reply, candidates), expected, "{reply:?}");
        }
    }
}

//! Compares two lists of lines for a side-by-side view.

/// A row of a side-by-side view.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ComparisonRow<'a> {
    /// An equal line on both sides.
    Same(&'a str),
    /// A difference; one side may have no line here.
    Changed(Option<&'a str>, Option<&'a str>),
    /// This many equal lines are left out.
    Skipped(usize),
}

/// With more pairs of lines than this, the whole middle counts as replaced.
const PAIRS: usize = 1 << 20;

/// The rows of two lists, with `context` equal lines around each difference.
pub(super) fn rows<'a>(
    old: &'a [String],
    new: &'a [String],
    context: usize,
) -> Vec<ComparisonRow<'a>> {
    let before = old.iter().zip(new).take_while(|(a, b)| a == b).count();
    let mut rows: Vec<_> = old[..before]
        .iter()
        .map(|line| ComparisonRow::Same(line))
        .collect();
    let (mut old, mut new) = (&old[before..], &new[before..]);
    for (i, j) in longest_common(old, new) {
        // The indexes are of the lists that are left after the pairs before.
        changed(&old[..i], &new[..j], &mut rows);
        rows.push(ComparisonRow::Same(&old[i]));
        (old, new) = (&old[i + 1..], &new[j + 1..]);
    }
    changed(old, new, &mut rows);
    shorten(rows, context)
}

/// The pairs of a longest common subsequence. Each has the numbers of lines on both sides since the
/// pair before it.
fn longest_common(old: &[String], new: &[String]) -> Vec<(usize, usize)> {
    let mut pairs = Vec::new();
    if old.len().saturating_mul(new.len()) > PAIRS {
        return pairs;
    }
    // The lengths for the rests of both lists.
    let width = new.len() + 1;
    let mut longest = vec![0_u32; (old.len() + 1) * width];
    for i in (0..old.len()).rev() {
        for j in (0..new.len()).rev() {
            longest[i * width + j] = match old[i] == new[j] {
                true => longest[(i + 1) * width + j + 1] + 1,
                false => longest[(i + 1) * width + j].max(longest[i * width + j + 1]),
            };
        }
    }
    let (mut i, mut j, mut from) = (0, 0, (0, 0));
    while i < old.len() && j < new.len() {
        if old[i] == new[j] {
            pairs.push((i - from.0, j - from.1));
            (i, j) = (i + 1, j + 1);
            from = (i, j);
        } else if longest[(i + 1) * width + j] >= longest[i * width + j + 1] {
            i += 1;
        } else {
            j += 1;
        }
    }
    pairs
}

fn changed<'a>(old: &'a [String], new: &'a [String], rows: &mut Vec<ComparisonRow<'a>>) {
    for index in 0..old.len().max(new.len()) {
        let line = |side: &'a [String]| side.get(index).map(String::as_str);
        rows.push(ComparisonRow::Changed(line(old), line(new)));
    }
}

/// Leaves out equal lines that are far from every difference; a single one is shown.
fn shorten(rows: Vec<ComparisonRow<'_>>, context: usize) -> Vec<ComparisonRow<'_>> {
    let mut near = vec![false; rows.len()];
    for (index, row) in rows.iter().enumerate() {
        if matches!(row, ComparisonRow::Changed(..)) {
            let end = rows.len().min(index + context + 1);
            near[index.saturating_sub(context)..end].fill(true);
        }
    }
    let mut out = Vec::new();
    let mut index = 0;
    while index < rows.len() {
        let far = near[index..].iter().take_while(|near| !**near).count();
        match far {
            0 | 1 => out.push(rows[index]),
            far => out.push(ComparisonRow::Skipped(far)),
        }
        index += far.max(1);
    }
    out
}

/// The byte ranges in which two lines differ.
pub(super) fn marks(old: &str, new: &str) -> (std::ops::Range<usize>, std::ops::Range<usize>) {
    let pairs = || old.chars().zip(new.chars());
    let start: usize = pairs()
        .take_while(|(a, b)| a == b)
        .map(|(a, _)| a.len_utf8())
        .sum();
    let (old_rest, new_rest) = (&old[start..], &new[start..]);
    let end: usize = old_rest
        .chars()
        .rev()
        .zip(new_rest.chars().rev())
        .take_while(|(a, b)| a == b)
        .map(|(a, _)| a.len_utf8())
        .sum();
    (start..old.len() - end, start..new.len() - end)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn list(text: &str) -> Vec<String> {
        text.split_whitespace().map(str::to_owned).collect()
    }

    #[test]
    fn rows_pair_up() {
        use ComparisonRow::*;
        let (old, new) = (list("a b c d e"), list("a x c e f"));
        assert_eq!(
            rows(&old, &new, 9),
            [
                Same("a"),
                Changed(Some("b"), Some("x")),
                Same("c"),
                Changed(Some("d"), None),
                Same("e"),
                Changed(None, Some("f"))
            ]
        );
        assert_eq!(rows(&old, &old, 1), [Skipped(5)]);
        assert_eq!(rows(&[], &new[..1], 1), [Changed(None, Some("a"))]);
        let long = list("1 2 3 4 5 6 7 8 9 x");
        let other = list("1 2 3 4 5 6 7 8 9 y");
        assert_eq!(
            rows(&long, &other, 1),
            [Skipped(8), Same("9"), Changed(Some("x"), Some("y"))]
        );
    }

    #[test]
    fn both_sides_are_whole() {
        let mut random = fastrand::Rng::with_seed(7);
        for _ in 0..300 {
            let mut some = || -> Vec<String> {
                let count = random.usize(..12);
                (0..count).map(|_| random.u8(..4).to_string()).collect()
            };
            let (old, new) = (some(), some());
            let rows = rows(&old, &new, 99);
            let side = |pick: fn(&ComparisonRow<'_>) -> Option<String>| -> Vec<String> {
                rows.iter().filter_map(pick).collect()
            };
            let left = side(|row| match row {
                ComparisonRow::Same(line) | ComparisonRow::Changed(Some(line), _) => {
                    Some((*line).to_owned())
                }
                _ => None,
            });
            let right = side(|row| match row {
                ComparisonRow::Same(line) | ComparisonRow::Changed(_, Some(line)) => {
                    Some((*line).to_owned())
                }
                _ => None,
            });
            assert_eq!((left, right), (old, new));
        }
    }

    #[test]
    fn marks_find_the_middle() {
        for (old, new, left, right) in [
            ("abcd", "abxd", "c", "x"),
            ("aa", "a", "a", ""),
            ("äb", "ä", "b", ""),
            ("", "x", "", "x"),
            ("same", "same", "", ""),
        ] {
            let (a, b) = marks(old, new);
            assert_eq!((&old[a], &new[b]), (left, right), "{old} {new}");
        }
    }
}

//! The problems that linters find in a file, and those of them that an edit has added.

/// A problem that a linter has found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LintProblem {
    /// The line, counted from 1.
    pub line: usize,
    /// The column, counted from 1; 0 if it is not known.
    pub column: usize,
    /// The message, after the linter's code.
    pub text: String,
}

/// The lines that an edit replaces: `start..end`, counted from 0, by `new` lines.
#[derive(Clone, Copy, Debug)]
pub struct EditSpan {
    pub start: usize,
    pub end: usize,
    pub new: usize,
}

/// The problems of `after` that are not in `before`. Without a span (an edit in several places)
/// their lines are not compared.
pub fn brought_in(
    before: &[LintProblem],
    after: &[LintProblem],
    span: Option<EditSpan>,
) -> Vec<LintProblem> {
    let Some(EditSpan { start, end, new }) = span else {
        let mut known: Vec<&str> = before.iter().map(|problem| problem.text.as_str()).collect();
        let fresh = after.iter().filter(|problem| {
            let place = known.iter().position(|text| *text == problem.text);
            place.map(|place| known.swap_remove(place)).is_none()
        });
        return fresh.cloned().collect();
    };
    // Problems below the replaced lines have moved. A problem in the replaced lines that is found
    // again counts as the edit's.
    let moved: Vec<LintProblem> = before
        .iter()
        .filter(|problem| problem.line <= start || problem.line > end)
        .map(|problem| LintProblem {
            line: match problem.line > end {
                true => problem.line + new - (end - start),
                false => problem.line,
            },
            ..problem.clone()
        })
        .collect();
    // A problem above the edit was hidden by another one before, if `before` has any.
    let above = |line: usize| !before.is_empty() && line <= start;
    let fresh = after
        .iter()
        .filter(|problem| !moved.contains(problem) && !above(problem.line));
    fresh.cloned().collect()
}

/// Reads lines `PATH:LINE:COLUMN: TEXT`, which flake8 and others print; other lines are skipped.
pub fn read_colons(output: &str, path: &str) -> Vec<LintProblem> {
    output
        .lines()
        .filter_map(|line| colons(line.trim(), path))
        .collect()
}

fn colons(line: &str, path: &str) -> Option<LintProblem> {
    let rest = match line.strip_prefix(path) {
        Some(rest) => rest.strip_prefix(':')?,
        // The linter writes the path in another form, which ends where the numbers begin.
        None => {
            let mut ends = line.match_indices(':').map(|(index, _)| &line[index + 1..]);
            ends.find(|rest| rest.starts_with(|c: char| c.is_ascii_digit()))?
        }
    };
    let (number, mut rest) = rest.split_once(':')?;
    let line = number.trim().parse().ok()?;
    let mut column = 0;
    if let Some((number, after)) = rest.split_once(':')
        && let Ok(number) = number.trim().parse()
    {
        column = number;
        rest = after;
    }
    let text = rest.trim().to_owned();
    (!text.is_empty()).then_some(LintProblem { line, column, text })
}

#[cfg(test)]
mod tests {
    use super::{EditSpan, LintProblem, brought_in, read_colons};

    fn problem(line: usize, column: usize, text: &str) -> LintProblem {
        let text = text.to_owned();
        LintProblem { line, column, text }
    }

    #[test]
    fn only_what_an_edit_brings_in_counts() {
        let at = |line| vec![problem(line, 41, "e")];
        let span = |start, end, new| Some(EditSpan { start, end, new });
        for (name, before, after, span, fresh) in [
            ("above the edit", at(12), at(12), span(49, 51, 10), vec![]),
            ("moved by it", at(13), at(12), span(0, 2, 1), vec![]),
            ("in it", at(13), at(12), span(11, 13, 10), at(12)),
            ("hidden before", at(60), at(12), span(49, 51, 2), vec![]),
            (
                "above, of a file without problems",
                vec![],
                at(12),
                span(49, 51, 2),
                at(12),
            ),
            ("several places", at(13), at(12), None, vec![]),
            (
                "one more of several places",
                at(13),
                vec![problem(1, 1, "e"), problem(2, 1, "e")],
                None,
                vec![problem(2, 1, "e")],
            ),
            ("an insertion", at(3), at(5), span(2, 2, 2), vec![]),
        ] {
            assert_eq!(brought_in(&before, &after, span), fresh, "{name}");
        }
    }

    #[test]
    fn lines_of_linters_are_read() {
        for (line, path, read) in [
            (
                "/a b/c.py:12:41: F821 undefined name 'x'",
                "/a b/c.py",
                problem(12, 41, "F821 undefined name 'x'"),
            ),
            (
                "x.py:3: undefined name 'y'",
                "x.py",
                problem(3, 0, "undefined name 'y'"),
            ),
            ("./x.py:3:7 : E1: b", "/t/x.py", problem(3, 7, "E1: b")),
            ("/t/a:b.py:3:7: E1", "/t/a:b.py", problem(3, 7, "E1")),
        ] {
            assert_eq!(read_colons(line, path), [read], "{line}");
        }
        assert!(read_colons("All is well\n\n: :\nx.py:y: z\n", "x.py").is_empty());
    }
}

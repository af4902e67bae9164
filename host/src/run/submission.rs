//! The done marker: how a command's output ends a run (mini-swe-agent's rule).

use crate::roles::Output;
use crate::template::splitlines;

/// What the first line of the output has to be.
pub const MARK: &str = "COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT";

/// What this output submits, if it does: return code 0, and the first line (both the text's
/// start and the line stripped, blanks and line ends as Python's) is [`MARK`]. The rest of
/// the output is the submission, unchanged.
pub fn submission(output: &Output) -> Option<String> {
    if output.returncode != 0 || !output.output.contains(MARK) {
        return None;
    }
    let text = output.output.trim_start_matches(is_space);
    let lines = splitlines(text, true);
    let (first, rest) = lines.split_first()?;
    (first.trim_matches(is_space) == MARK).then(|| rest.concat())
}

/// Python's white space: Unicode's, and U+001C to U+001F.
fn is_space(c: char) -> bool {
    c.is_whitespace() || ('\u{1c}'..='\u{1f}').contains(&c)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn vectors() {
        let submits = [
            ("MARK", ""),
            ("MARK\nabc", "abc"),
            ("\n\n  MARK  \nabc\n", "abc\n"),
            ("MARK\n\n\n", "\n\n"),
            ("MARK\rab", "ab"),
            ("MARK\u{b}ab", "ab"),
            ("MARK\u{1c}ab", "ab"),
            ("MARK\u{85}ab", "ab"),
            ("MARK\u{2028}ab", "ab"),
            ("MARK\u{a0}\nab", "ab"),
            ("\u{3000}\u{1c}MARK\nab", "ab"),
        ];
        for (text, expected) in submits {
            let output = Output {
                output: text.replace("MARK", MARK),
                ..Output::default()
            };
            assert_eq!(submission(&output).as_deref(), Some(expected), "{text:?}");
        }
        let not = [
            "MARK x",
            "x\nMARK",
            "'MARK'",
            "mark",
            "MARK\u{1f}ab",
            "\u{feff}MARK",
            "\u{200b}MARK",
            "MARK\0\nab",
            "",
        ];
        for text in not {
            let output = Output {
                output: text.replace("MARK", MARK),
                ..Output::default()
            };
            assert_eq!(submission(&output), None, "{text:?}");
        }
        for returncode in [1, -1] {
            let output = Output {
                output: MARK.into(),
                returncode,
                ..Output::default()
            };
            assert_eq!(submission(&output), None);
        }
    }
}

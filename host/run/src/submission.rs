//! The submissions that end a run: by a tool of the model, or by the mark in a command's output
//! (mini-swe-agent's rule).

use serde_json::Value;

use mswea_core::{MARK, Output, PROGRAM_ANSWER, SUBMISSION};
use mswea_python::splitlines;

/// The submission of an output, if it submits: the text that a tool has submitted, as the executor
/// reports it; or, if the return code is 0 and the first line is [`MARK`] (leading blank lines and
/// blanks around the mark are ignored; blanks and line ends are those of Python), the rest of the
/// output, unchanged.
pub fn submission(output: &Output) -> Option<String> {
    if let Some(Value::String(text)) = output.extra.get(SUBMISSION) {
        return Some(text.clone());
    }
    let is_answer = output.extra.contains_key(PROGRAM_ANSWER);
    if output.returncode != 0 || is_answer || !output.output.contains(MARK) {
        return None;
    }
    let text = output.output.trim_start_matches(is_space);
    let lines = splitlines(text, true);
    let (first, rest) = lines.split_first()?;
    (first.trim_matches(is_space) == MARK).then(|| rest.concat())
}

/// Refuses a submission that was cut, because a part of a patch is useless; the model gets the
/// reason and can submit again. Other outputs are returned unchanged.
pub fn refuse_cut(output: Output) -> Output {
    let elided = output.extra.get("elided_bytes").and_then(Value::as_u64);
    let Some(elided) = elided.filter(|elided| *elided > 0) else {
        return output;
    };
    if submission(&output).is_none() {
        return output;
    }
    let why = format!(
        "the submission was too large: {elided} bytes of it were dropped, so it was not accepted; submit less (leave out generated files, binaries and logs)"
    );
    let mut extra = output.extra;
    extra.insert("exception_type".into(), "SubmissionTooLarge".into());
    extra.insert("exception".into(), why.as_str().into());
    Output {
        extra,
        ..Output::not_executed(&why)
    }
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

    #[test]
    fn what_was_cut_is_not_accepted() {
        let output = |text: &str, elided: u64| {
            let mut output = Output {
                output: text.to_owned(),
                ..Output::default()
            };
            if elided > 0 {
                output.extra.insert("elided_bytes".into(), elided.into());
            }
            output
        };
        let submits = format!("{MARK}\npatch\n");
        for same in [
            output(&submits, 0),
            output("x\n", 7),
            Output {
                returncode: 1,
                ..output(&submits, 7)
            },
        ] {
            assert_eq!(refuse_cut(same.clone()), same);
        }
        let refused = refuse_cut(output(&submits, 7));
        assert_eq!(submission(&refused), None);
        assert!(
            refused
                .exception_info
                .contains(" 7 bytes of it were dropped")
        );
        assert_eq!((refused.output.as_str(), refused.returncode), ("", -1));
        assert_eq!(refused.extra["elided_bytes"], 7);
    }
}

//! How the end of a run is told: the submission as data, the status as a word.

use std::borrow::Cow;

use super::Look;
use super::look::Colour;
use super::safe::{harmless, one_line};
use crate::cli::exit::ExitCode;

/// The submission as it goes to stdout. A pipe or a file gets it as it is, but for a newline
/// at the end where it is missing (a patch without it does not apply); a terminal gets it
/// without escape sequences.
pub(super) fn submission_text(submission: &str, look: Look) -> Cow<'_, str> {
    let text = if look.stdout_terminal {
        Cow::Owned(harmless(submission))
    } else {
        Cow::Borrowed(submission)
    };
    if text.is_empty() || text.ends_with('\n') {
        text
    } else {
        Cow::Owned(format!("{text}\n"))
    }
}

/// The exit status, coloured by what it means.
pub(super) fn verdict(exit_status: &str, look: Look) -> String {
    let colour = match ExitCode::from_exit_status(exit_status) {
        ExitCode::Submitted => Colour::Green,
        ExitCode::Limit | ExitCode::Interrupted => Colour::Yellow,
        _ => Colour::Red,
    };
    let status = one_line(exit_status);
    if status.is_empty() {
        return look.paint(colour, "ended without a status");
    }
    look.paint(colour, &status)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn submissions() {
        let file = Look::default();
        let terminal = Look {
            stdout_terminal: true,
            ..file
        };
        let vectors = [
            (file, "", ""),
            (file, "a\n", "a\n"),
            (file, "a", "a\n"),
            (file, "\x1b[1m\r\n", "\x1b[1m\r\n"),
            (terminal, "", ""),
            (terminal, "+\x1b[1mx\t", "+x\t\n"),
        ];
        for (look, submission, expected) in vectors {
            assert_eq!(submission_text(submission, look), expected);
        }
    }

    #[test]
    fn verdicts_are_words_whatever_the_colour() {
        let coloured = Look {
            colour: true,
            ..Look::default()
        };
        let vectors = [
            ("Submitted", "\x1b[32mSubmitted\x1b[0m"),
            ("LimitsExceeded", "\x1b[33mLimitsExceeded\x1b[0m"),
            ("ProviderError", "\x1b[31mProviderError\x1b[0m"),
            ("", "\x1b[31mended without a status\x1b[0m"),
        ];
        for (status, expected) in vectors {
            assert_eq!(verdict(status, coloured), expected);
        }
        assert_eq!(verdict("Submitted", Look::default()), "Submitted");
    }
}

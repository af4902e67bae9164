//! The end of a run on stdout and stderr: the submission as data, the exit status as text.

use std::borrow::Cow;

use super::Look;
use super::look::Colour;
use crate::cli::exit::ExitCode;
use mswea_core::End;
use mswea_text::harmless;

/// The submission as it is written to stdout. A pipe or a file gets it unchanged, with a newline at
/// the end if it has none, because a patch without it can't be applied. A terminal gets it without
/// escape sequences.
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

/// The exit status, in a colour for its meaning.
pub(super) fn verdict(end: &End, exit_status: &str, look: Look) -> String {
    let colour = match ExitCode::from(end) {
        ExitCode::Submitted => Colour::Green,
        ExitCode::Limit | ExitCode::Interrupted => Colour::Yellow,
        _ => Colour::Red,
    };
    look.paint(colour, exit_status)
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
            (End::Submitted, "\x1b[32mSubmitted\x1b[0m"),
            (End::LimitsExceeded, "\x1b[33mLimitsExceeded\x1b[0m"),
            (
                End::Plugin {
                    message: String::new(),
                },
                "\x1b[31mPluginError\x1b[0m",
            ),
        ];
        for (end, expected) in vectors {
            assert_eq!(verdict(&end, end.exit_status(), coloured), expected);
        }
        assert_eq!(
            verdict(&End::Submitted, "Submitted", Look::default()),
            "Submitted"
        );
    }
}

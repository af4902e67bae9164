//! The commands that a user can type in place of an answer or a message.

use mswea_core::PersonMode;

/// A command that can be typed at every prompt, and while the agent works.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum SlashCommand {
    Mode(PersonMode),
    Multiline,
    Help,
    Status,
    Diff,
    /// Undoes the changes of the last commands in files.
    Undo,
    /// Continues in a new run.
    Fork,
    /// Shows an output in full, by its number.
    Expand(Option<usize>),
    Quit,
    /// Continues with another model.
    Model(String),
    /// For a question about commands: always allows them, in this run or in all runs.
    Always {
        is_kept: bool,
    },
    /// Edits a command here, or in the user's editor.
    Edit {
        which: usize,
        outside: bool,
    },
    /// An unknown word after a `/`.
    Unknown(String),
}

impl SlashCommand {
    /// The command in a line; none if it is a text.
    pub fn of(line: &str) -> Option<Self> {
        let line = line.trim();
        let (name, rest) = line
            .strip_prefix('/')?
            .split_once(' ')
            .unwrap_or((&line[1..], ""));
        if name == "model" {
            return Some(Self::Model(rest.trim().to_owned()));
        }
        let number = || rest.trim().parse().ok();
        if !rest.is_empty() && number().is_none() {
            return None;
        }
        Some(match name {
            "y" | "yolo" => Self::Mode(PersonMode::Yolo),
            "c" | "confirm" => Self::Mode(PersonMode::Confirm),
            "u" | "human" => Self::Mode(PersonMode::Human),
            "m" => Self::Multiline,
            "h" | "help" => Self::Help,
            "status" => Self::Status,
            "diff" => Self::Diff,
            "undo" => Self::Undo,
            "fork" => Self::Fork,
            "expand" => Self::Expand(number()),
            "quit" | "q" => Self::Quit,
            "a" | "always" => Self::Always { is_kept: false },
            "p" | "permanently" => Self::Always { is_kept: true },
            "e" | "edit" => Self::Edit {
                which: number().unwrap_or(1),
                outside: false,
            },
            "editor" => Self::Edit {
                which: number().unwrap_or(1),
                outside: true,
            },
            // A path is not a command.
            name if !name.is_empty() && name.chars().all(|c| c.is_ascii_lowercase()) => {
                Self::Unknown(name.to_owned())
            }
            _ => return None,
        })
    }
}

/// The output of `/h`.
pub(super) const HELP: &str = "\
/y  run all commands without asking (yolo)
/c  ask before each step (confirm)
/u  give the commands yourself (human)
/m  enter several lines
/a  in this run, always run commands that begin like this; /p  in all runs
/e [N]  edit a command; /editor [N]  in $EDITOR
/status  what the run has used
/diff  the changes in the working folder; /undo  takes back those of the last step
/expand [N]  a shortened output in full
/model PREFIX/NAME  go on with another model; /fork  in a new run
/quit  end the run; `resume` goes on
A text at a question rejects the commands, and tells the model why.
A text while the agent works reaches the model before its next step.
Ctrl-C interrupts what runs, and asks; a second one ends the run.";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn vectors() {
        let mode = |mode| Some(SlashCommand::Mode(mode));
        let edit = |which, outside| Some(SlashCommand::Edit { which, outside });
        for (line, expected) in [
            ("/y", mode(PersonMode::Yolo)),
            (" /c ", mode(PersonMode::Confirm)),
            ("/u", mode(PersonMode::Human)),
            ("/m", Some(SlashCommand::Multiline)),
            ("/h", Some(SlashCommand::Help)),
            ("/undo", Some(SlashCommand::Undo)),
            ("/p", Some(SlashCommand::Always { is_kept: true })),
            ("/expand", Some(SlashCommand::Expand(None))),
            ("/expand 3", Some(SlashCommand::Expand(Some(3)))),
            ("/e 2", edit(2, false)),
            ("/editor", edit(1, true)),
            ("/model a/b", Some(SlashCommand::Model("a/b".into()))),
            ("/statsu", Some(SlashCommand::Unknown("statsu".into()))),
            ("/usr/bin/ls", None),
            ("/y es", None),
            ("y", None),
            ("", None),
            ("/", None),
        ] {
            assert_eq!(SlashCommand::of(line), expected, "{line:?}");
        }
    }
}

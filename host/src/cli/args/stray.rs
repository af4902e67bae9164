//! Messages about words on the command line that are no command: a task without `-t`, or a command
//! of mini-swe-agent.

use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{CommandFactory, Error};

use super::{Cli, PROGRAM};

/// The replacement for a command of mini-swe-agent.
fn in_place_of(word: &str) -> Option<&'static str> {
    match word {
        "programbench" => Some(
            "ProgramBench is not part of this version; instances of a file are run with its \
             preset: mswea-host batch run DIR --instances FILE -c programbench",
        ),
        "mini" | "mini-extra" | "mswea-host" | "run" => {
            Some("a run needs no command, only its flags: mswea-host -m MODEL -t TASK")
        }
        _ => None,
    }
}

/// The message for a command line that clap has refused because of a word that should be a command;
/// none if clap's own message is better. `arguments` are without the program's name.
pub fn advice(error: &Error, arguments: &[String]) -> Option<String> {
    let context = match error.kind() {
        // clap reports such a word after a flag as `ArgumentConflict`.
        ErrorKind::InvalidSubcommand | ErrorKind::ArgumentConflict => {
            ContextKind::InvalidSubcommand
        }
        _ => return None,
    };
    let Some(ContextValue::String(stray)) = error.get(context) else {
        return None;
    };
    let place = arguments.iter().position(|argument| argument == stray)?;
    let (before, from) = arguments.split_at(place);
    let root = Cli::command();
    if before.last().is_some_and(|word| word == "config")
        && ["set", "unset", "edit", "setup"].contains(&stray.as_str())
    {
        return Some(format!(
            "`config {stray}` is not a command\nhint: `{PROGRAM} setup` keeps a key and a model in the `.env` that \
             mini-swe-agent has, too; settings stand in a file that `-c FILE` names, and `{PROGRAM} config schema` lists them"
        ));
    }
    if before
        .iter()
        .any(|word| root.find_subcommand(word).is_some())
    {
        // `plugin lsit`: the word is in a place where no task can be.
        return None;
    }
    let count = from
        .iter()
        .take_while(|word| !word.starts_with('-'))
        .count();
    let (words, after) = from.split_at(count);
    // `-c FILE config show`; three words and more are rather a task.
    if count < 3 && root.find_subcommand(stray).is_some() {
        let line: Vec<String> = [words, before, after]
            .concat()
            .iter()
            .map(|word| quoted(word))
            .collect();
        return Some(format!(
            "the command `{stray}` comes after flags\nhint: a command comes first: {PROGRAM} {}",
            line.join(" ")
        ));
    }
    // `dmeo`: one word that is nearly a command is no task.
    let is_typo = count == 1
        && !stray.contains(char::is_whitespace)
        && error.get(ContextKind::SuggestedSubcommand).is_some();
    let task = words.join(" ");
    let hint = match in_place_of(stray) {
        // `mini is slow, fix it` is a task.
        Some(hint) if count < 3 => hint.to_owned(),
        _ if is_typo => return None,
        _ => {
            let line = before.iter().map(|word| quoted(word));
            let line = line.chain(["-t".to_owned(), quoted(&task)]);
            let line: Vec<String> = line.chain(after.iter().map(|word| quoted(word))).collect();
            format!("a task is given with `-t`: {PROGRAM} {}", line.join(" "))
        }
    };
    let said = if count < 3 { stray } else { &task };
    Some(format!("`{said}` is not a command\nhint: {hint}"))
}

/// A word, quoted for a shell.
fn quoted(word: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "-_./:=,@%+".contains(c);
    if !word.is_empty() && word.chars().all(is_plain) {
        return word.to_owned();
    }
    format!("'{}'", word.replace('\'', r"'\''"))
}

#[cfg(test)]
mod tests {
    use clap::Parser as _;

    use super::*;

    fn told(line: &[&str]) -> Option<String> {
        let arguments: Vec<String> = line.iter().map(|&word| word.to_owned()).collect();
        let typed = std::iter::once(PROGRAM).chain(line.iter().copied());
        let error = Cli::try_parse_from(typed).expect_err("must be refused");
        advice(&error, &arguments)
    }

    #[test]
    fn a_task_without_its_flag() {
        for (line, expected) in [
            (
                &["fix", "the", "failing", "test"][..],
                "`fix the failing test` is not a command\nhint: a task is given with `-t`: \
                 mswea-host -t 'fix the failing test'",
            ),
            (
                &["-m", "openai/gpt-5", "don't", "stop", "--json"],
                "`don't` is not a command\nhint: a task is given with `-t`: mswea-host -m \
                 openai/gpt-5 -t 'don'\\''t stop' --json",
            ),
            (
                &["fix it"],
                "`fix it` is not a command\nhint: a task is given with `-t`: mswea-host -t 'fix it'",
            ),
        ] {
            assert_eq!(told(line).as_deref(), Some(expected), "{line:?}");
        }
    }

    #[test]
    fn a_command_behind_flags() {
        let line = ["-c", "./project.toml", "config", "show", "--origin"];
        let expected = "the command `config` comes after flags\nhint: a command comes first: \
                        mswea-host config show -c ./project.toml --origin";
        assert_eq!(told(&line).as_deref(), Some(expected));
    }

    #[test]
    fn commands_of_mini_swe_agent() {
        for (line, part) in [
            (&["programbench"][..], "batch run DIR --instances FILE"),
            (&["config", "set", "KEY", "x"], "mswea-host setup"),
            (&["config", "edit"], "mswea-host setup"),
            (&["mini", "-t", "x"], "mswea-host -m MODEL -t TASK"),
            (&["mini", "is", "slow"], "-t 'mini is slow'"),
        ] {
            let told = told(line).unwrap_or_default();
            assert!(told.contains(part), "{line:?}: {told}");
        }
    }

    #[test]
    fn typing_errors_are_left_to_clap() {
        for line in [
            &["dmeo"][..],
            &["plugin", "lsit"],
            &["--modle", "x"],
            &["-m"],
        ] {
            assert_eq!(told(line), None, "{line:?}");
        }
    }
}

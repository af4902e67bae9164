//! What the executors with one shell for all commands share: the choice of the bash, and the
//! messages about the shell for the model.

use mswea_core::{ExecutorError, Output};
use serde_json::Value;

use crate::failure::ActionFailure;

/// The message for the model that the shell of an earlier process of the run is gone.
pub(super) const BEGUN: &str = "a new shell was begun with this command: the directory is the first one \
                                again, and variables, functions and background jobs of the shell before \
                                are gone";

/// The bash that the interpreter names; none: the one in `PATH`.
///
/// # Errors
/// A message if it names a program that is neither `bash` nor `sh`.
pub(super) fn bash_of(interpreter: &[String]) -> Result<Option<&str>, ActionFailure> {
    let name = interpreter.first().map_or("bash", String::as_str);
    match name.rsplit('/').next() {
        Some("bash") => Ok(Some(name)),
        Some("sh") => Ok(None),
        _ => Err(ActionFailure::value(&format!(
            "`environment.session` needs bash, and `environment.interpreter` names `{name}`: leave out one of them"
        ))),
    }
}

/// Checks that the shell was opened by a first, empty command with this output.
///
/// # Errors
/// [`ExecutorError`] with the reason if the shell was not opened.
pub(super) fn is_open(opened: &Output) -> Result<(), ExecutorError> {
    match opened.extra.get("exception").and_then(Value::as_str) {
        None => Ok(()),
        Some(why) => Err(format!("the shell of all actions can't be opened: {why}").into()),
    }
}

/// The failure if the shell's program is missing; `text` is the helper's message.
pub(super) fn no_bash(text: &str) -> ActionFailure {
    ActionFailure::environment(
        "FileNotFoundError",
        format!(
            "{text}: `environment.session` needs bash; install it or use an image that has it, or set `environment.session` to false"
        ),
    )
}

/// Whether the interpreter's options ask for a login shell.
pub(super) fn is_login(interpreter: &[String]) -> bool {
    interpreter.iter().skip(1).any(|word| {
        let is_short = word.starts_with('-') && !word.starts_with("--");
        word == "--login" || is_short && word.contains('l')
    })
}

/// The output with one line for each note at its end.
pub(super) fn with_notes(mut text: String, notes: impl IntoIterator<Item = String>) -> String {
    for note in notes {
        if !text.is_empty() && !text.ends_with('\n') {
            text.push('\n');
        }
        text.push_str(&format!("[{note}]\n"));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn interpreters_tell_the_bash_and_whether_it_is_a_login_shell() {
        for (interpreter, bash, login) in [
            (&["bash", "-c"][..], Some(Some("bash")), false),
            (&["bash", "-lc"], Some(Some("bash")), true),
            (
                &["/opt/bin/bash", "-l", "-c"],
                Some(Some("/opt/bin/bash")),
                true,
            ),
            (&["bash", "--login", "-c"], Some(Some("bash")), true),
            (&["bash", "--posix", "-c"], Some(Some("bash")), false),
            (&["/bin/sh", "-c"], Some(None), false),
            (&[], Some(Some("bash")), false),
            (&["zsh", "-lc"], None, true),
        ] {
            let words: Vec<String> = interpreter.iter().map(|&word| word.to_owned()).collect();
            assert_eq!(bash_of(&words).ok(), bash, "{interpreter:?}");
            assert_eq!(is_login(&words), login, "{interpreter:?}");
        }
    }
}

//! Messages for a failed set-up: the cause, the config key to change, and the end of the output.

use std::time::Duration;

use super::settings::WorkspaceSettings;
use super::source::RepositorySource;
use mswea_core::Output;

/// How many bytes of a command are shown in progress and messages.
const SHOWN: usize = 200;

/// How many bytes of a failed command's output the message contains, from its end.
const TAIL: usize = 2048;

/// The kind of failure that kept a command from ending by itself.
pub(super) fn exception(output: &Output) -> Option<&str> {
    if output.exception_info.is_empty() {
        return None;
    }
    let kind = output.extra.get("exception_type");
    Some(kind.and_then(|kind| kind.as_str()).unwrap_or("Exception"))
}

/// The beginning of a command, on one line.
pub(super) fn beginning(command: &str) -> String {
    let words: Vec<&str> = command.split_whitespace().collect();
    let line = words.join(" ");
    match line.char_indices().nth(SHOWN) {
        Some((at, _)) => format!("{}...", &line[..at]),
        None => line,
    }
}

/// Why a start-up command from `key` failed.
pub(super) fn of_command(
    key: &str,
    shown: &str,
    limit: Duration,
    output: &Output,
    redact: &dyn Fn(&str) -> String,
) -> String {
    let printed = last_lines(&redact(&output.output));
    let silent = if printed.is_empty() {
        "; it printed nothing"
    } else {
        ""
    };
    let what = format!("start-up command `{shown}` (`{key}`)");
    match exception(output) {
        None => format!(
            "{what} failed with exit code {}: correct the command or its environment{silent}{printed}",
            output.returncode
        ),
        Some("TimeoutExpired") => format!(
            "{what} did not end within {} seconds: raise `workspace.startup_timeout`, or correct the command{silent}{printed}",
            limit.as_secs_f64()
        ),
        Some("Interrupted") => format!("stopped during the {what}"),
        Some(_) => format!(
            "{what} could not be run: {}: correct the command or its environment{printed}",
            cause(output, redact)
        ),
    }
}

/// Why a script of the set-up of `what` did not end by itself; without the exception's text, which
/// contains the whole script.
pub(super) fn of_script(
    what: &str,
    limit: Duration,
    output: &Output,
    printed: &str,
    redact: &dyn Fn(&str) -> String,
) -> String {
    let printed = last_lines(printed);
    match exception(output) {
        Some("TimeoutExpired") => format!(
            "setting up `{what}` did not end within {} seconds: raise \
             `workspace.startup_timeout`, or check the network of the environment{printed}",
            limit.as_secs_f64(),
        ),
        Some("Interrupted") => format!("stopped while setting up `{what}`"),
        _ => format!(
            "`{what}` can't be set up: {}{printed}",
            cause(output, redact)
        ),
    }
}

/// Why a script of the set-up gave up, with the `reason` that it printed.
pub(super) fn of_step(
    reason: &str,
    settings: &WorkspaceSettings,
    source: Option<&RepositorySource>,
    printed: &str,
) -> String {
    let path = &settings.repo_path;
    let repo = source.map_or_else(|| path.clone(), RepositorySource::shown);
    let commit = settings.base_commit.as_deref().unwrap_or("HEAD");
    let cause = match reason {
        "no-git" => format!(
            "git is missing in the environment, and `{repo}` can't be set up without it: install \
             it there (take an image that has it), or name a folder of this machine as \
             `workspace.repo`"
        ),
        "folder" => format!(
            "the folder `{path}` can't be made or written in the environment: set `workspace.path` to another folder"
        ),
        "occupied" if matches!(source, Some(RepositorySource::Folder(_))) => format!(
            "the folder `{path}` is not empty, and a copy would be mixed with its files: set \
             `workspace.path` to another, or leave out `workspace.repo` to work in it as it is"
        ),
        "occupied" => format!(
            "the folder `{path}` is not empty, and a repository is not cloned over its files: set \
             `workspace.path` to another, or leave out `workspace.repo` (and set \
             `workspace.reset`) to work in it"
        ),
        "init" => format!("no repository can be made in `{path}`: see what git says"),
        "credentials" => format!(
            "the user that commands run as can't read the credentials for `{repo}` in `{path}`: \
             give that folder to this user, or leave the credentials out of `workspace.repo`"
        ),
        "fetch" => format!(
            "`{repo}` can't be cloned: check the address, the credentials and the network of the \
             environment"
        ),
        "no-commit" => format!(
            "there is no commit `{commit}` in `{repo}`: set `workspace.base_commit` to a commit, \
             tag or branch that is there"
        ),
        "checkout" => format!(
            "`{commit}` can't be checked out in `{path}`: if changes are in the way, set `workspace.reset` to discard them"
        ),
        "dirty" => {
            return format!(
                "`{path}` has changes that are not committed, which `workspace.reset` would discard, so nothing was done: commit or stash them, or set `workspace.path` to \
                 this folder if they can be discarded; they are:\n{}",
                printed.trim()
            );
        }
        "reset" => format!("`{path}` can't be reset: see what git says"),
        "no-repository" => format!(
            "`{path}` is not a git repository, so it has no `workspace.base_commit` and nothing for \
             `workspace.reset`: set `workspace.path` to a repository, or `workspace.repo` to clone one"
        ),
        _ => "the set-up of the repository did not work: it needs a POSIX shell as \
              `environment.interpreter`"
            .to_owned(),
    };
    format!("{cause}{}", last_lines(printed))
}

/// Why a command could not be run, in the executor's words.
fn cause(output: &Output, redact: &dyn Fn(&str) -> String) -> String {
    let words = output
        .extra
        .get("exception")
        .and_then(|words| words.as_str());
    redact(words.unwrap_or(&output.exception_info))
}

/// The last lines of an output, for a message; empty if there is none.
fn last_lines(text: &str) -> String {
    let text = text.trim();
    let start = text.ceil_char_boundary(text.len().saturating_sub(TAIL));
    match &text[start..] {
        "" => String::new(),
        tail if start > 0 => format!("; the end of its output:\n{tail}"),
        tail => format!("; its output:\n{tail}"),
    }
}

//! One action that a helper runs at its place: as a fresh process, or in its shell.

use std::time::Duration;

use mswea_core::{Command, ExecutorError, Output, Stop};
use mswea_helper::long;
use mswea_helper::protocol::{ActionInput, TerminalSize};

use crate::capture::{Capture, note_elided};
use crate::failure::ActionFailure;
use crate::helper::{HelperAction, HelperEnd, HelperError, HelperSession, ShellAction};
use crate::interactive::with_terminal;
use crate::shell::{bash_of, is_login, no_bash};

/// How long a background process may hold the output open after its command has exited, before the action
/// ends without it.
pub(super) const GRACE: Duration = Duration::from_millis(200);

/// An action that a helper will run.
pub(super) struct PlacedAction<'a> {
    pub(super) interpreter: &'a [String],
    pub(super) cwd: Option<&'a str>,
    pub(super) env: &'a [(String, String)],
    /// Whether the shell has a terminal.
    pub(super) pty: bool,
    pub(super) grace: Duration,
    pub(super) mark: &'a str,
    pub(super) command: &'a str,
    pub(super) timeout: Duration,
    pub(super) stop: &'a Stop,
}

/// How a helper's action ended.
pub(super) enum PlacedEnd {
    Exited(i32),
    Failed(ActionFailure),
    /// The working directory does not exist any more.
    FolderGone,
    /// The session with the helper ended before the action.
    Broken(HelperError),
}

impl PlacedAction<'_> {
    pub(super) fn argv(&self) -> Vec<String> {
        let mut argv = self.interpreter.to_vec();
        argv.push(self.command.to_owned());
        argv
    }

    /// Runs the action as a fresh process.
    pub(super) async fn in_session(
        &self,
        session: &mut HelperSession,
        capture: &mut Capture,
    ) -> PlacedEnd {
        let action = HelperAction {
            argv: &self.argv(),
            env: self.env,
            cwd: self.cwd,
            grace: self.grace,
            input: ActionInput::Empty,
        };
        let ended = session.run(&action, capture, self.timeout, self.stop).await;
        self.end(ended)
    }

    /// Runs the action in the shell of the helper. `notes` gets messages about the shell for the
    /// model.
    pub(super) async fn in_shell(
        &self,
        session: &mut HelperSession,
        capture: &mut Capture,
        notes: &mut Vec<String>,
    ) -> PlacedEnd {
        let bash = match bash_of(self.interpreter) {
            Ok(bash) => bash.unwrap_or("bash"),
            Err(failure) => return PlacedEnd::Failed(failure),
        };
        let action = ShellAction {
            bash,
            login: is_login(self.interpreter),
            env: &with_terminal(self.env.to_vec(), self.pty),
            cwd: self.cwd,
            grace: self.grace,
            mark: self.mark,
            command: self.command,
            terminal: self.pty.then(TerminalSize::default),
        };
        let asked = session.ask(&action, capture, self.timeout, self.stop).await;
        let ended = asked.map(|(end, told)| {
            notes.extend(told);
            end
        });
        match ended {
            Ok(HelperEnd::Failed { errno, text })
                if errno == libc::ENOENT && !is_no_folder(&text) =>
            {
                PlacedEnd::Failed(no_bash(&text))
            }
            ended => self.end(ended),
        }
    }

    fn end(&self, ended: Result<HelperEnd, HelperError>) -> PlacedEnd {
        match ended {
            Ok(HelperEnd::Exited(status)) => PlacedEnd::Exited(status),
            Ok(HelperEnd::TimedOut) => PlacedEnd::Failed(self.timed_out()),
            Ok(HelperEnd::Stopped) => PlacedEnd::Failed(ActionFailure::interrupted(self.command)),
            Ok(HelperEnd::Failed { text, .. }) if is_no_folder(&text) => PlacedEnd::FolderGone,
            Ok(HelperEnd::Failed { errno, text }) => {
                PlacedEnd::Failed(self.not_started(errno, &text))
            }
            Err(error) => PlacedEnd::Broken(error),
        }
    }

    pub(super) fn timed_out(&self) -> ActionFailure {
        ActionFailure::timed_out(self.command, self.timeout)
    }

    /// The failure of an action that the helper could not start.
    pub(super) fn not_started(&self, errno: i32, text: &str) -> ActionFailure {
        let error = std::io::Error::from_raw_os_error(errno);
        if errno == rustix::io::Errno::TOOBIG.raw_os_error() {
            let program = self.interpreter.first().map_or("", String::as_str);
            return ActionFailure::program(&error, program.as_ref(), self.command.len());
        }
        ActionFailure::told(&error, text)
    }
}

/// The time limit of a command; `usual` is the environment's default.
pub(super) fn limit_of(command: &Command<'_>, usual: Duration) -> Duration {
    let own = command.timeout.filter(|limit| !limit.is_zero());
    own.unwrap_or(usual)
}

/// Checks that an environment can be started with these settings.
///
/// # Errors
/// [`ExecutorError`] if a variable can't be passed to a process, or the interpreter can't be the
/// one shell.
pub(super) fn usable(
    env: &Result<Vec<(String, String)>, String>,
    is_session: bool,
    interpreter: &[String],
) -> Result<(), ExecutorError> {
    env.as_ref().map_err(Clone::clone)?;
    if is_session {
        bash_of(interpreter)?;
    }
    Ok(())
}

/// The output of a command that is not started, because the run is asked to stop or the environment
/// is gone.
pub(super) fn not_begun(
    command: &Command<'_>,
    why_gone: Option<&String>,
    stop: &Stop,
) -> Option<Output> {
    if stop.is_stopped() {
        return Some(ActionFailure::interrupted(command.text).output(String::new()));
    }
    why_gone.map(|why| ActionFailure::gone(why).output(String::new()))
}

/// The output of an action: the captured output, a line for each note, and how the action ended.
pub(super) fn output_of(
    capture: Capture,
    notes: impl IntoIterator<Item = String>,
    ended: Result<i32, ActionFailure>,
) -> Output {
    let captured = capture.finish_with(matches!(ended, Ok(0)), notes);
    let mut output = match ended {
        Ok(returncode) => Output {
            output: captured.text,
            returncode,
            ..Output::default()
        },
        Err(failure) => failure.output(captured.text),
    };
    note_elided(&mut output, captured.elided);
    output
}

/// Whether a command can be passed to the interpreter with these variables; `has_helper`: whether a helper
/// can pass one that is too long for an argument.
pub(super) fn check(
    env: &Result<Vec<(String, String)>, String>,
    interpreter: &[String],
    command: &str,
    has_helper: bool,
) -> Result<(), ActionFailure> {
    if let Err(why) = env {
        return Err(ActionFailure::value(why));
    }
    if command.contains('\0') {
        return Err(ActionFailure::null_byte());
    }
    if long::is_long(command.as_bytes()) && !(has_helper && long::takes_file(interpreter)) {
        let error = rustix::io::Errno::TOOBIG.into();
        let program = interpreter.first().map_or("", String::as_str);
        let length = command.len();
        return Err(ActionFailure::program(&error, program.as_ref(), length));
    }
    Ok(())
}

/// Whether a message about a process that was not started names its working directory.
pub(super) fn names_folder(refusal: &str) -> bool {
    let lower = refusal.to_ascii_lowercase();
    ["chdir", "workdir", "working directory"]
        .iter()
        .any(|words| lower.contains(words))
}

/// Whether a process was not started because its working directory does not exist.
pub(super) fn is_no_folder(refusal: &str) -> bool {
    let lower = refusal.to_ascii_lowercase();
    let missing = lower.contains("no such file") || lower.contains("not a directory");
    missing && names_folder(refusal)
}

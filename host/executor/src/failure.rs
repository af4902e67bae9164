//! The output of an action whose execution itself failed.
//!
//! Kinds and wording are those of Python's exceptions, which users' templates and tools expect as
//! from mini-swe-agent.

use std::io;
use std::path::Path;
use std::time::Duration;

use mswea_helper::child::{StartError, StartStage, plain};
use serde_json::Value;

use mswea_core::{ENVIRONMENT_GONE, ExecutorError, Output};

/// The remedy for [`lacks_files`].
pub(super) const MORE_FILES: &str =
    "too many files are open in this process: raise the limit, for example with `ulimit -n 4096`";

/// Whether an operation failed because there are no more file descriptors.
pub(super) fn lacks_files(error: &io::Error) -> bool {
    let full = [rustix::io::Errno::MFILE, rustix::io::Errno::NFILE];
    full.iter()
        .any(|full| error.raw_os_error() == Some(full.raw_os_error()))
}

impl From<ActionFailure> for ExecutorError {
    fn from(failure: ActionFailure) -> Self {
        failure.text.into()
    }
}

/// Why an action has no exit code.
#[derive(Debug)]
pub(super) struct ActionFailure {
    kind: &'static str,
    text: String,
    /// Whether a retry in a moment may succeed.
    passing: bool,
    /// Whether the environment is gone for good, which ends the run.
    is_gone: bool,
    /// The exit code, if there is one all the same.
    returncode: Option<i32>,
}

impl ActionFailure {
    /// A failure of the environment, and not of the command.
    pub(super) fn environment(kind: &'static str, text: impl Into<String>) -> Self {
        Self {
            kind,
            text: text.into(),
            passing: false,
            is_gone: false,
            returncode: None,
        }
    }

    /// The environment is gone for good.
    pub(super) fn gone(why: impl Into<String>) -> Self {
        Self {
            is_gone: true,
            ..Self::environment("EnvironmentGone", why)
        }
    }

    /// The same failure of a command that has an exit code.
    pub(super) fn with_code(self, returncode: i32) -> Self {
        Self {
            returncode: Some(returncode),
            ..self
        }
    }

    pub(super) fn timed_out(command: &str, timeout: Duration) -> Self {
        let seconds = if timeout.subsec_nanos() == 0 {
            timeout.as_secs().to_string()
        } else {
            timeout.as_secs_f64().to_string()
        };
        let text = format!("Command '{command}' timed out after {seconds} seconds");
        Self::environment("TimeoutExpired", text)
    }

    pub(super) fn interrupted(command: &str) -> Self {
        Self::environment(
            "Interrupted",
            format!("Command '{command}' was interrupted"),
        )
    }

    pub(super) fn null_byte() -> Self {
        Self::value("embedded null byte")
    }

    pub(super) fn value(why: &str) -> Self {
        Self::environment("ValueError", why)
    }

    pub(super) fn no_interpreter(name: &str, why: &str) -> Self {
        Self::environment(
            "FileNotFoundError",
            format!(
                "interpreter `{name}` can't be used: {why}; set `interpreter` to one that is installed"
            ),
        )
    }

    /// A failure that a helper reported: the system's error, and the helper's message.
    pub(super) fn told(error: &io::Error, text: &str) -> Self {
        Self {
            text: text.to_owned(),
            ..Self::system(error, None)
        }
    }

    /// The exit code is lost, because another part of the program has waited for the child.
    pub(super) fn lost(error: &io::Error) -> Self {
        let text = format!("{}; the exit code is unknown", plain(error));
        Self::environment("ChildProcessError", text)
    }

    /// The program was not started, or its directory could not be entered. `command`: the length of
    /// the command in bytes.
    pub(super) fn start(
        failed: &StartError,
        program: &Path,
        cwd: Option<&Path>,
        command: usize,
    ) -> Self {
        let error = &failed.error;
        match failed.stage {
            StartStage::Process => Self::system(error, None),
            StartStage::Folder => Self::system(error, cwd),
            StartStage::Program => Self::program(error, program, command),
        }
    }

    /// The program was not started. `command`: the length of the command in bytes.
    pub(super) fn program(error: &io::Error, program: &Path, command: usize) -> Self {
        let mut failure = Self::system(error, Some(program));
        if error.raw_os_error() == Some(rustix::io::Errno::TOOBIG.raw_os_error()) {
            failure.text.push_str(&format!(
                "; the command has {command} bytes, and a command may have about 128 KiB: split it"
            ));
        } else if error.kind() == io::ErrorKind::NotFound {
            failure
                .text
                .push_str("; set `interpreter` to one that is installed");
        }
        failure
    }

    /// Whether descriptors were lacking, which other actions will release.
    pub(super) fn is_passing(&self) -> bool {
        self.passing
    }

    pub(super) fn system(error: &io::Error, path: Option<&Path>) -> Self {
        let passing = lacks_files(error);
        let kind = match error.kind() {
            io::ErrorKind::NotFound => "FileNotFoundError",
            io::ErrorKind::NotADirectory => "NotADirectoryError",
            io::ErrorKind::PermissionDenied => "PermissionError",
            io::ErrorKind::WouldBlock => "BlockingIOError",
            _ => "OSError",
        };
        let mut text = match error.raw_os_error() {
            Some(number) => format!("[Errno {number}] {}", plain(error)),
            None => plain(error),
        };
        if let Some(path) = path {
            text.push_str(&format!(": '{}'", path.display()));
        }
        if passing {
            text.push_str(&format!("; {MORE_FILES}"));
        }
        Self {
            passing,
            ..Self::environment(kind, text)
        }
    }

    pub(super) fn text(self) -> String {
        self.text
    }

    pub(super) fn output(self, partial: String) -> Output {
        let mut output = Output {
            output: partial,
            ..Output::not_executed(&format!(
                "An error occurred while executing the command: {}",
                self.text
            ))
        };
        output.returncode = self.returncode.unwrap_or(output.returncode);
        let mut more = |name: &str, value| output.extra.insert(name.to_owned(), value);
        more("exception_type", Value::from(self.kind));
        more("exception", Value::from(self.text));
        if self.is_gone {
            more(ENVIRONMENT_GONE, Value::Bool(true));
        }
        output
    }
}

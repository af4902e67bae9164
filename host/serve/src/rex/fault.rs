//! The errors of SWE-ReX's API: those of HTTP, and exceptions, which its clients raise again by name.

use hyper::StatusCode;
use mswea_executor::{ServedError, ShellError};
use serde_json::{Value, json};

/// Why a request has no result.
#[derive(Debug)]
pub(super) enum RexFault {
    /// The request itself is refused: the status, and `detail`.
    Refused(StatusCode, Value),
    /// An exception of this class.
    Raised {
        class: String,
        message: String,
        extra: Value,
    },
}

impl RexFault {
    /// One of SWE-ReX's own exceptions.
    pub(super) fn own(name: &str, message: impl Into<String>) -> Self {
        Self::raised(format!("swerex.exceptions.{name}"), message)
    }

    /// One of Python's.
    pub(super) fn python(name: &str, message: impl Into<String>) -> Self {
        Self::raised(format!("builtins.{name}"), message)
    }

    fn raised(class: String, message: impl Into<String>) -> Self {
        Self::Raised {
            class,
            message: message.into(),
            extra: json!({}),
        }
    }

    /// A body that is invalid for its request.
    pub(super) fn body(why: &str) -> Self {
        let problem = json!({ "type": "value_error", "loc": ["body"], "msg": why });
        Self::Refused(StatusCode::UNPROCESSABLE_ENTITY, json!([problem]))
    }

    pub(super) fn refused(status: StatusCode, why: &str) -> Self {
        Self::Refused(status, why.into())
    }

    /// The status and the body of the answer.
    pub(super) fn answer(self) -> (StatusCode, Value) {
        match self {
            Self::Refused(status, detail) => (status, json!({ "detail": detail })),
            Self::Raised {
                class,
                message,
                extra,
            } => {
                let exception = json!({
                    "message": message,
                    "class_path": class,
                    "traceback": "",
                    "extra_info": extra,
                });
                let status = StatusCode::NETWORK_AUTHENTICATION_REQUIRED;
                (status, json!({ "swerexception": exception }))
            }
        }
    }

    /// A command that did not end within `limit`.
    pub(super) fn timed_out(command: &str, limit: Option<f64>, is_running: bool) -> Self {
        let limit = limit.unwrap_or_default();
        let rest = match is_running {
            true => "it goes on; an interrupt action ends it",
            false => "it was ended with all processes that it had started",
        };
        let message = format!("the command `{command}` did not end within {limit} s: {rest}");
        Self::own("CommandTimeoutError", message)
    }

    /// A command that failed, for a client that asked for an error in this case.
    pub(super) fn failed(command: &str, error_msg: &str, status: i32, output: &str) -> Self {
        let before = match error_msg {
            "" => String::new(),
            text => format!("{text}: "),
        };
        let message = format!(
            "{before}the command `{command}` failed with exit code {status}; its output: {output}"
        );
        Self::own("NonZeroExitCodeError", message)
    }
}

impl From<ServedError> for RexFault {
    fn from(error: ServedError) -> Self {
        let name = match &error {
            ServedError::TimedOut => return Self::own("CommandTimeoutError", error.to_string()),
            ServedError::NoHelper(why) => return Self::own("SwerexException", why.as_str()),
            ServedError::System { errno, .. } => match *errno {
                1 | 13 => "PermissionError",
                2 => "FileNotFoundError",
                17 => "FileExistsError",
                20 => "NotADirectoryError",
                21 => "IsADirectoryError",
                _ => "OSError",
            },
        };
        Self::python(name, error.to_string())
    }
}

impl From<ShellError> for RexFault {
    fn from(error: ShellError) -> Self {
        match error {
            ShellError::TimedOut | ShellError::Busy(_) => {
                Self::own("CommandTimeoutError", error.to_string())
            }
            ShellError::Syntax(said) => Self::Raised {
                class: "swerex.exceptions.BashIncorrectSyntaxError".to_owned(),
                message: format!("bash can't parse the command, and nothing of it was run: {said}"),
                extra: json!({ "bash_stdout": "", "bash_stderr": said }),
            },
            ShellError::Expression(why) => Self::python("ValueError", why),
            ShellError::NoShell(why) => Self::own("SessionNotInitializedError", why),
        }
    }
}

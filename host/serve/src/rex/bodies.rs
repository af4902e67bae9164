//! The bodies of SWE-ReX's requests.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::Deserialize;

/// A wait without a limit.
const FOREVER: Duration = Duration::from_secs(10 * 365 * 86_400);

/// The only kind of session.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum RexSessionKind {
    Bash,
}

/// `create_session`.
#[derive(Debug, Deserialize)]
pub(super) struct CreateBody {
    #[serde(default)]
    pub(super) startup_source: Vec<String>,
    #[serde(default = "default_session")]
    pub(super) session: String,
    #[serde(rename = "session_type")]
    _kind: RexSessionKind,
    #[serde(default = "startup_timeout")]
    pub(super) startup_timeout: f64,
}

/// `close_session`.
#[derive(Debug, Deserialize)]
pub(super) struct CloseBody {
    #[serde(default = "default_session")]
    pub(super) session: String,
    #[serde(rename = "session_type")]
    _kind: RexSessionKind,
}

/// `run_in_session`.
#[derive(Debug, Deserialize)]
#[serde(tag = "action_type")]
pub(super) enum ActionBody {
    #[serde(rename = "bash")]
    Line(LineBody),
    #[serde(rename = "bash_interrupt")]
    Interrupt(InterruptBody),
}

/// How an exit code is handled.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum ExitCheck {
    Silent,
    #[default]
    Raise,
    Ignore,
}

/// A command in a session.
#[derive(Debug, Deserialize)]
pub(super) struct LineBody {
    pub(super) command: String,
    #[serde(default = "default_session")]
    pub(super) session: String,
    #[serde(default)]
    pub(super) timeout: Option<f64>,
    #[serde(default)]
    pub(super) is_interactive_command: bool,
    #[serde(default)]
    pub(super) is_interactive_quit: bool,
    #[serde(default)]
    pub(super) check: ExitCheck,
    #[serde(default)]
    pub(super) error_msg: String,
    #[serde(default)]
    pub(super) expect: Vec<String>,
}

/// An interruption of the running command in a session.
#[derive(Debug, Deserialize)]
pub(super) struct InterruptBody {
    #[serde(default = "default_session")]
    pub(super) session: String,
    #[serde(default = "interrupt_timeout")]
    pub(super) timeout: f64,
    #[serde(default = "interrupt_tries")]
    pub(super) n_retry: u32,
    #[serde(default)]
    pub(super) expect: Vec<String>,
}

/// The command of `execute`.
#[derive(Debug, Deserialize)]
#[serde(untagged)]
pub(super) enum CommandBody {
    Text(String),
    Words(Vec<String>),
}

/// `execute`.
#[derive(Debug, Deserialize)]
pub(super) struct ExecuteBody {
    pub(super) command: CommandBody,
    #[serde(default)]
    pub(super) timeout: Option<f64>,
    #[serde(default)]
    pub(super) shell: bool,
    #[serde(default)]
    pub(super) check: bool,
    #[serde(default)]
    pub(super) error_msg: String,
    #[serde(default)]
    pub(super) env: Option<BTreeMap<String, String>>,
    #[serde(default)]
    pub(super) cwd: Option<String>,
    #[serde(default)]
    pub(super) merge_output_streams: bool,
}

/// `read_file`.
#[derive(Debug, Deserialize)]
pub(super) struct ReadBody {
    pub(super) path: String,
    #[serde(default)]
    pub(super) encoding: Option<String>,
    #[serde(default)]
    pub(super) errors: Option<String>,
}

/// `write_file`.
#[derive(Debug, Deserialize)]
pub(super) struct WriteBody {
    pub(super) content: String,
    pub(super) path: String,
}

fn default_session() -> String {
    "default".to_owned()
}

fn startup_timeout() -> f64 {
    1.0
}

fn interrupt_timeout() -> f64 {
    0.2
}

fn interrupt_tries() -> u32 {
    3
}

/// A time limit; none: forever.
pub(super) fn limit(seconds: Option<f64>) -> Duration {
    let Some(seconds) = seconds else {
        return FOREVER;
    };
    let limit = Duration::try_from_secs_f64(seconds.max(0.0));
    limit.map_or(FOREVER, |limit| limit.min(FOREVER))
}

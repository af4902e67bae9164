//! What a container executor needs of a container engine, whichever way it is spoken to.
//!
//! Two ways: [`super::api`] talks to the daemon's socket, [`super::client`] runs the command
//! line program. Both do the same, and pass the same tests.

use std::collections::BTreeMap;
use std::path::Path;
use std::pin::Pin;
use std::time::Duration;

use async_trait::async_trait;
use tokio::io::{AsyncRead, AsyncWrite};

/// A container to be made.
#[derive(Clone, Debug, Default)]
pub(super) struct ContainerSpec {
    pub(super) name: String,
    pub(super) image: String,
    /// What it runs, after the image's entry point: `sleep 2h`.
    pub(super) command: Vec<String>,
    pub(super) cwd: String,
    pub(super) labels: BTreeMap<String, String>,
    /// As for `docker run`: what the user configured, `--rm` included.
    pub(super) run_args: Vec<String>,
    pub(super) platform: Option<String>,
    /// The arguments among `run_args` that come from keys of the config: the key, the argument.
    pub(super) typed: Vec<(&'static str, String)>,
}

impl ContainerSpec {
    /// Whether an argument comes from a key of its own.
    pub(super) fn is_typed(&self, arg: &str) -> bool {
        self.typed.iter().any(|(_, typed)| typed == arg)
    }

    /// Where people find an argument of theirs: the config's key for it, or `environment.run_args`.
    pub(super) fn origin(&self, arg: &str) -> String {
        match self.typed.iter().find(|(_, typed)| typed == arg) {
            Some((key, _)) => format!("`{key}`"),
            None => {
                let name = arg.split('=').next().unwrap_or(arg);
                format!("`{name}` in `environment.run_args`")
            }
        }
    }
}

/// What is known of an image that is there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Image {
    pub(super) id: String,
    /// As Go calls it: `amd64`, `arm64`.
    pub(super) architecture: String,
    pub(super) os: String,
}

/// How a container is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct ContainerState {
    /// Whether processes can be started in it.
    pub(super) running: bool,
    /// It lives, and none of its processes moves.
    pub(super) paused: bool,
    /// Of its first process. When the kernel kills one started later, only the container's own
    /// `memory.events` (or `memory.oom_control`) tell.
    pub(super) oom_killed: bool,
    pub(super) exit_code: i64,
    /// The engine's own words, if it could not start.
    pub(super) error: String,
}

/// A process to be started in a running container.
#[derive(Clone, Debug, Default)]
pub(super) struct ExecSpec {
    pub(super) argv: Vec<String>,
    pub(super) env: Vec<(String, String)>,
    /// None: the container's own.
    pub(super) cwd: Option<String>,
    /// None: the container's own.
    pub(super) user: Option<String>,
    /// Whether its standard input is connected; otherwise it is empty.
    pub(super) stdin: bool,
}

/// A started process: what it prints, in the order of arrival, stderr included. Engines carry
/// stdout and stderr in two pipes, so what is written to both at the same moment may change
/// places: who minds has the process itself write both to one (`2>&1`).
pub(super) struct Exec {
    pub(super) output: Box<dyn AsyncRead + Send + Unpin>,
    /// There if it was asked for. Dropping it is the end of the process's standard input.
    pub(super) input: Option<Box<dyn AsyncWrite + Send + Unpin>>,
    /// Resolves when the process has exited, also when something else holds its output open.
    /// An error of the kind [`EngineErrorKind::NotStarted`] says that there was none, and why;
    /// the engine's own words are then also in the output.
    pub(super) status: Pin<Box<dyn Future<Output = Result<i32, EngineError>> + Send>>,
}

/// A container of ours, as the engine lists it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Listed {
    pub(super) id: String,
    pub(super) name: String,
    pub(super) labels: BTreeMap<String, String>,
}

/// Why an engine could not do something. The text is one clear message: what, why, what to do.
#[derive(Debug, thiserror::Error)]
#[error("{message}")]
pub(super) struct EngineError {
    pub(super) kind: EngineErrorKind,
    pub(super) message: String,
}

/// What callers act upon.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum EngineErrorKind {
    /// No daemon, no program, or no permission to use it.
    Unavailable,
    /// The image is not there, here or in the registry.
    NoImage,
    /// The registry refused.
    Denied,
    /// The container is gone or has stopped.
    ContainerGone,
    /// The program or its folder is not in the container: no process was started.
    NotStarted,
    /// It took longer than allowed.
    TimedOut,
    /// Anything else.
    Other,
}

/// Hears how far something is. A name of its own, because `async_trait` would give the text a
/// lifetime of the caller's.
pub(super) type Tell<'a> = &'a (dyn Fn(&str) + Send + Sync);

/// A container engine.
#[async_trait]
pub(super) trait Engine: Send + Sync {
    /// For messages and `doctor`: name, version, and how it is reached.
    async fn describe(&self) -> Result<String, EngineError>;
    /// An image that is there, or none.
    async fn image(&self, name: &str) -> Result<Option<Image>, EngineError>;
    /// Pulls an image; `tell` hears how far it is (`1 of 2 layers`), at most about once a second.
    async fn pull(
        &self,
        name: &str,
        platform: Option<&str>,
        tell: Tell<'_>,
    ) -> Result<(), EngineError>;
    /// Creates and starts a container; nothing is left behind on failure. Returns its id.
    async fn run(&self, spec: &ContainerSpec) -> Result<String, EngineError>;
    /// How a container is.
    async fn state(&self, id: &str) -> Result<ContainerState, EngineError>;
    /// Starts a process in it.
    async fn exec(&self, id: &str, spec: &ExecSpec) -> Result<Exec, EngineError>;
    /// Unpacks a small tar archive below `folder`, as root.
    async fn put(&self, id: &str, folder: &str, tar: Vec<u8>) -> Result<(), EngineError>;
    /// The same with an archive in a file, of any size: it is never in memory as a whole.
    async fn put_file(&self, id: &str, folder: &str, tar: &Path) -> Result<(), EngineError>;
    /// Packs a file or folder of the container (`path`) into the tar file `to`.
    async fn get(&self, id: &str, path: &str, to: &Path) -> Result<(), EngineError>;
    /// Every container, running or not, that has the label.
    async fn list(&self, label: &str) -> Result<Vec<Listed>, EngineError>;
    /// Kills and removes a container and its anonymous volumes. One that is gone is no error.
    async fn remove(&self, id: &str, limit: Duration) -> Result<(), EngineError>;
    /// Whether its records suffer if a container is removed while it is being made.
    fn suffers_from_haste(&self) -> bool {
        false
    }
}

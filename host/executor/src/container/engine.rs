//! The operations of a container engine that the executor needs.
//!
//! There are two implementations, with the same tests: [`super::api`] uses the daemon's socket,
//! [`super::client`] runs the command line program.

use std::collections::BTreeMap;
use std::path::Path;
use std::pin::Pin;
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use mswea_core::ExecutorError;
use tokio::io::{AsyncRead, AsyncWrite};

/// The label with the key of a container's record.
pub(super) const KEY: &str = "mswea.key";

/// The properties of a new container.
#[derive(Clone, Debug, Default)]
pub(super) struct ContainerSpec {
    pub(super) name: String,
    pub(super) image: String,
    /// The command after the image's entry point: `sleep 2h`.
    pub(super) command: Vec<String>,
    pub(super) cwd: String,
    pub(super) labels: BTreeMap<String, String>,
    pub(super) platform: Option<String>,
    /// The values of other keys of the config.
    pub(super) typed: Vec<TypedArg>,
    /// The user's arguments of `docker run`.
    pub(super) run_args: Vec<String>,
}

/// A key of the config that is an argument of `docker run`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct TypedArg {
    pub(super) key: &'static str,
    /// The long name of the argument.
    pub(super) arg: &'static str,
    pub(super) value: String,
}

/// An existing image.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Image {
    pub(super) id: String,
    /// By Go's names: `amd64`, `arm64`.
    pub(super) architecture: String,
    /// The user of its processes; empty: root.
    pub(super) user: String,
    pub(super) os: String,
}

/// The state of a container.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct ContainerState {
    /// Whether processes can be started in it.
    pub(super) running: bool,
    /// It exists, and all its processes are paused.
    pub(super) paused: bool,
    /// Whether its first process was killed for lack of memory. For processes started later, only
    /// the container's own `memory.events` (or `memory.oom_control`) tell.
    pub(super) oom_killed: bool,
    pub(super) exit_code: i64,
    /// The engine's own message, if it could not start.
    pub(super) error: String,
}

/// The properties of a process in a running container.
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

impl ExecSpec {
    /// One of the host's own programs, in the root folder.
    pub(super) fn of(argv: &[&str]) -> Self {
        Self {
            argv: argv.iter().map(|&arg| arg.to_owned()).collect(),
            cwd: Some("/".to_owned()),
            ..Self::default()
        }
    }
}

/// A started process: its output in the order of arrival, stderr included. Engines use two pipes
/// for stdout and stderr, so the order of simultaneous writes may change; a caller that needs the
/// order lets the process write both to one (`2>&1`).
pub(super) struct Exec {
    pub(super) output: Box<dyn AsyncRead + Send + Unpin>,
    /// Present if it was requested. Dropping it ends the process's standard input.
    pub(super) input: Option<Box<dyn AsyncWrite + Send + Unpin>>,
    /// Resolves when the process has exited, also when something else holds its output open. An
    /// error of the kind [`EngineErrorKind::NotStarted`] means that no process was started, and
    /// contains the reason; the engine's own message is then also in the output.
    pub(super) status: Pin<Box<dyn Future<Output = Result<i32, EngineError>> + Send>>,
}

/// A container of this program in the engine's list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ListedContainer {
    pub(super) id: String,
    pub(super) name: String,
    pub(super) labels: BTreeMap<String, String>,
}

/// Why an engine could not do something. The text is one message with cause and remedy.
#[derive(Debug, thiserror::Error)]
#[error("{message}")]
pub(super) struct EngineError {
    pub(super) kind: EngineErrorKind,
    pub(super) message: String,
}

impl From<EngineError> for ExecutorError {
    fn from(error: EngineError) -> Self {
        error.message.into()
    }
}

/// The kinds of errors that callers distinguish.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum EngineErrorKind {
    /// No daemon, no program, or no permission to use it.
    Unavailable,
    /// The image does not exist, here or in the registry.
    NoImage,
    /// The registry refused.
    Denied,
    /// The container is gone or has stopped.
    ContainerGone,
    /// The program or its folder does not exist in the container: no process was started.
    NotStarted,
    /// It took longer than allowed.
    TimedOut,
    /// Anything else.
    Other,
}

/// Gets the progress of an operation. A type of its own, because `async_trait` would give the text
/// the caller's lifetime.
pub(super) type Tell<'a> = &'a (dyn Fn(&str) + Send + Sync);

/// A container engine.
#[async_trait]
pub(super) trait Engine: Send + Sync {
    /// For messages and `doctor`: name, version, and how it is reached.
    async fn describe(&self) -> Result<String, EngineError>;
    /// The image, if it exists here.
    async fn image(&self, name: &str) -> Result<Option<Image>, EngineError>;
    /// Pulls an image; `tell` gets the progress (`1 of 2 layers`), at most about once a second.
    async fn pull(
        &self,
        name: &str,
        platform: Option<&str>,
        tell: Tell<'_>,
    ) -> Result<(), EngineError>;
    /// Creates and starts a container; on failure nothing is left behind. Returns its id.
    async fn run(&self, spec: &ContainerSpec) -> Result<String, EngineError>;
    /// Lets the processes of a paused container go on.
    async fn unpause(&self, id: &str) -> Result<(), EngineError>;
    /// Starts a container that has stopped.
    async fn start(&self, id: &str) -> Result<(), EngineError>;
    /// The state of a container.
    async fn state(&self, id: &str) -> Result<ContainerState, EngineError>;
    /// Starts a process in it.
    async fn exec(&self, id: &str, spec: &ExecSpec) -> Result<Exec, EngineError>;
    /// Unpacks a small tar archive below `folder`, as root.
    async fn put(&self, id: &str, folder: &str, tar: Bytes) -> Result<(), EngineError>;
    /// The same for an archive in a file, of any size: it is never in memory as a whole.
    async fn put_file(&self, id: &str, folder: &str, tar: &Path) -> Result<(), EngineError>;
    /// Packs a file or folder of the container (`path`) into the tar file `to`.
    async fn get(&self, id: &str, path: &str, to: &Path) -> Result<(), EngineError>;
    /// Every container, running or not, that has the label.
    async fn list(&self, label: &str) -> Result<Vec<ListedContainer>, EngineError>;
    /// Kills and removes a container and its anonymous volumes. A missing container is no error.
    async fn remove(&self, id: &str, limit: Duration) -> Result<(), EngineError>;
    /// Whether its records are damaged if a container is removed while it is being made.
    fn suffers_from_haste(&self) -> bool {
        false
    }
}

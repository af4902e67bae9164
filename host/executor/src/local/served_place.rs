//! Commands and files of this machine for clients without a helper (SWE-ReX's API). The helpers
//! that serve them are kept between two commands.
//!
//! The helper reads and writes files, so that a sandbox applies to them, too.

use std::io;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use mswea_core::{Stop, StopSource};
use mswea_helper::child::plain;
use mswea_helper::protocol::ActionInput;
use rustix::fs::{CWD, FileType, Mode, mknodat};
use tempfile::TempDir;
use tokio::fs::File;
use tokio::io::AsyncReadExt as _;
use tokio::net::unix::pipe;

use super::{LocalSettings, ServedHelper};
use crate::capture::{Capture, gap};
use crate::helper::{ANSWERING, FileFault, HelperAction, HelperEnd, HelperSession};
use crate::placed::GRACE;
use crate::programs::{in_path, is_program};

/// The most bytes of a command's output that are kept, as many as of a submission.
const KEPT: usize = 64 * 1024 * 1024;
/// How long reading a file may take.
const READING: Duration = Duration::from_secs(60);
/// The most helpers that are kept without a command.
const WAITING: usize = 16;
/// Redirects the standard error of a command to a file.
const APART: &str = r#"exec 2>"$0"; exec "$@""#;

/// The helpers of one server.
#[derive(Debug)]
pub struct ServedPlace {
    settings: LocalSettings,
    /// None after the server has ended.
    idle: Mutex<Option<Vec<ReadyHelper>>>,
}

/// A helper without a command. Dropping it kills the helper and all its descendants.
struct ReadyHelper {
    session: HelperSession,
    helper: ServedHelper,
}

impl std::fmt::Debug for ReadyHelper {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "ReadyHelper({})", self.helper.run_id())
    }
}

/// A task for a helper.
#[derive(Debug)]
pub enum ServedTask {
    /// Runs a command as a fresh process.
    Run(ServedCommand),
    /// Reads a file.
    Read(String),
    /// Writes a file, and makes the folders around it.
    Write {
        /// The file. If it is a folder and `name` is not empty, the file is made in it.
        path: String,
        /// May be empty.
        name: String,
        /// Read from its current position.
        content: std::fs::File,
    },
    /// Unpacks a tar archive.
    Unpack {
        /// The folder, which is made if it is missing.
        path: String,
        /// Read from its current position.
        archive: std::fs::File,
    },
}

/// A command.
#[derive(Debug, Default)]
pub struct ServedCommand {
    /// Program and arguments.
    pub argv: Vec<String>,
    /// Variables, laid over those that all commands get.
    pub env: Vec<(String, String)>,
    /// The working directory; none: that of the settings.
    pub cwd: Option<String>,
    /// Its time limit.
    pub limit: Duration,
    /// Whether its standard error is kept apart from its standard output.
    pub apart: bool,
}

/// The output of a command, or the content of a file.
#[derive(Debug, Default)]
pub struct ServedOutput {
    /// Its standard output, with its standard error unless that is kept apart.
    pub stdout: Vec<u8>,
    /// Its standard error, if it is kept apart.
    pub stderr: Vec<u8>,
    /// Its exit code.
    pub status: i32,
}

/// Why a task failed.
#[derive(Debug, thiserror::Error)]
pub enum ServedError {
    /// The command was ended at its time limit, with all its descendants.
    #[error("the command was ended at its time limit")]
    TimedOut,
    /// The system refused.
    #[error("[Errno {errno}] {text}")]
    System {
        /// The system's error number.
        errno: i32,
        /// The message, with the path or program.
        text: String,
    },
    /// There is no helper, or it has ended.
    #[error("{0}")]
    NoHelper(String),
}

/// When dropped, ends a command whose client no longer waits.
struct GivenUp(StopSource);

impl Drop for GivenUp {
    fn drop(&mut self) {
        self.0.stop();
    }
}

impl ServedPlace {
    /// A place without helpers; nothing is started yet.
    pub fn new(settings: LocalSettings) -> Self {
        Self {
            settings,
            idle: Mutex::new(Some(Vec::new())),
        }
    }

    /// The settings of its helpers.
    pub fn settings(&self) -> &LocalSettings {
        &self.settings
    }

    fn idle(&self) -> MutexGuard<'_, Option<Vec<ReadyHelper>>> {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Does a task. If the future is dropped, a command is ended.
    ///
    /// # Errors
    /// [`ServedError`] if the system refuses, the time is over, or there is no helper.
    pub async fn perform(self: &Arc<Self>, task: ServedTask) -> Result<ServedOutput, ServedError> {
        let (source, stop) = StopSource::new();
        let _given_up = GivenUp(source);
        let this = self.clone();
        let done = tokio::spawn(async move {
            let mut ready = this.ready().await?;
            let cwd = this.settings.cwd.as_deref().map(Path::to_string_lossy);
            let done = ready.perform(task, cwd.as_deref(), &stop).await;
            let is_usable = !ready.session.is_busy();
            let kept = match &mut *this.idle() {
                Some(idle) if is_usable && idle.len() < WAITING => {
                    idle.push(ready);
                    None
                }
                _ => Some(ready),
            };
            if let Some(ready) = kept {
                ready.end().await;
            }
            done
        });
        let lost = |error: tokio::task::JoinError| Err(ServedError::NoHelper(error.to_string()));
        done.await.unwrap_or_else(lost)
    }

    async fn ready(&self) -> Result<ReadyHelper, ServedError> {
        loop {
            let waiting = self.idle().as_mut().and_then(Vec::pop);
            let Some(mut ready) = waiting else {
                let (helper, session) = open(&self.settings).await?;
                return Ok(ReadyHelper { session, helper });
            };
            if !ready.session.has_ended().await {
                return Ok(ready);
            }
            // A background process has ended the helper meanwhile.
            ready.end().await;
        }
    }

    /// Ends all helpers that have no command, with the background processes of earlier commands.
    /// With `is_last`, the others end after their commands.
    pub async fn end(&self, is_last: bool) {
        let idle = match is_last {
            true => self.idle().take(),
            false => self.idle().as_mut().map(std::mem::take),
        };
        for ready in idle.into_iter().flatten() {
            ready.end().await;
        }
    }
}

/// Starts a helper.
pub(super) async fn open(
    settings: &LocalSettings,
) -> Result<(ServedHelper, HelperSession), ServedError> {
    let failed = ServedError::NoHelper;
    let started = ServedHelper::start(settings.clone(), &Stop::never()).await;
    let (helper, output, input) = started.map_err(|error| failed(error.message))?;
    let session = HelperSession::start(Box::new(output), Box::new(input), ANSWERING).await;
    Ok((helper, session.map_err(|error| failed(error.to_string()))?))
}

impl ReadyHelper {
    async fn end(self) {
        let Self { session, helper } = self;
        drop(session);
        helper.end().await;
    }

    async fn perform(
        &mut self,
        task: ServedTask,
        cwd: Option<&str>,
        stop: &Stop,
    ) -> Result<ServedOutput, ServedError> {
        match task {
            ServedTask::Run(command) => self.run(command, cwd, stop).await,
            ServedTask::Read(path) => {
                let read = self.session.read_file(&path, None, KEPT, READING, stop);
                Ok(ServedOutput {
                    stdout: read.await.map_err(|fault| of_file(fault, &path))?,
                    ..ServedOutput::default()
                })
            }
            ServedTask::Write {
                path,
                name,
                content,
            } => {
                let content = File::from_std(content);
                let written = self.session.write_file(&path, &name, content).await;
                written.map_err(|fault| of_file(fault, &path))?;
                Ok(ServedOutput::default())
            }
            ServedTask::Unpack { path, archive } => {
                let done = self.session.unpack(File::from_std(archive), &path, None);
                let unpacked = done.await.map_err(FileFault::said);
                unpacked.map_err(|fault| of_file(fault, &path))?;
                Ok(ServedOutput::default())
            }
        }
    }

    async fn run(
        &mut self,
        command: ServedCommand,
        first: Option<&str>,
        stop: &Stop,
    ) -> Result<ServedOutput, ServedError> {
        let ServedCommand {
            mut argv,
            env,
            cwd,
            limit,
            apart,
        } = command;
        let errors = match apart {
            true => {
                find(&argv, cwd.as_deref().or(first), &env)?;
                let errors = ErrorsApart::new().map_err(|error| system(&error))?;
                let before = ["/bin/sh", "-c", APART, &errors.path()].map(str::to_owned);
                argv.splice(..0, before);
                Some(errors)
            }
            false => None,
        };
        let action = HelperAction {
            argv: &argv,
            env: &env,
            cwd: cwd.as_deref(),
            grace: GRACE,
            input: ActionInput::Empty,
        };
        let mut capture = Capture::new(KEPT);
        let mut said = Capture::new(KEPT);
        let attended = self.attend(&action, &mut capture, limit, stop);
        let status = match errors {
            None => attended.await?,
            Some(mut errors) => {
                let status = tokio::select! {
                    status = attended => status?,
                    never = errors.read(&mut said) => match never {},
                };
                errors.read_rest(&mut said);
                // Background processes may still write to it.
                tokio::spawn(errors.drain());
                status
            }
        };
        Ok(ServedOutput {
            stdout: bounded(capture),
            stderr: bounded(said),
            status,
        })
    }

    async fn attend(
        &mut self,
        action: &HelperAction<'_>,
        capture: &mut Capture,
        limit: Duration,
        stop: &Stop,
    ) -> Result<i32, ServedError> {
        match self.session.run(action, capture, limit, stop).await {
            Ok(HelperEnd::Exited(status)) => Ok(status),
            Ok(HelperEnd::TimedOut | HelperEnd::Stopped) => Err(ServedError::TimedOut),
            Ok(HelperEnd::Failed { errno, text }) => Err(ServedError::System { errno, text }),
            Err(error) => Err(ServedError::NoHelper(error.to_string())),
        }
    }
}

/// The standard error of a command, through a named pipe, which needs no disk space.
struct ErrorsApart {
    folder: TempDir,
    receiver: pipe::Receiver,
}

impl ErrorsApart {
    fn new() -> io::Result<Self> {
        let folder = TempDir::new()?;
        let path = folder.path().join("errors");
        mknodat(CWD, &path, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0)?;
        // Opened also for writing, so that it does not report the end before the command has opened
        // it.
        let receiver = pipe::OpenOptions::new()
            .read_write(true)
            .open_receiver(&path)?;
        Ok(Self { folder, receiver })
    }

    fn path(&self) -> String {
        let path = self.folder.path().join("errors");
        path.to_string_lossy().into_owned()
    }

    /// Reads as long as the future is polled.
    async fn read(&mut self, into: &mut Capture) -> std::convert::Infallible {
        let mut piece = Vec::with_capacity(64 * 1024);
        while let Ok(1..) = self.receiver.read_buf(&mut piece).await {
            into.push(&piece);
            piece.clear();
        }
        std::future::pending().await
    }

    /// Reads the bytes that are available, at most the capacity of a pipe.
    fn read_rest(&mut self, into: &mut Capture) {
        let mut piece = vec![0; 64 * 1024];
        for _ in 0..16 {
            match self.receiver.try_read(&mut piece) {
                Ok(count @ 1..) => into.push(&piece[..count]),
                _ => return,
            }
        }
    }

    /// Reads and drops output until no process has the pipe open.
    async fn drain(self) {
        let Self { folder, receiver } = self;
        // A second descriptor, only for reading: the other one would keep the pipe open.
        let path = folder.path().join("errors");
        let Ok(mut alone) = pipe::OpenOptions::new().open_receiver(path) else {
            return;
        };
        drop((receiver, folder));
        let mut piece = Vec::with_capacity(64 * 1024);
        while let Ok(1..) = alone.read_buf(&mut piece).await {
            piece.clear();
        }
    }
}

fn system(error: &io::Error) -> ServedError {
    ServedError::System {
        errno: error.raw_os_error().unwrap_or(libc::EIO),
        text: error.to_string(),
    }
}

/// The error under Python's name, which clients expect.
fn of_file(fault: FileFault, path: &str) -> ServedError {
    match fault {
        FileFault::Failed { errno, text } => {
            let known = errno.map(|errno| plain(&io::Error::from_raw_os_error(errno)));
            ServedError::System {
                errno: errno.unwrap_or(libc::EIO),
                text: format!("{}: '{path}'", known.unwrap_or(text)),
            }
        }
        FileFault::TimedOut => ServedError::TimedOut,
        FileFault::NoHelper(error) => ServedError::NoHelper(error.to_string()),
    }
}

/// Whether the program of a command exists.
fn find(argv: &[String], cwd: Option<&str>, env: &[(String, String)]) -> Result<(), ServedError> {
    let name = argv.first().map_or("", String::as_str);
    let is_there = match name.contains('/') {
        true => is_program(&Path::new(cwd.unwrap_or(".")).join(name)),
        false => {
            let given = env.iter().find(|(name, _)| name == "PATH");
            let path = match given {
                Some((_, path)) => path.into(),
                None => std::env::var_os("PATH").unwrap_or_default(),
            };
            !name.is_empty() && in_path(name, &path).is_some()
        }
    };
    match is_there {
        true => Ok(()),
        false => Err(ServedError::System {
            errno: libc::ENOENT,
            text: format!("No such file or directory: '{name}'"),
        }),
    }
}

/// The kept part of an output, with a line in place of the gap.
fn bounded(capture: Capture) -> Vec<u8> {
    let (mut head, tail, missing) = capture.raw();
    if missing > 0 {
        head.push(b'\n');
        head.extend(gap(missing).bytes());
    }
    head.extend(tail);
    head
}

//! Runs the command line client of an engine: a process in a session of its own, which ends when
//! the caller no longer waits for it.

use std::ffi::{CString, OsString};
use std::fs::File;
use std::io;
use std::os::fd::AsFd;
use std::os::unix::ffi::OsStrExt;
use std::time::Duration;

use bytes::Bytes;
use rustix::pipe::PipeFlags;
use rustix::process::{Pid, Signal};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::unix::pipe::{Receiver, Sender};
use tokio::time::timeout;

use crate::low_descriptors::null;
use crate::programs;
use crate::spawn::{ChildProcess, ProcessStart, ProgramCall, spawn};
use mswea_secrecy as secrecy;
use mswea_secrecy::looks_secret;

/// How long processes left behind by a client may hold its output open.
const GRACE: Duration = Duration::from_millis(200);
/// The time between a client's SIGTERM and its SIGKILL.
const ENDING: Duration = Duration::from_secs(3);
/// The most bytes of an output that are kept.
const KEPT: usize = 64 * 1024 * 1024;

/// The program of a client, and its environment.
#[derive(Debug)]
pub(super) struct Program {
    path: CString,
    env: Vec<CString>,
}

/// The result of a process.
#[derive(Debug)]
pub(super) struct Finished {
    pub(super) code: i32,
    pub(super) output: Vec<u8>,
    pub(super) errors: String,
}

/// A client's process. Dropping it kills the process.
#[derive(Debug)]
pub(super) struct ClientProcess {
    child: ChildProcess,
    /// Whether the process gets a SIGTERM before it is killed. If podman is killed while it makes
    /// or removes a container, it leaves a monitor that never ends, or records that later make it
    /// fail.
    gently: bool,
}

/// The target of a process's standard error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Errors {
    Apart,
    WithOutput,
}

/// The standard input of a program.
pub(super) enum Input {
    Empty,
    /// Written by the caller.
    Pipe,
    /// Read by the program itself.
    File(File),
}

/// The input of a program that is run to its end.
pub(super) enum Feed {
    Nothing,
    Bytes(Bytes),
    File(File),
}

/// A started process and its pipes.
pub(super) struct StartedProgram {
    pub(super) process: ClientProcess,
    pub(super) input: Option<Sender>,
    pub(super) output: Receiver,
    pub(super) errors: Option<Receiver>,
}

impl Program {
    /// Finds the program called `name`, a path or a name in `PATH`; none if it does not exist.
    pub(super) fn find(name: &str) -> Option<Self> {
        let path = programs::find(name)?;
        Some(Self {
            path: CString::new(path.as_os_str().as_bytes()).ok()?,
            env: environment()
                .filter_map(|(name, value)| variable(&name, &value))
                .collect(),
        })
    }

    /// Replaces the environment of an engine's client by this one, as `NAME=value`.
    pub(super) fn with_env(self, env: Vec<CString>) -> Self {
        Self { env, ..self }
    }

    /// Starts the program. `env` is added to its environment.
    pub(super) fn start(
        &self,
        args: &[String],
        env: &[(String, String)],
        input: Input,
        errors: Errors,
    ) -> io::Result<StartedProgram> {
        let args = self.args(args)?;
        let args: Vec<_> = args.iter().map(CString::as_c_str).collect();
        // Of variables with the same name, the first one counts.
        let all: Vec<CString> = env
            .iter()
            .filter_map(|(name, value)| variable(&name.into(), &value.into()))
            .chain(self.env.iter().cloned())
            .collect();
        let pipe = || rustix::pipe::pipe_with(PipeFlags::CLOEXEC);
        let (output, output_end) = pipe()?;
        let apart = match errors {
            Errors::Apart => Some(pipe()?),
            Errors::WithOutput => None,
        };
        let (input, file) = match input {
            Input::Empty => (None, None),
            Input::Pipe => (Some(pipe()?), None),
            Input::File(file) => (None, Some(file)),
        };
        for ours in [
            Some(&output),
            apart.as_ref().map(|(ours, _)| ours),
            input.as_ref().map(|(_, ours)| ours),
        ]
        .into_iter()
        .flatten()
        {
            rustix::io::ioctl_fionbio(ours, true)?;
        }
        let stdin = match (&file, &input) {
            (Some(file), _) => file.as_fd(),
            (None, Some((theirs, _))) => theirs.as_fd(),
            (None, None) => null()?,
        };
        let stderr = apart.as_ref().map_or(&output_end, |(_, theirs)| theirs);
        let call = ProgramCall {
            path: &self.path,
            args: &args,
            env: &all.iter().map(CString::as_c_str).collect::<Vec<_>>(),
            cwd: None,
        };
        let descriptors = [(stdin, 0), (output_end.as_fd(), 1), (stderr.as_fd(), 2)];
        let child = spawn(&ProcessStart::default(), call, &descriptors, false)?;
        let process = ClientProcess {
            child,
            gently: false,
        };
        Ok(StartedProgram {
            process,
            input: input
                .map(|(_, ours)| Sender::from_owned_fd(ours))
                .transpose()?,
            output: Receiver::from_owned_fd(output)?,
            errors: apart
                .map(|(ours, _)| Receiver::from_owned_fd(ours))
                .transpose()?,
        })
    }

    /// Runs the program to its end.
    pub(super) async fn run(
        &self,
        args: &[String],
        env: &[(String, String)],
        feed: Feed,
    ) -> io::Result<Finished> {
        let (input, bytes) = match feed {
            Feed::Nothing => (Input::Empty, None),
            Feed::Bytes(bytes) => (Input::Pipe, Some(bytes)),
            Feed::File(file) => (Input::File(file), None),
        };
        let mut started = self.start(args, env, input, Errors::Apart)?;
        started.process.gently = true;
        finish(started, bytes).await
    }

    fn args(&self, args: &[String]) -> io::Result<Vec<CString>> {
        let mut all = vec![self.path.clone()];
        for arg in args {
            all.push(CString::new(arg.as_str()).map_err(|_| {
                io::Error::new(
                    io::ErrorKind::InvalidInput,
                    "there is a null byte in an argument",
                )
            })?);
        }
        Ok(all)
    }
}

async fn finish(started: StartedProgram, input: Option<Bytes>) -> io::Result<Finished> {
    let (mut process, mut to) = (started.process, started.input);
    let (mut output, mut said) = (Vec::new(), Vec::new());
    let code = {
        let mut reading = std::pin::pin!(async {
            let feed = async {
                if let (Some(to), Some(input)) = (&mut to, input) {
                    // A program that ends before it has read everything reports its own error.
                    let _ = to.write_all(&input).await;
                }
                drop(to);
            };
            let output = keep(Some(started.output), &mut output);
            tokio::join!(output, keep(started.errors, &mut said), feed);
        });
        tokio::select! {
            biased;
            code = process.exited() => {
                // Podman leaves a monitor behind that may have inherited the pipes.
                let _ = timeout(GRACE, &mut reading).await;
                code?
            }
            () = &mut reading => process.exited().await?,
        }
    };
    Ok(Finished {
        code,
        output,
        errors: String::from_utf8_lossy(&said).trim().to_owned(),
    })
}

impl ClientProcess {
    /// Waits for the process's end; can be dropped and called again.
    pub(super) async fn exited(&mut self) -> io::Result<i32> {
        self.child.exited().await
    }

    fn ask_to_end(&self) {
        if !self.child.is_reaped()
            && let Some(pid) = Pid::from_raw(self.child.pid())
        {
            let _ = rustix::process::kill_process_group(pid, Signal::TERM);
        }
    }
}

impl Drop for ClientProcess {
    fn drop(&mut self) {
        if self.child.is_reaped() {
            return;
        }
        if self.gently {
            self.ask_to_end();
            if self.child.ends_within(ENDING) {
                return;
            }
        }
        self.child.kill_group();
        self.child.ends_within(GRACE);
    }
}

/// Reads to the end, and keeps a bounded part.
async fn keep(from: Option<Receiver>, into: &mut Vec<u8>) {
    let Some(mut from) = from else { return };
    let mut piece = vec![0; 16 * 1024];
    while let Ok(count) = from.read(&mut piece).await {
        if count == 0 {
            return;
        }
        let room = KEPT.saturating_sub(into.len()).min(count);
        into.extend_from_slice(&piece[..room]);
    }
}

/// The host's variables for a client: all but secrets. The model's key is left out; variables named
/// after engines, such as `DOCKER_AUTH_CONFIG`, are passed.
fn environment() -> impl Iterator<Item = (OsString, OsString)> {
    secrecy::vars().into_iter().filter_map(|(name, value)| {
        let text = name.to_str().unwrap_or_default();
        let of_engines = [
            "DOCKER_",
            "CONTAINER_",
            "CONTAINERS_",
            "REGISTRY_AUTH",
            "BUILDAH_",
        ]
        .iter()
        .any(|beginning| text.starts_with(beginning));
        if of_engines {
            return Some((name, value));
        }
        if looks_secret(text) {
            return None;
        }
        // Secrets named in the config have been replaced by blanks here.
        let value = std::env::var_os(&name)?;
        Some((name, value))
    })
}

fn variable(name: &OsString, value: &OsString) -> Option<CString> {
    CString::new([name.as_bytes(), b"=", value.as_bytes()].concat()).ok()
}

//! A helper where the commands run: it runs each action as a fresh process, or as a command of one
//! shell.
//!
//! [`mswea_helper`] is the other side, and defines the protocol. A session is one process that stays
//! open; an action costs a fork and an exec there and a few bytes in each direction. The caller
//! must be able to continue without it: an action that kills all processes it can reach kills the
//! helper too.

mod files;
mod transfer;
mod wire;

use std::pin::pin;
use std::time::Duration;

use mswea_helper::dialogue::ARGUMENTS;
use mswea_helper::protocol::{self, ActionInput, HelperReply, HelperRequest, TerminalSize};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::time::{Instant, sleep};

use crate::capture::Capture;
pub(super) use files::FileFault;
use mswea_core::Stop;
pub(super) use transfer::ITSELF;
pub(super) use wire::HelperWire;

/// The most processes that a Linux machine can have.
const MOST_PROCESSES: u32 = 1 << 22;

/// How long the helper may take to report an action that it was told to kill. It tries for three
/// seconds itself.
const KILLING: Duration = Duration::from_secs(5);

/// How long a helper that was just started may take to answer.
pub(super) const ANSWERING: Duration = Duration::from_secs(20);

/// A session with the helper. When it is dropped, the helper ends, with all processes that it
/// started.
pub(super) struct HelperSession {
    wire: HelperWire,
    /// The number of the last action.
    last: u32,
    /// Whether an action was started and its end has not been seen.
    busy: bool,
    /// The messages about the shell at the end of the last action.
    notes: Vec<String>,
    /// See [`KILLING`].
    killing: Duration,
}

/// An action for the helper.
#[derive(Clone, Copy, Debug)]
pub(super) struct HelperAction<'a> {
    /// The program, by path or by name, and its arguments.
    pub(super) argv: &'a [String],
    /// Variables laid over those of the helper.
    pub(super) env: &'a [(String, String)],
    /// Its working directory; none: the helper's.
    pub(super) cwd: Option<&'a str>,
    /// How long background processes may hold the output open before the action ends without them.
    pub(super) grace: Duration,
    /// Its standard input.
    pub(super) input: ActionInput,
}

/// A command for the shell of a helper.
#[derive(Clone, Copy, Debug)]
pub(super) struct ShellAction<'a> {
    /// The bash, by path or by name.
    pub(super) bash: &'a str,
    /// Whether it reads the files of a login shell.
    pub(super) login: bool,
    /// Variables laid over those of the helper, for a shell that is started.
    pub(super) env: &'a [(String, String)],
    /// The directory of the first shell; none: the helper's.
    pub(super) cwd: Option<&'a str>,
    /// How long background processes may add to the output.
    pub(super) grace: Duration,
    /// The mark of the action.
    pub(super) mark: &'a str,
    pub(super) command: &'a str,
    /// The terminal of a shell that is started.
    pub(super) terminal: Option<TerminalSize>,
}

/// How an action ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum HelperEnd {
    /// By itself. The exit code, or 128 plus the number of the signal, as container engines count.
    Exited(i32),
    /// Killed, with all processes that it started, because its time limit expired.
    TimedOut,
    /// Killed likewise, because the run was asked to stop.
    Stopped,
    /// It was not started.
    Failed {
        /// The system's error number.
        errno: i32,
        /// The message: what failed, and why.
        text: String,
    },
}

/// Why there is no session, or no longer one.
#[derive(Debug, thiserror::Error)]
pub(super) enum HelperError {
    /// No bytes have come: the helper could not be run, or its output is blocked.
    #[error("the helper sent nothing within {} s", .0.as_secs_f64())]
    Silent(Duration),
    /// Another program has answered: the beginning of its output, such as the message of an engine
    /// that could not start the helper.
    #[error("the program that answered is not the helper: `{0}`")]
    Foreign(String),
    /// The helper is from another build of the host.
    #[error(
        "the helper has version {found} of the protocol, and this host has version {wanted}: let the host copy its own helper"
    )]
    Version {
        /// The helper's version.
        found: u32,
        /// The host's version.
        wanted: u32,
    },
    /// The helper's stream has ended: an action killed it, or the container is gone.
    #[error("the helper has ended")]
    Gone,
    /// The helper was told to kill an action and has not reported its end.
    #[error(
        "the helper did not answer within {} s after the request to kill the action",
        .0.as_secs_f64()
    )]
    Stuck(Duration),
    /// No bytes of a file could be sent or received for too long.
    #[error("no byte of the file was passed within {} s", .0.as_secs_f64())]
    Stalled(Duration),
    /// The helper sent an invalid frame.
    #[error("the helper sent an invalid message")]
    Garbled,
    /// There is no helper, and the action needs one: the reason.
    #[error("{0}")]
    Missing(String),
    /// There was no helper, and the connection to the action has ended: the reason.
    #[error("{0}")]
    Cut(String),
    /// An earlier action was abandoned, or ended with an error.
    #[error("this session with the helper has ended with an earlier action: start another one")]
    Unusable,
}

/// The events while waiting for an action.
enum HelperEvent {
    TimedOut,
    Stopped,
    /// Bytes were passed; whether the stream is still open.
    Passed(bool),
}

impl HelperSession {
    /// Waits, for `limit` at most, for the helper's hello.
    ///
    /// # Errors
    /// [`HelperError`] if the helper does not answer, or has another version, or another program
    /// answers.
    pub(super) async fn start(
        output: Box<dyn AsyncRead + Send + Unpin>,
        input: Box<dyn AsyncWrite + Send + Unpin>,
        limit: Duration,
    ) -> Result<Self, HelperError> {
        let mut wire = HelperWire::new(output, input);
        wire.greet(limit).await?;
        Ok(Self {
            wire,
            last: 0,
            busy: false,
            notes: Vec::new(),
            killing: KILLING,
        })
    }

    /// Runs an action; its output goes to `capture`, also if it fails.
    ///
    /// If this future is dropped before its end, the session can't be used any more. The action
    /// continues until the session is dropped too.
    ///
    /// # Errors
    /// [`HelperError`] if the session has ended. The action may still run, unless the container is
    /// gone.
    pub(super) async fn run(
        &mut self,
        action: &HelperAction<'_>,
        capture: &mut Capture,
        timeout: Duration,
        stop: &Stop,
    ) -> Result<HelperEnd, HelperError> {
        let request = |id| action.request(id);
        self.perform(request, capture, timeout, stop).await
    }

    /// Runs a command in the helper's shell, like [`Self::run`]; returns also the messages about
    /// the shell for the model.
    ///
    /// # Errors
    /// [`HelperError`] in the cases of [`Self::run`].
    pub(super) async fn ask(
        &mut self,
        action: &ShellAction<'_>,
        capture: &mut Capture,
        timeout: Duration,
        stop: &Stop,
    ) -> Result<(HelperEnd, Vec<String>), HelperError> {
        let request = |id| action.request(id);
        let end = self.perform(request, capture, timeout, stop).await?;
        Ok((end, std::mem::take(&mut self.notes)))
    }

    async fn perform(
        &mut self,
        request: impl Fn(u32) -> HelperRequest,
        capture: &mut Capture,
        timeout: Duration,
        stop: &Stop,
    ) -> Result<HelperEnd, HelperError> {
        if self.busy {
            return Err(HelperError::Unusable);
        }
        if stop.is_stopped() {
            return Ok(HelperEnd::Stopped);
        }
        let id = self.last.wrapping_add(1);
        let Some(frame) = request(id).encode() else {
            return Ok(HelperEnd::Failed {
                errno: libc::E2BIG,
                text: "the command is longer than 16 MiB".to_owned(),
            });
        };
        self.last = id;
        // Set back when the action's end has been seen; it stays true if this future is dropped or
        // returns an error.
        self.busy = true;
        let end = self.attend(id, &frame, capture, timeout, stop).await?;
        self.busy = false;
        self.wire.idle();
        Ok(end)
    }

    async fn attend(
        &mut self,
        id: u32,
        request: &[u8],
        capture: &mut Capture,
        timeout: Duration,
        stop: &Stop,
    ) -> Result<HelperEnd, HelperError> {
        self.wire.post_frame(request);
        let mut expired = pin!(sleep(timeout));
        let mut stopped = pin!(stop.stopped());
        // Why the helper was told to kill the action; none if it was not told so.
        let mut reason = None;
        loop {
            while let Some(reply) = self.wire.next(Some(id))? {
                match reply {
                    HelperReply::Output { bytes, .. } => capture.push(bytes),
                    HelperReply::Taken { .. } => {}
                    HelperReply::Exited {
                        status,
                        killed,
                        left,
                        notes,
                        ..
                    } => {
                        self.notes = notes.lines().map(str::to_owned).collect();
                        if left > 0 {
                            // The helper is in a place that commands may have changed.
                            let count = match left {
                                ..=MOST_PROCESSES => left.to_string(),
                                _ => "unknown".to_owned(),
                            };
                            tracing::warn!(
                                processes = count,
                                "processes of an action can't be killed (another user's, or busy in the kernel): they end with the container or the sandbox, or have to be ended by hand"
                            );
                        }
                        // An action that ended before it could be killed has its own exit code.
                        let reason = reason.filter(|_| killed);
                        return Ok(reason.unwrap_or(HelperEnd::Exited(status)));
                    }
                    HelperReply::Failed { errno, text, .. } => {
                        let text = text.to_owned();
                        return Ok(HelperEnd::Failed { errno, text });
                    }
                }
            }
            // In this order, so that much output does not delay the others.
            let event = tokio::select! {
                biased;
                () = &mut stopped, if reason.is_none() => HelperEvent::Stopped,
                () = &mut expired => HelperEvent::TimedOut,
                goes_on = self.wire.step() => HelperEvent::Passed(goes_on),
            };
            match event {
                HelperEvent::Passed(true) => {}
                HelperEvent::Passed(false) => {
                    capture.push(protocol::cut_off(self.wire.rest(), id));
                    return Err(HelperError::Gone);
                }
                HelperEvent::TimedOut if reason.is_some() => {
                    return Err(HelperError::Stuck(self.killing));
                }
                HelperEvent::TimedOut | HelperEvent::Stopped => {
                    reason = Some(match event {
                        HelperEvent::Stopped => HelperEnd::Stopped,
                        _ => HelperEnd::TimedOut,
                    });
                    self.wire.post(&HelperRequest::Kill { id });
                    expired.as_mut().reset(Instant::now() + self.killing);
                }
            }
        }
    }

    /// Returns the stream, for use with another protocol.
    pub(super) fn into_wire(self) -> HelperWire {
        self.wire
    }

    /// Whether the end of an action that has begun was not seen.
    pub(super) fn is_busy(&self) -> bool {
        self.busy
    }

    /// Whether the helper's output is already known to have ended.
    pub(super) async fn has_ended(&mut self) -> bool {
        tokio::select! {
            biased;
            goes_on = self.wire.read() => !goes_on,
            () = std::future::ready(()) => false,
        }
    }
}

impl HelperAction<'_> {
    pub(super) fn request(&self, id: u32) -> HelperRequest {
        HelperRequest::Run {
            id,
            argv: self
                .argv
                .iter()
                .map(|text| text.as_bytes().to_vec())
                .collect(),
            env: entries(self.env),
            cwd: self.cwd.unwrap_or_default().as_bytes().to_vec(),
            grace_ms: milliseconds(self.grace),
            input: self.input,
        }
    }
}

impl ShellAction<'_> {
    pub(super) fn request(&self, id: u32) -> HelperRequest {
        let argv = [self.bash].into_iter().chain(ARGUMENTS.iter().copied());
        HelperRequest::Ask {
            id,
            argv: argv.map(|text| text.as_bytes().to_vec()).collect(),
            env: entries(self.env),
            cwd: self.cwd.unwrap_or_default().as_bytes().to_vec(),
            grace_ms: milliseconds(self.grace),
            login: self.login,
            mark: self.mark.as_bytes().to_vec(),
            command: self.command.as_bytes().to_vec(),
            terminal: self.terminal,
        }
    }
}

fn entries(env: &[(String, String)]) -> Vec<Vec<u8>> {
    env.iter()
        .map(|(name, value)| format!("{name}={value}").into_bytes())
        .collect()
}

fn milliseconds(time: Duration) -> u32 {
    u32::try_from(time.as_millis()).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests;

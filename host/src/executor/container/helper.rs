//! The fast path: a helper inside the container runs each action as a fresh process.
//!
//! [`mswea_helper`] is the other side, and has the protocol. A session is one exec that stays;
//! an action costs a fork and an exec there and a few bytes each way here. Whoever uses it must
//! be able to go on without: an action that kills all that it can reach kills the helper too.

use std::io;
use std::pin::pin;
use std::time::Duration;

use mswea_helper::protocol::{self, HELLO, LONGEST_REPLY, Reply, Request};
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::time::{Instant, sleep, timeout};

use crate::executor::capture::Capture;
use crate::roles::Stop;

/// How long the helper may take to report an action that it was told to kill. It tries for three
/// seconds itself.
const KILLING: Duration = Duration::from_secs(5);

/// How much is read at once.
const READ: usize = 64 * 1024;

/// How much is shown of what came instead of a hello.
const SHOWN: usize = 400;

/// A session with the helper. When it is dropped, the helper ends, and all that it started.
pub(super) struct HelperSession {
    output: Box<dyn AsyncRead + Send + Unpin>,
    input: Box<dyn AsyncWrite + Send + Unpin>,
    /// What has been read and is no whole frame yet.
    inbox: Vec<u8>,
    /// The number of the last action.
    last: u32,
    /// Whether an action has been begun and its end not been seen.
    busy: bool,
    /// See [`KILLING`].
    killing: Duration,
}

/// An action for the helper.
#[derive(Clone, Copy, Debug)]
pub(super) struct HelperAction<'a> {
    /// The program, by path or by name, and its arguments.
    pub(super) argv: &'a [String],
    /// Variables over those of the helper.
    pub(super) env: &'a [(String, String)],
    /// Where it starts; none means where the helper is.
    pub(super) cwd: Option<&'a str>,
    /// How long processes in the background may hold the output open before they are left to
    /// themselves.
    pub(super) grace: Duration,
}

/// How an action ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum HelperEnd {
    /// By itself. The exit code, or 128 and the number of the signal, as container engines count.
    Exited(i32),
    /// Killed in the container, with all that it started, because its time was up.
    TimedOut,
    /// Likewise, because the run has to end.
    Stopped,
    /// It was not started.
    Failed {
        /// The system's number for the reason.
        errno: i32,
        /// What could not be done, and why.
        text: String,
    },
}

/// Why there is no session, or no longer one.
#[derive(Debug, thiserror::Error)]
pub(super) enum HelperError {
    /// The container could not run it, or something stands between.
    #[error("the helper in the container said nothing within {} s", .0.as_secs_f64())]
    Silent(Duration),
    /// Such as the words of an engine that could not start it.
    #[error("what answered is not the helper: `{0}`")]
    Foreign(String),
    /// It is from another build of the host.
    #[error(
        "the helper in the container speaks version {found} and this host {wanted}: have the host put its own there"
    )]
    Version {
        /// The helper's.
        found: u32,
        /// The host's.
        wanted: u32,
    },
    /// Its stream has ended: an action killed it, or the container has gone.
    #[error("the helper in the container has ended")]
    Gone,
    /// It was told to kill an action and has not reported its end.
    #[error(
        "the helper in the container did not answer within {} s of being told to kill the action",
        .0.as_secs_f64()
    )]
    Stuck(Duration),
    /// It sent what it should not.
    #[error("the helper in the container sent what can't be understood")]
    Garbled,
    /// An action before this one was given up, or ended with an error.
    #[error(
        "this session with the helper has come to an end with an earlier action: start another one"
    )]
    Unusable,
}

/// What the helper says of the end of an action.
enum Ended {
    Exited(i32),
    Killed(i32),
    Failed { errno: i32, text: String },
}

/// What the wait for an action is interrupted by.
enum Event {
    TimedOut,
    Stopped,
    Read(io::Result<usize>),
    Wrote(io::Result<usize>),
    Flushed,
}

impl HelperSession {
    /// Waits, for `limit` at most, until the helper has said what it is.
    ///
    /// # Errors
    /// When it is not there, or another.
    pub(super) async fn start(
        output: Box<dyn AsyncRead + Send + Unpin>,
        input: Box<dyn AsyncWrite + Send + Unpin>,
        limit: Duration,
    ) -> Result<Self, HelperError> {
        let mut session = Self {
            output,
            input,
            inbox: Vec::new(),
            last: 0,
            busy: false,
            killing: KILLING,
        };
        match timeout(limit, session.greet()).await {
            Ok(result) => result.map(|()| session),
            Err(_) if session.inbox.is_empty() => Err(HelperError::Silent(limit)),
            Err(_) => Err(foreign(&session.inbox)),
        }
    }

    async fn greet(&mut self) -> Result<(), HelperError> {
        while self.inbox.len() < HELLO {
            let ended = !matches!(self.read().await, Ok(1..));
            if ended && self.inbox.is_empty() {
                return Err(HelperError::Gone);
            }
            if ended {
                return Err(foreign(&self.inbox));
            }
            if !protocol::may_be_hello(&self.inbox) {
                // For a message, what else there is to it.
                let rest = async { while let Ok(1..) = self.read().await {} };
                let _ = timeout(Duration::from_millis(100), rest).await;
                return Err(foreign(&self.inbox));
            }
        }
        let hello: Vec<u8> = self.inbox.drain(..HELLO).collect();
        match protocol::version(&hello) {
            Some(protocol::VERSION) => Ok(()),
            Some(found) => Err(HelperError::Version {
                found,
                wanted: protocol::VERSION,
            }),
            None => Err(foreign(&hello)),
        }
    }

    /// Runs an action; what it prints goes to `capture`, also if it does not end well.
    ///
    /// If this future is dropped before its end, the session can't be used any more. The action
    /// runs on until the session is dropped too.
    ///
    /// # Errors
    /// When the session has ended. The action may still run, unless the container has gone.
    pub(super) async fn run(
        &mut self,
        action: &HelperAction<'_>,
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
        let Some(frame) = action.request(id).encode() else {
            return Ok(HelperEnd::Failed {
                errno: libc::E2BIG,
                text: "the command is longer than 16 MiB".to_owned(),
            });
        };
        self.last = id;
        // Until its end has been seen; so also if this future is dropped or an error returned.
        self.busy = true;
        let end = self.attend(id, frame, capture, timeout, stop).await?;
        self.busy = false;
        Ok(end)
    }

    async fn attend(
        &mut self,
        id: u32,
        mut to_send: Vec<u8>,
        capture: &mut Capture,
        timeout: Duration,
        stop: &Stop,
    ) -> Result<HelperEnd, HelperError> {
        let mut sent = 0;
        let mut flushed = false;
        let mut expired = pin!(sleep(timeout));
        let mut stopped = pin!(stop.stopped());
        // Why the helper was told to kill it.
        let mut reason = None;
        loop {
            self.inbox.reserve(READ);
            // In this order: a flood of output must not put off the others. Each of these may
            // be dropped and begun again.
            let event = tokio::select! {
                biased;
                () = &mut stopped, if reason.is_none() => Event::Stopped,
                () = &mut expired => Event::TimedOut,
                event = send(&mut self.input, &to_send[sent..]), if !flushed => event,
                read = self.output.read_buf(&mut self.inbox) => Event::Read(read),
            };
            match event {
                Event::Read(Ok(1..)) => match self.take(id, capture)? {
                    None => {}
                    Some(Ended::Failed { errno, text }) => {
                        return Ok(HelperEnd::Failed { errno, text });
                    }
                    // One that had ended before it could be killed has an end of its own.
                    Some(Ended::Exited(status)) => return Ok(HelperEnd::Exited(status)),
                    Some(Ended::Killed(status)) => {
                        return Ok(reason.unwrap_or(HelperEnd::Exited(status)));
                    }
                },
                Event::Read(_) => {
                    capture.push(protocol::cut_off(&self.inbox, id));
                    return Err(HelperError::Gone);
                }
                Event::Wrote(Ok(count @ 1..)) => sent += count,
                // Nobody reads any more; what there is to be read is read first.
                Event::Wrote(_) => (sent, flushed) = (to_send.len(), true),
                Event::Flushed => flushed = true,
                Event::TimedOut if reason.is_some() => {
                    return Err(HelperError::Stuck(self.killing));
                }
                Event::TimedOut | Event::Stopped => {
                    reason = Some(match event {
                        Event::Stopped => HelperEnd::Stopped,
                        _ => HelperEnd::TimedOut,
                    });
                    to_send.extend(Request::Kill { id }.encode().unwrap_or_default());
                    flushed = false;
                    expired.as_mut().reset(Instant::now() + self.killing);
                }
            }
        }
    }

    /// Takes every whole frame out of what has been read.
    fn take(&mut self, id: u32, capture: &mut Capture) -> Result<Option<Ended>, HelperError> {
        let mut done = 0;
        let mut ended = None;
        while ended.is_none() {
            let frame = protocol::frame(&self.inbox[done..], LONGEST_REPLY);
            let Some((content, length)) = frame.map_err(|_| HelperError::Garbled)? else {
                break;
            };
            let reply = Reply::decode(content).map_err(|_| HelperError::Garbled)?;
            if reply.id() != id {
                return Err(HelperError::Garbled);
            }
            done += length;
            match reply {
                Reply::Output { bytes, .. } => capture.push(bytes),
                Reply::Exited {
                    status,
                    killed,
                    left,
                    ..
                } => {
                    if left > 0 {
                        tracing::warn!(
                            processes = left,
                            "processes of an action can't be killed in the container (another \
                             user's, or busy in the kernel): they go with the container"
                        );
                    }
                    ended = Some(match killed {
                        true => Ended::Killed(status),
                        false => Ended::Exited(status),
                    });
                }
                Reply::Failed { errno, text, .. } => {
                    let text = text.to_owned();
                    ended = Some(Ended::Failed { errno, text });
                }
            }
        }
        self.inbox.drain(..done);
        Ok(ended)
    }

    async fn read(&mut self) -> io::Result<usize> {
        self.inbox.reserve(READ);
        self.output.read_buf(&mut self.inbox).await
    }
}

impl HelperAction<'_> {
    /// What a helper that runs this action alone is told; none if that is too long.
    pub(super) fn frame(&self) -> Option<Vec<u8>> {
        self.request(1).encode()
    }

    fn request(&self, id: u32) -> Request {
        Request::Run {
            id,
            argv: self
                .argv
                .iter()
                .map(|text| text.as_bytes().to_vec())
                .collect(),
            env: self
                .env
                .iter()
                .map(|(name, value)| format!("{name}={value}").into_bytes())
                .collect(),
            cwd: self.cwd.unwrap_or_default().as_bytes().to_vec(),
            grace_ms: u32::try_from(self.grace.as_millis()).unwrap_or(u32::MAX),
        }
    }
}

/// Writes once; flushes when there is nothing more to be written.
async fn send(input: &mut (dyn AsyncWrite + Send + Unpin), rest: &[u8]) -> Event {
    if rest.is_empty() {
        // If it fails, the stream to be read from ends too.
        let _ = input.flush().await;
        return Event::Flushed;
    }
    Event::Wrote(input.write(rest).await)
}

/// Something else has answered: shows what.
fn foreign(said: &[u8]) -> HelperError {
    let text = String::from_utf8_lossy(said);
    HelperError::Foreign(text.trim().chars().take(SHOWN).collect())
}

#[cfg(test)]
mod tests;

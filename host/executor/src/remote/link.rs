//! A session at a server, as a stream of bytes that continues when its connections are replaced.
//!
//! One connection receives the output, and another sends the input, one request after the other.
//! Both count their bytes, so a lost connection is replaced by another one that continues at the
//! same byte.

use std::pin::pin;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use bytes::{Buf as _, Bytes, BytesMut};
use http_body_util::BodyExt as _;
use hyper::Method;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, DuplexStream, ReadHalf, WriteHalf};
use tokio::sync::Notify;
use tokio::task::AbortHandle;
use tokio::time::{Instant, sleep, timeout};

use super::endpoint::{Endpoint, RemoteConnection};
use super::fault::RemoteFault;
use super::wire::{CONFIRMED, HEARTBEAT, LARGEST_INPUT, LOST, RECORD_HEAD, StreamRecord, record};
use crate::interactive::HelperGuard;
use crate::stream::HelperLink;

/// The capacity of the stream in each direction, in bytes.
const HELD: usize = 256 * 1024;
/// How many bytes of input one request has: a slow network delivers them within [`LOST`].
const PIECE: usize = 64 * 1024;
const _: () = assert!(PIECE <= LARGEST_INPUT);
/// The first pause between attempts; it doubles each time.
const FIRST_PAUSE: Duration = Duration::from_millis(50);
/// The longest pause between attempts.
const LONGEST_PAUSE: Duration = Duration::from_secs(1);
/// The shortest pause between two questions to a server, whatever interval it asks for.
const SHORTEST_PAUSE: Duration = Duration::from_millis(100);
/// How long a server may take to end a session.
const FAREWELL: Duration = Duration::from_secs(8);

/// A session at a server. Dropping it ends the session in the background. If the process ends
/// before that, the server ends the session after its own time limit.
#[derive(Debug)]
pub(crate) struct RemoteSession {
    link: Arc<SharedLink>,
    carrying: AbortHandle,
    is_over: bool,
}

/// How a session was lost.
#[derive(Clone, Debug)]
struct LostSession {
    fault: RemoteFault,
    /// Whether the last command had begun; none: not known.
    has_begun: Option<bool>,
    /// Whether a command was written.
    is_marked: bool,
    keep: Duration,
}

impl std::fmt::Display for LostSession {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}", self.fault)?;
        if !self.is_marked {
            return Ok(());
        }
        f.write_str("; ")?;
        let keep = self.keep.as_secs_f64();
        let is_gone = matches!(self.fault, RemoteFault::SessionGone(_));
        match (is_gone, self.has_begun) {
            (_, Some(false)) => f.write_str("the command has not begun"),
            (true, Some(true)) => f.write_str("the command had begun, and was ended with the session"),
            (true, None) => f.write_str(
                "it is not known whether the command had begun; if so, it was ended with the session",
            ),
            (false, Some(true)) => write!(
                f,
                "the command had begun; a server that goes on ends it with the session when it has heard nothing for {keep} s"
            ),
            (false, None) => write!(
                f,
                "it is not known whether the command has begun; if so, a server that goes on ends it with the session when it has heard nothing for {keep} s"
            ),
        }
    }
}

impl LostSession {
    /// Whether the server has refused the first bytes of the last command, so that the command has
    /// not begun.
    fn is_unsent(&self) -> bool {
        matches!(self.fault, RemoteFault::SessionGone(_)) && self.has_begun == Some(false)
    }
}

#[derive(Debug)]
struct SharedLink {
    endpoint: Endpoint,
    id: String,
    /// How long a lost connection is retried.
    again: Duration,
    /// How long the server keeps a session whose client is silent.
    keep: Duration,
    /// How many bytes of output have come.
    seen: AtomicU64,
    /// How many bytes of input may have reached the server.
    reached: AtomicU64,
    /// Whether a request with input is under way.
    is_posting: AtomicBool,
    /// `reached` at the beginning of the last command; `u64::MAX` before the first one.
    marked: AtomicU64,
    /// `seen` at that time.
    seen_then: AtomicU64,
    /// Notified when so much output has come that it should be confirmed.
    much: Notify,
    lost: Mutex<Option<LostSession>>,
}

impl RemoteSession {
    /// Begins a session; returns also the stream. A connection that is lost later is retried for
    /// `again`, or as long as the server keeps the session if that is shorter.
    ///
    /// # Errors
    /// [`RemoteFault`] if there is no such server, or it refuses the request.
    pub(crate) async fn open(
        endpoint: &Endpoint,
        again: Duration,
    ) -> Result<(Self, DuplexStream), RemoteFault> {
        let mut connection = endpoint.connect().await?;
        let opened = connection.call(Method::POST, "/v1/sessions", Bytes::new());
        let opened = opened.await?;
        if let Some(fault) = RemoteFault::on_version(endpoint.url(), &opened) {
            return Err(fault);
        }
        let foreign = || RemoteFault::Foreign {
            url: endpoint.url().to_owned(),
            answer: opened.to_string(),
            passing: false,
        };
        let id = opened["id"].as_str().ok_or_else(foreign)?.to_owned();
        let keep = opened["keep_seconds"].as_f64().ok_or_else(foreign)?;
        let keep = Duration::try_from_secs_f64(keep).map_err(|_| foreign())?;
        let link = Arc::new(SharedLink {
            endpoint: endpoint.clone(),
            id,
            again: again.min(keep),
            keep,
            seen: AtomicU64::new(0),
            reached: AtomicU64::new(0),
            is_posting: AtomicBool::new(false),
            marked: AtomicU64::new(u64::MAX),
            seen_then: AtomicU64::new(0),
            much: Notify::new(),
            lost: Mutex::new(None),
        });
        let (near, far) = tokio::io::duplex(HELD);
        let carrying = tokio::spawn(link.clone().carry(far, connection));
        let session = Self {
            link,
            carrying: carrying.abort_handle(),
            is_over: false,
        };
        Ok((session, near))
    }

    /// Why the stream has ended, unless the helper has ended it.
    fn loss(&self) -> Option<LostSession> {
        let lost = self.link.lost.lock();
        lost.unwrap_or_else(PoisonError::into_inner).clone()
    }
}

impl HelperLink for RemoteSession {
    fn mark(&self) {
        let reached = self.link.reached.load(Ordering::Relaxed);
        self.link.marked.store(reached, Ordering::Relaxed);
        let seen = self.link.seen.load(Ordering::Relaxed);
        self.link.seen_then.store(seen, Ordering::Relaxed);
    }

    fn is_unsent(&self) -> bool {
        self.loss().is_some_and(|lost| lost.is_unsent())
    }
}

#[async_trait]
impl HelperGuard for RemoteSession {
    /// Makes the server end the session and all its processes. If it can't be reached now, it does
    /// so after its own time limit.
    async fn dismiss(&mut self) {
        self.carrying.abort();
        self.link.clone().end().await;
        // Set only afterwards: if this future is dropped before, the session is ended in the
        // background.
        self.is_over = true;
    }

    async fn lost(&mut self) -> Option<String> {
        self.loss().map(|lost| lost.to_string())
    }
}

impl Drop for RemoteSession {
    fn drop(&mut self) {
        self.carrying.abort();
        if let (false, Ok(runtime)) = (self.is_over, tokio::runtime::Handle::try_current()) {
            runtime.spawn(self.link.clone().end());
        }
    }
}

/// The attempts to replace a lost connection.
struct Attempts {
    /// When the connection was lost; none while there is one.
    since: Option<Instant>,
    pause: Duration,
}

impl Attempts {
    fn new() -> Self {
        Self {
            since: None,
            pause: FIRST_PAUSE,
        }
    }

    /// Waits before the next attempt.
    ///
    /// # Errors
    /// `fault` if it is permanent, or `limit` is over.
    async fn wait(&mut self, fault: RemoteFault, limit: Duration) -> Result<(), RemoteFault> {
        let since = *self.since.get_or_insert_with(Instant::now);
        if !fault.is_passing() || since.elapsed() >= limit {
            return Err(fault);
        }
        tracing::debug!(%fault, "the connection is taken up again");
        sleep(self.pause.min(limit.saturating_sub(since.elapsed()))).await;
        self.pause = (self.pause * 2).min(LONGEST_PAUSE);
        Ok(())
    }
}

impl SharedLink {
    async fn carry(self: Arc<Self>, stream: DuplexStream, connection: RemoteConnection) {
        let (mut from, mut to) = tokio::io::split(stream);
        let mut pending = BytesMut::new();
        let ended = {
            let mut sending = pin!(self.send(&mut from, &mut pending, connection));
            tokio::select! {
                ended = self.receive(&mut to) => {
                    if self.is_posting.load(Ordering::Relaxed) {
                        // The server's answer tells whether the command has begun.
                        let _ = timeout(LONGEST_PAUSE, &mut sending).await;
                    }
                    ended
                }
                ended = &mut sending => ended,
            }
        };
        // Recorded before the stream is closed.
        if let Err(fault) = ended {
            tracing::debug!(%fault, "a session was lost");
            // Bytes that were written and not taken from the stream have not left this machine.
            let is_unread = tokio::select! {
                biased;
                read = from.read_buf(&mut pending) => matches!(read, Ok(1..)),
                () = std::future::ready(()) => false,
            };
            let marked = self.marked.load(Ordering::Relaxed);
            // A helper says nothing that is not about a command that it has.
            let is_answered =
                self.seen.load(Ordering::Relaxed) > self.seen_then.load(Ordering::Relaxed);
            let may_have_arrived = self.reached.load(Ordering::Relaxed) > marked
                || self.is_posting.load(Ordering::Relaxed);
            let mut lost = self.lost.lock().unwrap_or_else(PoisonError::into_inner);
            *lost = Some(LostSession {
                fault,
                has_begun: match may_have_arrived {
                    _ if is_answered => Some(true),
                    false => Some(false),
                    true if pending.is_empty() && !is_unread => Some(true),
                    true => None,
                },
                is_marked: marked != u64::MAX,
                keep: self.keep,
            });
        }
    }

    /// Passes on the output until the helper has ended, or the reader is gone.
    async fn receive(&self, to: &mut WriteHalf<DuplexStream>) -> Result<(), RemoteFault> {
        let mut attempts = Attempts::new();
        loop {
            match self.stream(to, &mut attempts).await {
                Ok(()) => return Ok(()),
                Err(fault) => attempts.wait(fault, self.again).await?,
            }
        }
    }

    /// Passes on the output of one connection.
    async fn stream(
        &self,
        to: &mut WriteHalf<DuplexStream>,
        attempts: &mut Attempts,
    ) -> Result<(), RemoteFault> {
        let broken = |error: &(dyn std::error::Error + 'static)| {
            RemoteFault::broken(self.endpoint.url(), error)
        };
        let mut connection = self.endpoint.connect().await?;
        let from = self.seen.load(Ordering::Relaxed);
        let path = format!("/v1/sessions/{}/output?from={from}", self.id);
        let answer = connection.ask(Method::GET, &path, Bytes::new()).await?;
        let mut body = answer.into_body();
        let mut inbox = BytesMut::new();
        let mut rest = 0;
        let mut confirmed = from;
        loop {
            let frame = match timeout(LOST, body.frame()).await {
                Ok(Some(frame)) => frame.map_err(|error| broken(&error))?,
                Ok(None) => return Err(broken(&std::io::Error::other("the output was cut"))),
                Err(_) => return Err(self.endpoint.silent()),
            };
            *attempts = Attempts::new();
            inbox.extend_from_slice(&frame.into_data().unwrap_or_default());
            while !inbox.is_empty() {
                if rest == 0 {
                    let head = record(&inbox);
                    match head.map_err(|()| self.garbled())? {
                        None => break,
                        Some(StreamRecord::End) => return Ok(()),
                        Some(StreamRecord::Alive) => {}
                        Some(StreamRecord::Output(length)) => rest = length,
                    }
                    inbox.advance(RECORD_HEAD);
                    continue;
                }
                let piece = inbox.split_to(rest.min(inbox.len()));
                rest -= piece.len();
                let length = piece.len() as u64;
                // Counted first: a reader that has the bytes may begin the next command.
                let seen = self.seen.fetch_add(length, Ordering::Relaxed) + length;
                if to.write_all(&piece).await.is_err() {
                    return Ok(());
                }
                if seen - confirmed >= CONFIRMED {
                    confirmed = seen;
                    self.much.notify_one();
                }
            }
        }
    }

    /// Passes on the input until the writer is gone, and sends empty requests regularly when there
    /// is none. `pending` has the bytes that have not reached the server.
    async fn send(
        &self,
        from: &mut ReadHalf<DuplexStream>,
        pending: &mut BytesMut,
        connection: RemoteConnection,
    ) -> Result<(), RemoteFault> {
        let mut connection = Some(connection);
        let mut at = 0;
        // Short enough that the server keeps the session.
        let pause = HEARTBEAT.min(self.keep / 4).max(SHORTEST_PAUSE);
        loop {
            pending.reserve(HELD);
            tokio::select! {
                read = from.read_buf(pending) => if !matches!(read, Ok(1..)) {
                    return Ok(());
                },
                () = self.much.notified() => {}
                () = sleep(pause) => {}
            }
            // Without input, an empty request tells the server that this client is alive.
            loop {
                let piece = Bytes::copy_from_slice(&pending[..pending.len().min(PIECE)]);
                let mut attempts = Attempts::new();
                let next = at + piece.len() as u64;
                while let Err(fault) = self.post(&mut connection, at, piece.clone()).await {
                    let was_sent = connection.take().is_some_and(|it| !it.is_unsent());
                    // A server that does not have the session has read no byte of it.
                    if was_sent && !matches!(fault, RemoteFault::SessionGone(_)) {
                        self.reached.store(next, Ordering::Relaxed);
                    }
                    attempts.wait(fault, self.again).await?;
                }
                at = next;
                self.reached.store(at, Ordering::Relaxed);
                pending.advance(piece.len());
                if pending.is_empty() {
                    break;
                }
            }
        }
    }

    async fn post(
        &self,
        connection: &mut Option<RemoteConnection>,
        at: u64,
        piece: Bytes,
    ) -> Result<(), RemoteFault> {
        let connection = match connection {
            Some(connection) => connection,
            none => none.insert(self.endpoint.connect().await?),
        };
        let seen = self.seen.load(Ordering::Relaxed);
        let path = format!("/v1/sessions/{}/input?at={at}&seen={seen}", self.id);
        self.is_posting.store(!piece.is_empty(), Ordering::Relaxed);
        let posted = connection.call(Method::POST, &path, piece).await;
        self.is_posting.store(false, Ordering::Relaxed);
        posted.map(drop)
    }

    fn garbled(&self) -> RemoteFault {
        RemoteFault::Foreign {
            url: self.endpoint.url().to_owned(),
            answer: "garbled output".to_owned(),
            passing: false,
        }
    }

    async fn end(self: Arc<Self>) {
        let path = format!("/v1/sessions/{}", self.id);
        let ending = async {
            let mut connection = self.endpoint.connect().await?;
            connection.call(Method::DELETE, &path, Bytes::new()).await
        };
        match timeout(FAREWELL, ending).await {
            Ok(Ok(_) | Err(RemoteFault::SessionGone(_))) => {}
            Ok(Err(fault)) => tracing::debug!(%fault, "a session is left to the server to end"),
            Err(_) => tracing::debug!("a session is left to the server to end: it does not answer"),
        }
    }
}

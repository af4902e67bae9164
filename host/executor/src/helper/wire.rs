//! The stream to a helper: frames out of it, and into it.

use std::io;
use std::time::Duration;

use mswea_helper::protocol::{self, HELLO, HelperReply, HelperRequest, LONGEST_REPLY};
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::time::timeout;

use super::HelperError;

/// The most bytes of one read.
const READ: usize = 64 * 1024;

/// How many bytes of an invalid hello a message shows.
const SHOWN: usize = 400;

/// A stream with a helper at its end.
pub(crate) struct HelperWire {
    output: Box<dyn AsyncRead + Send + Unpin>,
    input: Box<dyn AsyncWrite + Send + Unpin>,
    /// Bytes that were read, and how many of them were taken.
    inbox: Vec<u8>,
    taken: usize,
    /// Bytes to be written, and how many of them were written.
    outbox: Vec<u8>,
    sent: usize,
    is_flushed: bool,
}

impl HelperWire {
    pub(super) fn new(
        output: Box<dyn AsyncRead + Send + Unpin>,
        input: Box<dyn AsyncWrite + Send + Unpin>,
    ) -> Self {
        Self {
            output,
            input,
            inbox: Vec::new(),
            taken: 0,
            outbox: Vec::new(),
            sent: 0,
            is_flushed: true,
        }
    }

    /// Waits, for `limit` at most, for the helper's hello.
    ///
    /// # Errors
    /// [`HelperError`] in the cases of [`HelperSession::start`](super::HelperSession::start).
    pub(super) async fn greet(&mut self, limit: Duration) -> Result<(), HelperError> {
        let coming = async {
            while self.inbox.len() < HELLO && protocol::may_be_hello(&self.inbox) {
                if !self.read().await {
                    return Err(HelperError::Gone);
                }
            }
            Ok(())
        };
        match timeout(limit, coming).await {
            Ok(Ok(())) => {}
            Ok(Err(error)) if self.inbox.is_empty() => return Err(error),
            Err(_) if self.inbox.is_empty() => return Err(HelperError::Silent(limit)),
            Ok(Err(_)) | Err(_) => return Err(self.foreign()),
        }
        match protocol::version(&self.inbox[..HELLO.min(self.inbox.len())]) {
            Some(protocol::VERSION) => {
                self.taken = HELLO;
                Ok(())
            }
            Some(found) => Err(HelperError::Version {
                found,
                wanted: protocol::VERSION,
            }),
            None => {
                // Reads the rest of the answer, for the message.
                let rest = async { while self.read().await {} };
                let _ = timeout(Duration::from_millis(100), rest).await;
                Err(self.foreign())
            }
        }
    }

    /// The error for another program's answer, with its beginning.
    fn foreign(&self) -> HelperError {
        let text = String::from_utf8_lossy(&self.inbox);
        HelperError::Foreign(text.trim().chars().take(SHOWN).collect())
    }

    /// Queues a request, which the next calls of [`Self::step`] write.
    pub(crate) fn post(&mut self, request: &HelperRequest) {
        self.post_frame(&request.encode().unwrap_or_default());
    }

    /// The same for an encoded request.
    pub(crate) fn post_frame(&mut self, frame: &[u8]) {
        self.outbox.extend_from_slice(frame);
        self.is_flushed = false;
    }

    /// Whether all queued requests were written.
    pub(crate) fn is_flushed(&self) -> bool {
        self.is_flushed
    }

    /// Writes once, or reads once if there is nothing to write; returns whether the stream is still
    /// open. Can be dropped and called again.
    pub(crate) async fn step(&mut self) -> bool {
        self.inbox.reserve(READ);
        tokio::select! {
            biased;
            written = write(&mut self.input, &self.outbox[self.sent..]), if !self.is_flushed => {
                match written {
                    Ok(Some(count @ 1..)) => self.sent += count,
                    // Everything is written, or the helper no longer reads. Its replies are read
                    // first.
                    _ => {
                        self.outbox.clear();
                        (self.sent, self.is_flushed) = (0, true);
                    }
                }
                true
            }
            read = self.output.read_buf(&mut self.inbox) => matches!(read, Ok(1..)),
        }
    }

    /// Reads once; returns whether bytes have come. Can be dropped and called again.
    pub(super) async fn read(&mut self) -> bool {
        self.inbox.reserve(READ);
        matches!(self.output.read_buf(&mut self.inbox).await, Ok(1..))
    }

    /// Takes the next complete reply out of the bytes that were read; none if there is none. `id`:
    /// the action that the reply has to belong to.
    ///
    /// # Errors
    /// [`HelperError::Garbled`] if the reply is invalid, or belongs to another action.
    pub(crate) fn next(&mut self, id: Option<u32>) -> Result<Option<HelperReply<'_>>, HelperError> {
        let rest = &self.inbox[self.taken..];
        let frame = protocol::frame(rest, LONGEST_REPLY).map_err(|_| HelperError::Garbled)?;
        let Some((size, length)) = frame.map(|(content, length)| (content.len(), length)) else {
            self.inbox.drain(..self.taken);
            self.taken = 0;
            return Ok(None);
        };
        self.taken += length;
        let reply = HelperReply::decode(&self.inbox[self.taken - size..self.taken]);
        match reply.map_err(|_| HelperError::Garbled)? {
            reply if id.is_some_and(|id| id != reply.id()) => Err(HelperError::Garbled),
            reply => Ok(Some(reply)),
        }
    }

    /// The bytes that were read and are no complete reply.
    pub(super) fn rest(&self) -> &[u8] {
        &self.inbox[self.taken..]
    }

    /// Frees memory: most streams of a process are waiting for their next action.
    pub(super) fn idle(&mut self) {
        if self.rest().is_empty() {
            (self.inbox, self.taken) = (Vec::new(), 0);
        }
        self.outbox = Vec::new();
    }

    #[cfg(test)]
    pub(super) fn capacity(&self) -> usize {
        self.inbox.capacity()
    }
}

/// Writes once; if nothing is left to write, flushes and returns none.
async fn write(
    input: &mut (dyn AsyncWrite + Send + Unpin),
    rest: &[u8],
) -> io::Result<Option<usize>> {
    match rest {
        [] => input.flush().await.map(|()| None),
        _ => input.write(rest).await.map(Some),
    }
}

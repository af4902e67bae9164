//! The streams of a process in a container, in the form that the daemon sends over a hijacked
//! connection.

use std::io;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, Waker, ready};

use hyper::upgrade::Upgraded;
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncBufRead, AsyncRead, AsyncWrite, BufReader, ReadBuf, ReadHalf, WriteHalf};
use tokio::sync::watch;

use super::engine::{EngineError, EngineErrorKind};

type Wire = TokioIo<Upgraded>;

/// The most bytes of one read from the connection.
const PIECE: usize = 16 * 1024;
/// How many bytes of the beginning are kept for messages.
const HEAD: usize = 1024;

/// Splits a connection into output, input, and information about the output. Without `input`, that
/// direction stays open and unused.
pub(super) fn split(wire: Wire, input: bool) -> (ExecOutput, Option<ExecInput>, Watched) {
    let (reading, writing) = tokio::io::split(wire);
    let (tap, watched) = tap();
    let output = ExecOutput {
        wire: BufReader::with_capacity(PIECE, reading),
        header: [0; 8],
        got: 0,
        left: 0,
        tap,
    };
    (output, input.then_some(ExecInput(writing)), watched)
}

/// Records what a reader of an output has read.
pub(super) struct Tap {
    head: Arc<Mutex<Vec<u8>>>,
    ended: watch::Sender<bool>,
}

/// A tap, and its receiver.
pub(super) fn tap() -> (Tap, Watched) {
    let (ended, watched) = watch::channel(false);
    let head = Arc::new(Mutex::new(Vec::new()));
    let tap = Tap {
        head: head.clone(),
        ended,
    };
    let watched = Watched {
        ended: watched,
        head,
    };
    (tap, watched)
}

impl Tap {
    pub(super) fn see(&self, piece: &[u8]) {
        let mut head = self.head.lock().unwrap_or_else(PoisonError::into_inner);
        let room = HEAD.saturating_sub(head.len()).min(piece.len());
        head.extend_from_slice(&piece[..room]);
    }

    pub(super) fn end(&self) {
        self.ended.send_replace(true);
    }
}

/// Information about an [`ExecOutput`] for code that does not read it.
pub(super) struct Watched {
    ended: watch::Receiver<bool>,
    head: Arc<Mutex<Vec<u8>>>,
}

impl Watched {
    /// Resolves when no more output comes, or the output is no longer read.
    pub(super) async fn ended(&mut self) {
        let _ = self.ended.wait_for(|ended| *ended).await;
    }

    /// The beginning of what was read.
    pub(super) fn head(&self) -> String {
        let head = self.head.lock().unwrap_or_else(PoisonError::into_inner);
        String::from_utf8_lossy(&head).trim().to_owned()
    }
}

/// The output of the process. On the connection each piece has a header with its stream and its
/// length.
pub(super) struct ExecOutput {
    wire: BufReader<ReadHalf<Wire>>,
    header: [u8; 8],
    /// How many bytes of the header have come.
    got: usize,
    /// How many bytes of the piece are missing.
    left: usize,
    tap: Tap,
}

impl AsyncRead for ExecOutput {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        into: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        loop {
            let available = match ready!(Pin::new(&mut this.wire).poll_fill_buf(context)) {
                Ok(available) => available,
                // A container that is killed may close the connection; the process's status tells
                // how it ended.
                Err(error) => {
                    tracing::debug!(%error, "output of a process in a container");
                    &[]
                }
            };
            if available.is_empty() {
                this.tap.end();
                return Poll::Ready(match this.left > 0 || this.got > 0 {
                    true => Err(io::ErrorKind::UnexpectedEof.into()),
                    false => Ok(()),
                });
            }
            if this.left > 0 {
                let count = available.len().min(this.left).min(into.remaining());
                let piece = &available[..count];
                into.put_slice(piece);
                this.tap.see(piece);
                this.left -= count;
                Pin::new(&mut this.wire).consume(count);
                return Poll::Ready(Ok(()));
            }
            let count = available.len().min(this.header.len() - this.got);
            this.header[this.got..this.got + count].copy_from_slice(&available[..count]);
            this.got += count;
            Pin::new(&mut this.wire).consume(count);
            if this.got == this.header.len() {
                this.got = 0;
                let [_, _, _, _, length @ ..] = this.header;
                this.left = u32::from_be_bytes(length) as usize;
            }
        }
    }
}

/// The error of an output that has ended before its process: an engine ends it with the process, even if
/// that closes its own output earlier.
pub(super) fn cut() -> EngineError {
    EngineError {
        kind: EngineErrorKind::Other,
        message: "the connection to the engine ended in the middle of the output".to_owned(),
    }
}

/// The input of the process. Dropping it or shutting it down ends the input.
pub(super) struct ExecInput(WriteHalf<Wire>);

impl AsyncWrite for ExecInput {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.0).poll_write(context, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_shutdown(context)
    }
}

impl Drop for ExecInput {
    fn drop(&mut self) {
        // For sockets this never waits.
        let mut context = Context::from_waker(Waker::noop());
        let _ = Pin::new(&mut self.0).poll_shutdown(&mut context);
    }
}

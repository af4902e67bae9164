//! The output of a helper for a client: the kept bytes from an offset on, and then the new ones.

use std::collections::VecDeque;
use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};

use bytes::{BufMut as _, Bytes, BytesMut};
use hyper::body::{Body, Frame};
use mswea_executor::remote::wire::{ALIVE, END, HEARTBEAT, KEPT, LARGEST_RECORD, RECORD_HEAD};
use tokio::net::unix::pipe;
use tokio::sync::Notify;
use tokio::time::sleep;

/// How much of a helper's output is read at once, in bytes.
const READ: usize = 64 * 1024;

/// The output of one helper that the client has not confirmed.
#[derive(Debug, Default)]
pub(super) struct KeptOutput {
    state: Mutex<KeptState>,
    /// There is more to send, or the output has ended.
    grown: Notify,
    /// There is room for more output.
    freed: Notify,
}

#[derive(Debug, Default)]
struct KeptState {
    bytes: VecDeque<u8>,
    /// The offset of the first of `bytes`.
    start: u64,
    /// Whether the helper has closed its output.
    is_whole: bool,
    /// How many streams were opened: only the last one gets output.
    streams: u64,
}

/// Why the output from an offset on is not available.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum OffsetError {
    /// It was confirmed before, and dropped.
    Forgotten,
    /// The helper has not written that much.
    Future,
}

/// The result of a check for output.
enum OutputPart {
    Output(Bytes),
    Nothing,
    /// The helper has ended.
    End,
    /// The client has opened another stream, or the session is over.
    Replaced,
}

impl KeptOutput {
    fn state(&self) -> MutexGuard<'_, KeptState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Reads the helper's output until its end; waits while too much is unconfirmed.
    pub(super) async fn fill(&self, mut output: pipe::Receiver) {
        use tokio::io::AsyncReadExt as _;
        let mut buffer = BytesMut::with_capacity(READ);
        loop {
            let freed = self.freed.notified();
            if self.state().bytes.len() >= KEPT {
                freed.await;
                continue;
            }
            buffer.clear();
            buffer.reserve(READ);
            let read = output.read_buf(&mut buffer).await;
            let mut state = self.state();
            match read {
                Ok(1..) => state.bytes.extend(&buffer),
                _ => state.is_whole = true,
            }
            let is_whole = state.is_whole;
            drop(state);
            self.grown.notify_waiters();
            if is_whole {
                return;
            }
        }
    }

    /// Drops the output before `seen`.
    ///
    /// # Errors
    /// [`OffsetError::Future`] if that output was not sent yet.
    pub(super) fn confirm(&self, seen: u64) -> Result<(), OffsetError> {
        let mut state = self.state();
        let Some(count) = seen.checked_sub(state.start) else {
            // A delayed older request.
            return Ok(());
        };
        if count > state.bytes.len() as u64 {
            return Err(OffsetError::Future);
        }
        state.bytes.drain(..count as usize);
        state.start = seen;
        drop(state);
        self.freed.notify_one();
        Ok(())
    }

    /// A stream of the output from `from` on, which ends all earlier streams.
    ///
    /// # Errors
    /// [`OffsetError`] if that output is not available.
    pub(super) fn stream(self: &Arc<Self>, from: u64) -> Result<OutputStream, OffsetError> {
        if from < self.state().start {
            return Err(OffsetError::Forgotten);
        }
        self.confirm(from)?;
        let mut state = self.state();
        state.streams += 1;
        let number = state.streams;
        drop(state);
        self.grown.notify_waiters();
        let cursor = OutputCursor {
            output: self.clone(),
            at: from,
            number,
        };
        Ok(OutputStream {
            next: Some(Box::pin(cursor.next())),
        })
    }

    /// Ends all streams, because the session is over.
    pub(super) fn close(&self) {
        self.state().streams += 1;
        self.grown.notify_waiters();
    }

    fn look(&self, at: u64, number: u64) -> OutputPart {
        let state = self.state();
        if state.streams != number {
            return OutputPart::Replaced;
        }
        let sent = at.saturating_sub(state.start) as usize;
        let count = (state.bytes.len().saturating_sub(sent)).min(LARGEST_RECORD);
        if count == 0 {
            return match state.is_whole {
                true => OutputPart::End,
                false => OutputPart::Nothing,
            };
        }
        let mut record = BytesMut::with_capacity(RECORD_HEAD + count);
        record.put_u32(count as u32);
        let (first, second) = state.bytes.as_slices();
        let early = first.get(sent..).unwrap_or_default();
        let early = &early[..count.min(early.len())];
        record.put_slice(early);
        let late = &second[sent.saturating_sub(first.len())..];
        record.put_slice(&late[..count - early.len()]);
        OutputPart::Output(record.freeze())
    }
}

/// The position of a stream in the output.
struct OutputCursor {
    output: Arc<KeptOutput>,
    at: u64,
    number: u64,
}

type StreamStep = (Option<OutputCursor>, Result<Bytes, ReplacedStream>);

impl OutputCursor {
    /// The next record, and the rest of the stream, if it continues.
    async fn next(mut self) -> StreamStep {
        let output = self.output.clone();
        loop {
            let mut grown = std::pin::pin!(output.grown.notified());
            grown.as_mut().enable();
            match output.look(self.at, self.number) {
                OutputPart::Output(record) => {
                    self.at += (record.len() - RECORD_HEAD) as u64;
                    return (Some(self), Ok(record));
                }
                OutputPart::End => return (None, Ok(Bytes::from_static(&END))),
                OutputPart::Replaced => return (None, Err(ReplacedStream)),
                OutputPart::Nothing => {}
            }
            tokio::select! {
                () = grown => {}
                () = sleep(HEARTBEAT) => return (Some(self), Ok(Bytes::from_static(&ALIVE))),
            }
        }
    }
}

/// The body of an answer with the output of a helper.
pub(super) struct OutputStream {
    next: Option<Pin<Box<dyn Future<Output = StreamStep> + Send>>>,
}

/// The error of a stream whose client has opened another one, or whose session is over.
#[derive(Debug, thiserror::Error)]
#[error("the session's output goes elsewhere")]
pub(super) struct ReplacedStream;

impl Body for OutputStream {
    type Data = Bytes;
    type Error = ReplacedStream;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, ReplacedStream>>> {
        let Some(next) = &mut self.next else {
            return Poll::Ready(None);
        };
        let Poll::Ready((cursor, record)) = next.as_mut().poll(context) else {
            return Poll::Pending;
        };
        self.next = cursor.map(|cursor| Box::pin(cursor.next()) as _);
        Poll::Ready(Some(record.map(Frame::data)))
    }
}

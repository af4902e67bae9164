//! The conversation with the helper of one program: reads its output at all times, and passes requests
//! on.

use std::io;

use mswea_core::ProgramEnd;
use mswea_helper::protocol::{self, HelperReply, HelperRequest, LONGEST_REPLY};
use tokio::io::{AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::sync::{mpsc, watch};
use tokio::task::JoinHandle;
use tokio::time::Instant;

use super::transcript::Transcript;
use crate::helper::{HelperAction, HelperSession};

/// The number of the only action of this helper.
pub(super) const ID: u32 = 1;
/// The most bytes of one read.
const READ: usize = 64 * 1024;

/// What is known of a program.
#[derive(Debug)]
pub(super) struct ProgramState {
    pub(super) output: Transcript,
    /// When output came last.
    pub(super) heard: Instant,
    /// How many bytes of its input it has taken.
    pub(super) taken: u64,
    pub(super) takes_input: bool,
    pub(super) end: Option<ProgramEnd>,
}

/// A conversation. Dropped, it is cut off at once, which ends the helper.
pub(super) struct ProgramConnection {
    pub(super) state: watch::Sender<ProgramState>,
    requests: mpsc::UnboundedSender<HelperRequest>,
    task: JoinHandle<()>,
}

impl ProgramConnection {
    /// Starts the program; none if its command is too long.
    pub(super) fn start(
        session: HelperSession,
        action: &HelperAction<'_>,
        keep: usize,
    ) -> Option<Self> {
        let first = action.request(ID).encode()?;
        let state = watch::Sender::new(ProgramState {
            output: Transcript::new(keep),
            heard: Instant::now(),
            taken: 0,
            takes_input: true,
            end: None,
        });
        let (requests, asked) = mpsc::unbounded_channel();
        let task = tokio::spawn(converse(session, first, asked, state.clone()));
        Some(Self {
            state,
            requests,
            task,
        })
    }

    /// Passes a request on.
    pub(super) fn request(&self, request: HelperRequest) {
        // If nobody takes it, the program has ended.
        let _ = self.requests.send(request);
    }

    /// Cuts it off; the streams are closed afterwards.
    pub(super) async fn cut_off(&mut self) {
        self.task.abort();
        let _ = (&mut self.task).await;
    }
}

impl Drop for ProgramConnection {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn converse(
    session: HelperSession,
    first: Vec<u8>,
    mut requests: mpsc::UnboundedReceiver<HelperRequest>,
    state: watch::Sender<ProgramState>,
) {
    let (mut output, mut input, mut inbox) = session.into_streams();
    let mut to_send = first;
    let mut sent = 0;
    let mut is_flushed = false;
    let end = loop {
        match take(&mut inbox, &state) {
            Ok(None) => {}
            Ok(Some(end)) => break end,
            Err(protocol::Malformed) => {
                break ProgramEnd::Lost("its helper sent an invalid message".to_owned());
            }
        }
        inbox.reserve(READ);
        // Each of these can be dropped and started again.
        tokio::select! {
            biased;
            written = write(&mut input, &to_send[sent..]), if !is_flushed => match written {
                Ok(Some(count @ 1..)) => sent += count,
                Ok(None) => is_flushed = true,
                // It no longer reads; what it has sent is read first.
                _ => (sent, is_flushed) = (to_send.len(), true),
            },
            Some(request) = requests.recv(), if is_flushed => {
                (to_send, sent) = (request.encode().unwrap_or_default(), 0);
                is_flushed = false;
            }
            read = output.read_buf(&mut inbox) => if !matches!(read, Ok(1..)) {
                break ProgramEnd::Lost("its helper has ended".to_owned());
            },
        }
    };
    state.send_modify(|state| {
        state.output.finish();
        state.end = Some(end);
    });
}

/// Writes once, or flushes if nothing is left to write.
async fn write(
    input: &mut (dyn AsyncWrite + Send + Unpin),
    rest: &[u8],
) -> io::Result<Option<usize>> {
    match rest {
        [] => input.flush().await.map(|()| None),
        _ => input.write(rest).await.map(Some),
    }
}

/// Takes all complete frames out of the inbox; returns how the program has ended, if it has.
fn take(
    inbox: &mut Vec<u8>,
    state: &watch::Sender<ProgramState>,
) -> Result<Option<ProgramEnd>, protocol::Malformed> {
    let mut done = 0;
    let mut end = None;
    while end.is_none()
        && let Some((content, length)) = protocol::frame(&inbox[done..], LONGEST_REPLY)?
    {
        done += length;
        match HelperReply::decode(content)? {
            HelperReply::Output { bytes, .. } => state.send_modify(|state| {
                state.output.push(bytes);
                state.heard = Instant::now();
            }),
            HelperReply::Taken { count, is_open, .. } => state.send_modify(|state| {
                state.taken += u64::from(count);
                state.takes_input = is_open;
            }),
            HelperReply::Exited { killed: true, .. } => end = Some(ProgramEnd::Closed),
            HelperReply::Exited { status, .. } => end = Some(ProgramEnd::Exited(status)),
            HelperReply::Failed { text, .. } => end = Some(ProgramEnd::Lost(text.to_owned())),
        }
    }
    inbox.drain(..done);
    Ok(end)
}

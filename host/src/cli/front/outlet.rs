//! Stdout and stderr behind queues, written by threads of their own: a reader that stops reading,
//! or a terminal that was stopped (Ctrl-S), must not keep the run from its signals and its time
//! limit.
//!
//! A queue has a bound. Further pieces wait in a file ([`Spool`]), so that no event is left out.
//! Pieces of an answer that is still arriving may be left out, since the whole answer follows.
//! Other pieces are left out only if the file can't be written; a later message has their number.

use std::collections::VecDeque;
use std::io::{self, ErrorKind, Write};
use std::os::fd::AsFd;
use std::sync::{Arc, Condvar, Mutex, OnceLock, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use tokio::sync::watch;

use super::below;
use super::spool::Spool;
use super::{Look, lock};
use mswea_core::Stop;

/// The most bytes that wait in memory for a reader that does not read.
const ROOM: usize = 1 << 20;
/// The most waiting bytes at which [`Worth::Spare`] pieces are still accepted.
const ROOM_FOR_SPARE: usize = 256 << 10;
/// The size of one write: small, so that the progress of a slow reader can be seen.
const BLOCK: usize = 32 << 10;
/// The time at the end of a run after which the program no longer waits for a reader of stdout that
/// reads nothing.
const READER_TIME_LIMIT: Duration = Duration::from_secs(10);
/// The same time for stderr, which has no data.
const MESSAGE_TIME_LIMIT: Duration = Duration::from_secs(2);
/// After this time, a message tells a user at a terminal what the program is waiting for.
const SILENT_WAIT: Duration = Duration::from_secs(2);
/// How long to wait for room if the other end is in non-blocking mode.
const PAUSE: Duration = Duration::from_millis(5);

/// How a piece is handled when its queue is full.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Worth {
    /// It is left out: a later piece has the same content.
    Spare,
    /// It is written to a file. If this fails, it is left out, and a message says so.
    Usual,
    /// It is written to a file; if this fails, it is kept in memory.
    Data,
}

/// The output of a sink: a plain writer, or a queue.
pub(super) trait Drain: Send {
    /// Takes the text, and writes it at once or later.
    fn put(&mut self, text: &str, worth: Worth) -> io::Result<()>;
    /// Whether all text was written, or can never be written.
    fn is_written(&self) -> bool {
        true
    }
    /// A later error of the writer, returned once. A closed pipe is no error.
    fn take_error(&mut self) -> Option<io::Error> {
        None
    }
}

impl<W: Write + Send> Drain for W {
    fn put(&mut self, text: &str, _: Worth) -> io::Result<()> {
        self.write_all(text.as_bytes())?;
        self.flush()
    }
}

/// One stream of a queue.
#[derive(Clone)]
pub(super) struct Outlet {
    queue: Arc<OutletQueue>,
    stream: usize,
    lost: LossNotice,
}

/// The writer of a stream.
type StreamWriter = Box<dyn Write + Send>;
/// Makes the message that so many pieces are missing.
type LossNotice = fn(u64) -> String;

struct OutletQueue {
    state: Mutex<OutletState>,
    /// Signals that there is something to write.
    more: Condvar,
    /// Signals that something was written.
    less: Condvar,
    /// The number of written bytes, for async code.
    written: watch::Sender<u64>,
}

#[derive(Default)]
struct OutletState {
    pieces: VecDeque<(usize, Vec<u8>)>,
    /// The number of bytes in `pieces`.
    held: usize,
    /// The pieces after those in memory.
    spool: Spool,
    streams: Vec<OutletStream>,
    written: u64,
}

#[derive(Default)]
struct OutletStream {
    /// The number of bytes that were accepted and not written yet.
    waiting: usize,
    /// The number of pieces that were left out since the last one that was accepted.
    lost: u64,
    error: Option<io::Error>,
    /// No more data is written to this stream.
    closed: bool,
}

impl Outlet {
    /// Starts a queue with a stream for each of these writers. The texts of all streams are written
    /// in their common order.
    fn start<const N: usize>(
        streams: [(StreamWriter, LossNotice); N],
        spool: Spool,
    ) -> io::Result<[Self; N]> {
        let (written, _) = watch::channel(0);
        let queue = Arc::new(OutletQueue {
            state: Mutex::new(OutletState {
                streams: streams.iter().map(|_| OutletStream::default()).collect(),
                spool,
                ..OutletState::default()
            }),
            more: Condvar::new(),
            less: Condvar::new(),
            written,
        });
        let mut number = 0..;
        let outlets = streams.each_ref().map(|(_, lost)| Self {
            queue: queue.clone(),
            stream: number.next().unwrap_or_default(),
            lost: *lost,
        });
        let mut writers: Vec<_> = streams.into_iter().map(|(writer, _)| writer).collect();
        thread::Builder::new()
            .name("output".to_owned())
            .spawn(move || queue.write(&mut writers))?;
        Ok(outlets)
    }

    fn push(&self, text: &str, worth: Worth) {
        let mut state = lock(&self.queue.state);
        let stream = &state.streams[self.stream];
        if stream.closed || (worth == Worth::Spare && stream.waiting > ROOM_FOR_SPARE) {
            return;
        }
        let lost = match state.streams[self.stream].lost {
            0 => String::new(),
            count => (self.lost)(count),
        };
        if state.push(self.stream, &format!("{lost}{text}"), worth) {
            state.streams[self.stream].lost = 0;
        } else {
            state.streams[self.stream].lost += 1;
        }
        drop(state);
        self.queue.more.notify_one();
    }

    /// Whether all data is written, or can never be written.
    fn is_empty(&self) -> bool {
        self.is_empty_in(&mut lock(&self.queue.state))
    }

    fn is_empty_in(&self, state: &mut OutletState) -> bool {
        let stream = &state.streams[self.stream];
        if stream.waiting == 0 && stream.lost > 0 && !stream.closed {
            let count = std::mem::take(&mut state.streams[self.stream].lost);
            state.hold(self.stream, (self.lost)(count).as_bytes());
            self.queue.more.notify_one();
        }
        let stream = &state.streams[self.stream];
        stream.closed || stream.waiting == 0
    }

    /// Waits until all data is written. The wait ends after `patience` without progress, and on a
    /// signal. Returns whether all data is written.
    async fn drained(&self, patience: Option<Duration>, stop: &Stop) -> bool {
        let mut written = self.queue.written.subscribe();
        let signal = stop.stopped_again();
        tokio::pin!(signal);
        while !self.is_empty() {
            let wait = async {
                match patience {
                    Some(patience) => tokio::time::sleep(patience).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                _ = written.changed() => {}
                () = wait => return self.is_empty(),
                () = &mut signal => return self.is_empty(),
            }
        }
        true
    }

    /// The same without an async runtime.
    fn settle(&self, patience: Duration) {
        let mut seen = None;
        let mut end = Instant::now() + patience;
        let mut state = lock(&self.queue.state);
        // The lock is held from the check until the wait, because a message between them would be
        // missed.
        while !self.is_empty_in(&mut state) {
            if seen.replace(state.written) != Some(state.written) {
                end = Instant::now() + patience;
            }
            let left = end.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return;
            }
            let waited = self.queue.less.wait_timeout(state, left);
            state = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
    }
}

impl Drain for Outlet {
    fn put(&mut self, text: &str, worth: Worth) -> io::Result<()> {
        self.push(text, worth);
        Ok(())
    }

    fn is_written(&self) -> bool {
        self.is_empty()
    }

    fn take_error(&mut self) -> Option<io::Error> {
        lock(&self.queue.state).streams[self.stream].error.take()
    }
}

impl OutletState {
    /// Accepts a piece; returns whether it could.
    fn push(&mut self, stream: usize, text: &str, worth: Worth) -> bool {
        let text = text.as_bytes();
        if self.spool.is_empty() && self.held + text.len() <= ROOM {
            self.hold(stream, text);
            return true;
        }
        let number = u8::try_from(stream).unwrap_or_default();
        match (self.spool.push(number, text), worth) {
            (Ok(()), _) => {
                self.streams[stream].waiting += text.len();
                true
            }
            // The piece is written before those in the file, because otherwise it would be lost.
            (Err(_), Worth::Data) => {
                self.hold(stream, text);
                true
            }
            (Err(_), _) => false,
        }
    }

    /// Stores a piece in memory.
    fn hold(&mut self, stream: usize, text: &[u8]) {
        self.streams[stream].waiting += text.len();
        self.held += text.len();
        // A reply of the model arrives in thousands of small pieces.
        match self.pieces.back_mut() {
            Some((last, piece)) if *last == stream && piece.len() + text.len() <= BLOCK => {
                piece.extend_from_slice(text);
            }
            _ => self.pieces.push_back((stream, text.to_vec())),
        }
    }

    /// The piece that is to be written next.
    fn pop(&mut self) -> Option<(usize, Vec<u8>)> {
        if let Some((stream, piece)) = self.pieces.pop_front() {
            self.held -= piece.len();
            return Some((stream, piece));
        }
        match self.spool.pop() {
            Ok(piece) => piece.map(|(stream, piece)| (usize::from(stream), piece)),
            Err(error) => {
                tracing::debug!(%error, "output that waited in a file for its reader is lost");
                for stream in &mut self.streams {
                    stream.lost += u64::from(std::mem::take(&mut stream.waiting) > 0);
                }
                None
            }
        }
    }
}

impl OutletQueue {
    fn write(&self, writers: &mut [StreamWriter]) {
        loop {
            let mut state = lock(&self.state);
            let (stream, piece) = loop {
                match state.pop() {
                    Some(piece) => break piece,
                    None => {
                        state = self
                            .more
                            .wait(state)
                            .unwrap_or_else(PoisonError::into_inner);
                    }
                }
            };
            let closed = state.streams[stream].closed;
            drop(state);
            for block in piece.chunks(BLOCK) {
                if !closed && let Err(error) = write_all(&mut writers[stream], block) {
                    self.close(stream, error);
                    break;
                }
                self.count(stream, block.len());
            }
        }
    }

    fn close(&self, stream: usize, error: io::Error) {
        let mut state = lock(&self.state);
        let OutletState {
            pieces,
            held,
            streams,
            ..
        } = &mut *state;
        pieces.retain(|(of, _)| *of != stream);
        *held = pieces.iter().map(|(_, piece)| piece.len()).sum();
        let stream = &mut streams[stream];
        stream.closed = true;
        stream.waiting = 0;
        if error.kind() != ErrorKind::BrokenPipe {
            stream.error = Some(error);
        }
        drop(state);
        self.tell();
    }

    fn count(&self, stream: usize, bytes: usize) {
        let mut state = lock(&self.state);
        let waiting = &mut state.streams[stream].waiting;
        *waiting = waiting.saturating_sub(bytes);
        state.written += bytes as u64;
        drop(state);
        self.tell();
    }

    fn tell(&self) {
        self.less.notify_all();
        self.written.send_modify(|count| *count += 1);
    }
}

/// Writes all data, also if the other end is in non-blocking mode.
fn write_all(writer: &mut (impl Write + ?Sized), mut block: &[u8]) -> io::Result<()> {
    while !block.is_empty() {
        match writer.write(block) {
            Ok(0) => return Err(ErrorKind::WriteZero.into()),
            Ok(count) => block = &block[count..],
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) if error.kind() == ErrorKind::WouldBlock => thread::sleep(PAUSE),
            Err(error) => return Err(error),
        }
    }
    writer.flush()
}

/// A stream of this process without the buffer and the lock of the standard library.
struct Standard<F>(fn() -> F);

impl<F: AsFd> Write for Standard<F> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        Ok(rustix::io::write((self.0)(), bytes)?)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Stdout and stderr of a run.
pub(super) struct Outlets {
    pub(super) out: Outlet,
    pub(super) err: Outlet,
    look: Look,
}

static OUTLETS: OnceLock<Outlets> = OnceLock::new();

/// The queues of this process, made on the first call; none if no thread can be started.
pub(super) fn start(look: Look, lost_on_stdout: LossNotice) -> Option<&'static Outlets> {
    if OUTLETS.get().is_none() {
        let out: StreamWriter = Box::new(Standard(io::stdout));
        let err: StreamWriter = Box::new(Standard(io::stderr));
        let (out, err) = ((out, lost_on_stdout), (err, lost_words as LossNotice));
        // On a terminal, both streams appear in the order of their writes.
        let [out, err] = if look.live && look.stdout_terminal {
            Outlet::start([out, err], spool()).ok()?
        } else {
            let [out] = Outlet::start([out], spool()).ok()?;
            let [err] = Outlet::start([err], spool()).ok()?;
            [out, err]
        };
        let _ = OUTLETS.set(Outlets { out, err, look });
    }
    OUTLETS.get()
}

/// A spool on the disk: on many machines the folder of temporary files is in memory.
fn spool() -> Spool {
    let folder = mswea_files::state_folder("runs");
    Spool::new(Some(folder).filter(|folder| folder.is_dir()))
}

/// The message about missing text for users.
pub(super) fn lost_words(count: u64) -> String {
    format!("\n... {count} pieces left out: they came faster than they were read ...\n")
}

/// Writes a text for users to stderr: through the queue of the run, if there is one.
pub(crate) fn say(text: &str) {
    below::above(text, to_stderr);
}

/// Shows these lines below all others, in place of the earlier ones.
pub(super) fn show_below(lines: &[String]) {
    below::show(lines, to_stderr);
}

fn to_stderr(text: &str) {
    match OUTLETS.get() {
        Some(outlets) => outlets.err.push(text, Worth::Usual),
        None => drop(io::stderr().write_all(text.as_bytes())),
    }
}

/// Waits until stdout has all data: as long as its reader reads, and for a limited time if it does
/// not; that time is short if the run was stopped. At a terminal there is no time limit, and a
/// signal ends the wait. Returns whether all data is written.
pub(crate) async fn deliver(stop: &Stop) -> bool {
    let Some(Outlets { out, look, .. }) = OUTLETS.get() else {
        return true;
    };
    if stop.is_stopped() {
        return out.drained(Some(MESSAGE_TIME_LIMIT), stop).await;
    }
    if !look.live {
        return out.drained(Some(READER_TIME_LIMIT), stop).await;
    }
    let signal = stop.stopped_again();
    tokio::select! {
        _ = out.drained(Some(SILENT_WAIT), stop) => {}
        () = signal => return out.is_empty(),
    }
    if out.is_empty() {
        return true;
    }
    say("waiting for the reader of stdout (Ctrl-C ends the wait)\n");
    out.drained(None, stop).await
}

/// Waits for a short time until all text is written to stderr; called when the process ends.
pub(crate) fn settle() {
    if let Some(outlets) = OUTLETS.get() {
        outlets.err.settle(MESSAGE_TIME_LIMIT);
    }
}

#[cfg(test)]
mod tests;

//! Stdout and stderr behind queues, written by threads of their own: a reader that stops reading,
//! or a terminal that was stopped (Ctrl-S), must not keep the run from its signals and its time
//! limit.
//!
//! A queue has a bound. What does not fit is left out, and once there is room again it is said how
//! much that was. What must not be lost (the submission) is taken in whatever the bound.

use std::collections::VecDeque;
use std::io::{self, ErrorKind, Write};
use std::os::fd::AsFd;
use std::sync::{Arc, Condvar, Mutex, OnceLock};
use std::thread;
use std::time::{Duration, Instant};

use tokio::sync::watch;

use super::{Look, lock};
use crate::roles::Stop;

/// How much may wait for a stopped reader.
const ROOM: usize = 16 << 20;
/// How much may wait before [`Worth::Spare`] pieces are left out.
const ROOM_FOR_SPARE: usize = 256 << 10;
/// One write: small enough to see that a slow reader goes on reading.
const BLOCK: usize = 32 << 10;
/// How long a reader of stdout may read nothing at the end.
const PATIENCE: Duration = Duration::from_secs(10);
/// The same for stderr, on which nothing is data.
const PATIENCE_FOR_WORDS: Duration = Duration::from_secs(2);
/// After this, somebody at a terminal is told what is waited for.
const SILENT_WAIT: Duration = Duration::from_secs(2);
/// How long to wait for room where the reader has set its end to return at once.
const PAUSE: Duration = Duration::from_millis(5);

/// What becomes of a piece that finds its queue full.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Worth {
    /// It is left out, and not missed: something else says the same.
    Spare,
    /// It is left out, and that is said.
    Usual,
    /// It is taken in all the same.
    Data,
}

/// What a sink writes to: a plain writer, or a queue.
pub(super) trait Drain: Send {
    /// Takes the text, and writes it at once or later.
    fn put(&mut self, text: &str, worth: Worth) -> io::Result<()>;
    /// What went wrong later, once. A closed pipe is no error.
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
    queue: Arc<Queue>,
    stream: usize,
    lost: Lost,
}

/// What a stream writes to.
type Writer = Box<dyn Write + Send>;
/// Says that so many pieces are missing.
type Lost = fn(u64) -> String;

struct Queue {
    state: Mutex<State>,
    /// There is something to write.
    more: Condvar,
    /// Something was written.
    less: Condvar,
    /// The same, for those who wait in a runtime: how many bytes.
    written: watch::Sender<u64>,
}

#[derive(Default)]
struct State {
    pieces: VecDeque<(usize, Vec<u8>)>,
    streams: Vec<Stream>,
    written: u64,
}

#[derive(Default)]
struct Stream {
    /// Bytes that were taken in and not written.
    waiting: usize,
    /// Pieces that were left out since the last one that was not.
    lost: u64,
    error: Option<io::Error>,
    /// Nothing is written there any more.
    closed: bool,
}

impl Outlet {
    /// A queue with a stream for each of these writers, in the order of which the texts of all of
    /// them appear.
    fn start<const N: usize>(streams: [(Writer, Lost); N]) -> io::Result<[Self; N]> {
        let (written, _) = watch::channel(0);
        let queue = Arc::new(Queue {
            state: Mutex::new(State {
                streams: streams.iter().map(|_| Stream::default()).collect(),
                ..State::default()
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
        let stream = &mut state.streams[self.stream];
        let full = match worth {
            Worth::Spare => stream.waiting > ROOM_FOR_SPARE,
            Worth::Usual => stream.waiting + text.len() > ROOM,
            Worth::Data => false,
        };
        if stream.closed || (full && worth == Worth::Spare) {
            return;
        }
        if full {
            stream.lost += 1;
            return;
        }
        self.say_what_is_lost(&mut state);
        state.push(self.stream, text);
        drop(state);
        self.queue.more.notify_one();
    }

    fn say_what_is_lost(&self, state: &mut State) {
        match std::mem::take(&mut state.streams[self.stream].lost) {
            0 => {}
            count => state.push(self.stream, &(self.lost)(count)),
        }
    }

    /// Whether all is written, or never will be.
    fn is_empty(&self) -> bool {
        let mut state = lock(&self.queue.state);
        let stream = &state.streams[self.stream];
        if stream.waiting == 0 && stream.lost > 0 && !stream.closed {
            self.say_what_is_lost(&mut state);
            self.queue.more.notify_one();
        }
        let stream = &state.streams[self.stream];
        stream.closed || stream.waiting == 0
    }

    /// Waits until all is written; no longer than `patience` while nothing moves, and not beyond
    /// a signal. Answers whether it is.
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

    /// The same where there is no runtime.
    fn settle(&self, patience: Duration) {
        let mut seen = None;
        let mut end = Instant::now() + patience;
        while !self.is_empty() {
            let state = lock(&self.queue.state);
            if seen.replace(state.written) != Some(state.written) {
                end = Instant::now() + patience;
            }
            let left = end.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return;
            }
            drop(self.queue.less.wait_timeout(state, left));
        }
    }
}

impl Drain for Outlet {
    fn put(&mut self, text: &str, worth: Worth) -> io::Result<()> {
        self.push(text, worth);
        Ok(())
    }

    fn take_error(&mut self) -> Option<io::Error> {
        lock(&self.queue.state).streams[self.stream].error.take()
    }
}

impl State {
    fn push(&mut self, stream: usize, text: &str) {
        self.streams[stream].waiting += text.len();
        // A model's answer comes in thousands of small pieces.
        match self.pieces.back_mut() {
            Some((last, piece)) if *last == stream && piece.len() + text.len() <= BLOCK => {
                piece.extend_from_slice(text.as_bytes());
            }
            _ => self.pieces.push_back((stream, text.as_bytes().to_vec())),
        }
    }
}

impl Queue {
    fn write(&self, writers: &mut [Writer]) {
        loop {
            let mut state = lock(&self.state);
            let (stream, piece) = loop {
                match state.pieces.pop_front() {
                    Some(piece) => break piece,
                    None => {
                        state = self
                            .more
                            .wait(state)
                            .unwrap_or_else(std::sync::PoisonError::into_inner);
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
        let State {
            pieces, streams, ..
        } = &mut *state;
        pieces.retain(|(of, _)| *of != stream);
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

/// Writes all of it, also where the other end was told not to wait.
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

/// A stream of this process without the buffer and the lock that others would wait for.
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
pub(super) fn start(look: Look, lost_on_stdout: Lost) -> Option<&'static Outlets> {
    if OUTLETS.get().is_none() {
        let out: Writer = Box::new(Standard(io::stdout));
        let err: Writer = Box::new(Standard(io::stderr));
        let (out, err) = ((out, lost_on_stdout), (err, lost_words as Lost));
        // On a terminal, which both mostly are, they appear in the order in which they came.
        let [out, err] = if look.live && look.stdout_terminal {
            Outlet::start([out, err]).ok()?
        } else {
            let [out] = Outlet::start([out]).ok()?;
            let [err] = Outlet::start([err]).ok()?;
            [out, err]
        };
        let _ = OUTLETS.set(Outlets { out, err, look });
    }
    OUTLETS.get()
}

/// For people.
pub(super) fn lost_words(count: u64) -> String {
    format!("\n... {count} pieces left out: they came faster than they were read ...\n")
}

/// Writes words for people to stderr: through the queue of the run, if there is one.
pub(in crate::cli) fn say(text: &str) {
    match OUTLETS.get() {
        Some(outlets) => outlets.err.push(text, Worth::Usual),
        None => drop(io::stderr().write_all(text.as_bytes())),
    }
}

/// Waits until stdout has all that it was given: as long as its reader reads, and for a while
/// if it does not, a short one if somebody has asked to stop. Somebody at a terminal may take
/// their time, and end it with a signal. Answers whether it has.
pub(in crate::cli) async fn deliver(stop: &Stop) -> bool {
    let Some(Outlets { out, look, .. }) = OUTLETS.get() else {
        return true;
    };
    if stop.is_stopped() {
        return out.drained(Some(PATIENCE_FOR_WORDS), stop).await;
    }
    if !look.live {
        return out.drained(Some(PATIENCE), stop).await;
    }
    let signal = stop.stopped_again();
    tokio::select! {
        _ = out.drained(Some(SILENT_WAIT), stop) => {}
        () = signal => return out.is_empty(),
    }
    if out.is_empty() {
        return true;
    }
    say("waiting for whoever reads stdout (Ctrl-C ends that)\n");
    out.drained(None, stop).await
}

/// Waits, for a moment, until the words are on stderr: called as the process ends.
pub(in crate::cli) fn settle() {
    if let Some(outlets) = OUTLETS.get() {
        outlets.err.settle(PATIENCE_FOR_WORDS);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use super::*;
    use crate::cli::front::testing::{Broken, Buffer};
    use crate::roles::StopSource;

    /// Takes nothing until it is let; then everything.
    struct Stalled(mpsc::Receiver<()>, Buffer);

    impl Write for Stalled {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            let _ = self.0.recv();
            self.1.write(bytes)
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    fn stalled() -> (Outlet, mpsc::Sender<()>, Buffer) {
        let (go, wait) = mpsc::channel();
        let buffer = Buffer::default();
        let writer: Writer = Box::new(Stalled(wait, buffer.clone()));
        let [outlet] = Outlet::start([(writer, (|count| format!("<{count}>")) as _)]).unwrap();
        (outlet, go, buffer)
    }

    fn block_on<T>(future: impl Future<Output = T>) -> T {
        tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .unwrap()
            .block_on(future)
    }

    #[test]
    fn a_full_queue_says_what_it_left_out_and_keeps_the_data() {
        let (outlet, go, buffer) = stalled();
        let large = "x".repeat(ROOM - 2);
        outlet.push("a\n", Worth::Usual);
        outlet.push(&large, Worth::Usual);
        for _ in 0..3 {
            outlet.push("lost", Worth::Usual);
            outlet.push("spare", Worth::Spare);
        }
        outlet.push("data\n", Worth::Data);
        assert!(!outlet.is_empty());
        drop(go);
        assert!(block_on(
            outlet.drained(Some(Duration::from_secs(60)), &Stop::never())
        ));
        assert_eq!(buffer.text(), format!("a\n{large}<3>data\n"));

        // The last piece may be among those that are left out.
        let (outlet, go, buffer) = stalled();
        outlet.push(&large, Worth::Usual);
        outlet.push("lost", Worth::Usual);
        drop(go);
        outlet.settle(Duration::from_secs(60));
        assert_eq!(buffer.text(), format!("{large}<1>"));
    }

    #[test]
    fn a_reader_that_stands_still_is_given_up_and_a_signal_ends_the_wait() {
        let (outlet, _go, _) = stalled();
        outlet.push("a", Worth::Data);
        let never = Stop::never();
        let waited = block_on(outlet.drained(Some(Duration::from_millis(50)), &never));
        assert!(!waited);
        let (source, stop) = StopSource::new();
        // Only one that comes now.
        source.stop();
        let ended = block_on(async {
            let waiting = outlet.drained(None, &stop);
            tokio::pin!(waiting);
            let early = tokio::time::timeout(Duration::from_millis(50), &mut waiting).await;
            assert!(early.is_err());
            source.stop();
            waiting.await
        });
        assert!(!ended);
        outlet.settle(Duration::from_millis(50));
    }

    #[test]
    fn errors_are_kept_and_a_closed_pipe_is_none() {
        for (kind, told) in [
            (ErrorKind::StorageFull, true),
            (ErrorKind::BrokenPipe, false),
        ] {
            let writer: Writer = Box::new(Broken(kind));
            let [mut outlet] = Outlet::start([(writer, lost_words as _)]).unwrap();
            for _ in 0..3 {
                outlet.put("text", Worth::Data).unwrap();
                outlet.settle(Duration::from_secs(60));
            }
            assert_eq!(outlet.take_error().is_some(), told, "{kind}");
            assert!(outlet.take_error().is_none());
        }
    }

    #[test]
    fn streams_of_one_queue_keep_their_order() {
        let buffer = Buffer::default();
        let writer = || Box::new(buffer.clone()) as Writer;
        let streams = [(writer(), lost_words as _), (writer(), lost_words as _)];
        let [one, two] = Outlet::start(streams).unwrap();
        for number in 0..100 {
            let outlet = if number % 3 == 0 { &one } else { &two };
            outlet.push(&format!("{number} "), Worth::Usual);
        }
        one.settle(Duration::from_secs(60));
        two.settle(Duration::from_secs(60));
        let expected: String = (0..100).map(|number| format!("{number} ")).collect();
        assert_eq!(buffer.text(), expected);
    }
}

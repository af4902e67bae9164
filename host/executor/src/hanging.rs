//! Starts of processes that hang: a working directory or a program on a file system that does not answer.
//!
//! The thread that starts a process waits in the kernel until the process executes its program. With few runs
//! this is the thread of the loops, because a start on another thread takes 10 to 20 µs longer. It can't
//! notice that the run is stopped or that the time limit has passed, so a thread of this module does, and
//! ends the process that does not start.
//!
//! A process that waits for a file system can be killed, but not one that waits for another process which waits
//! there for the same name. So after the first start or look that hangs, all starts are left to other threads.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard, Once, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use mswea_core::Stop;

use crate::failure::ActionFailure;
use crate::spawn::ProcessStart;

/// The pause between two looks at the starts that are under way.
const PAUSE: Duration = Duration::from_millis(50);

/// How long the start of a process for a command may take.
#[derive(Clone, Copy, Debug)]
pub(super) struct StartLimit<'a> {
    /// The text of the command, for messages.
    text: &'a str,
    begun: Instant,
    timeout: Duration,
    stop: &'a Stop,
}

impl<'a> StartLimit<'a> {
    /// The limit of a start that begins now.
    pub(super) fn new(text: &'a str, timeout: Duration, stop: &'a Stop) -> Self {
        Self {
            text,
            begun: Instant::now(),
            timeout,
            stop,
        }
    }

    pub(super) fn stop(&self) -> &'a Stop {
        self.stop
    }

    /// The time that is left.
    pub(super) fn left(&self) -> Duration {
        self.timeout.saturating_sub(self.begun.elapsed())
    }

    /// Whether there is no time left, or the run is stopped.
    pub(super) fn is_reached(&self) -> bool {
        self.left().is_zero() || self.stop.is_stopped()
    }

    /// Waits until there is no time left, or the run is stopped.
    pub(super) async fn reached(&self) {
        tokio::select! {
            () = self.stop.stopped() => {}
            () = tokio::time::sleep(self.left()) => {}
        }
    }

    /// The failure of a start that was given up.
    pub(super) fn failure(&self) -> ActionFailure {
        match self.stop.is_stopped() {
            true => ActionFailure::interrupted(self.text),
            false => ActionFailure::timed_out(self.text, self.timeout),
        }
    }
}

/// A start that is under way.
struct AttendedStart {
    process: ProcessStart,
    end: Option<Instant>,
    stop: Stop,
    is_given_up: bool,
}

/// The starts that are under way on threads that wait for them.
struct AttendedStarts {
    starts: Vec<AttendedStart>,
    /// Whether the thread that looks at them waits for the first one.
    is_idle: bool,
}

static HAS_HUNG: AtomicBool = AtomicBool::new(false);

/// Notes that a file system has not answered in time.
pub(super) fn note() {
    HAS_HUNG.store(true, Ordering::Relaxed);
}

/// Whether a file system has not answered in time, in this process.
pub(super) fn has_hung() -> bool {
    HAS_HUNG.load(Ordering::Relaxed)
}

static ATTENDED: Mutex<AttendedStarts> = Mutex::new(AttendedStarts {
    starts: Vec::new(),
    is_idle: false,
});
static BEGUN: Condvar = Condvar::new();

fn lock() -> MutexGuard<'static, AttendedStarts> {
    ATTENDED.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Does `start`, which starts `process`, and gives it up when `limit` is reached. Returns also whether it was
/// given up: then the process has been killed.
pub(super) fn attended<T>(
    process: &ProcessStart,
    limit: &StartLimit<'_>,
    start: impl FnOnce() -> T,
) -> (T, bool) {
    let entry = AttendedEntry::new(process, limit);
    let started = start();
    let is_given_up = entry.remove();
    if is_given_up {
        note();
    }
    (started, is_given_up)
}

/// The entry of a start in the list.
struct AttendedEntry<'a>(&'a ProcessStart);

impl<'a> AttendedEntry<'a> {
    fn new(process: &'a ProcessStart, limit: &StartLimit<'_>) -> Self {
        static THREAD: Once = Once::new();
        THREAD.call_once(|| {
            let thread = thread::Builder::new().name("hanging".to_owned());
            if let Err(error) = thread.spawn(look) {
                tracing::debug!(%error, "no thread looks for starts that hang");
            }
        });
        let mut attended = lock();
        attended.starts.push(AttendedStart {
            process: process.clone(),
            end: limit.begun.checked_add(limit.timeout),
            stop: limit.stop.clone(),
            is_given_up: false,
        });
        if attended.is_idle {
            BEGUN.notify_one();
        }
        Self(process)
    }

    /// Returns whether the start was given up.
    fn remove(&self) -> bool {
        let starts = &mut lock().starts;
        let place = starts.iter().position(|it| it.process.is(self.0));
        place.is_some_and(|place| starts.swap_remove(place).is_given_up)
    }
}

impl Drop for AttendedEntry<'_> {
    /// Also after a panic.
    fn drop(&mut self) {
        self.remove();
    }
}

/// Gives up the starts whose limits are reached, for ever.
fn look() {
    let mut attended = lock();
    loop {
        if attended.starts.is_empty() {
            attended.is_idle = true;
            attended = BEGUN.wait(attended).unwrap_or_else(PoisonError::into_inner);
            attended.is_idle = false;
        }
        // Nearly all starts have ended after that.
        drop(attended);
        thread::sleep(PAUSE);
        attended = lock();
        for start in &mut attended.starts {
            let is_over = start.end.is_some_and(|end| end <= Instant::now());
            if is_over || start.stop.is_stopped() {
                start.is_given_up |= start.process.give_up();
            }
        }
    }
}

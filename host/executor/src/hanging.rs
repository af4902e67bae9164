//! Starts of processes that hang: a working directory or a program on a file system that does not answer.
//!
//! The thread that starts a process waits in the kernel until the process executes its program.
//! With few runs this is the thread of the loops, because a start on another thread takes 10 to 20
//! µs longer. That thread can't notice that the run is stopped or that the time limit has passed.
//! So a thread of this module checks this, and kills the process that does not start.
//!
//! A process that waits for a file system can be killed, with two exceptions: a FUSE daemon has
//! read its request, or it waits for another process that is waiting for the same name. So starts
//! take place on other threads if the working directory is on a file system that can hang, and also
//! after the first start or check that hangs.

use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard, Once, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use mswea_core::Stop;

use crate::failure::ActionFailure;
use crate::spawn::ProcessStart;

/// The pause between two checks of the starts that are under way.
const PAUSE: Duration = Duration::from_millis(50);

/// The time limit of starting a process for a command.
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

    /// Whether the limit is reached, or the run is stopped.
    pub(super) fn is_reached(&self) -> bool {
        self.left().is_zero() || self.stop.is_stopped()
    }

    /// Waits until the limit is reached, or the run is stopped.
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
    /// Whether the thread that checks the starts waits for the first one.
    is_idle: bool,
}

static CAN_HANG: AtomicBool = AtomicBool::new(false);

/// A file system that takes longer to answer counts as hanging.
const SLOW: Duration = Duration::from_secs(1);

/// Notes that a file system has hung, if it was asked at `begun` and has taken too long.
pub(super) fn note(begun: Instant) {
    if begun.elapsed() >= SLOW {
        note_can_hang();
    }
}

/// Notes that this process uses a file system that can hang.
pub(super) fn note_can_hang() {
    CAN_HANG.store(true, Ordering::Relaxed);
}

/// Whether this process uses a file system that can hang, or has hung.
pub(super) fn can_hang() -> bool {
    CAN_HANG.load(Ordering::Relaxed)
}

/// Whether `folder` is on a file system that waits for another machine or for another process.
pub(super) fn depends_on_another(folder: &Path) -> bool {
    // The types that `statfs(2)` lists.
    const TYPES: [u32; 12] = [
        0x0000_6969, // NFS
        0x0000_517b, // SMB
        0xfe53_4d42, // SMB 2
        0xff53_4d42, // CIFS
        0x6573_5546, // FUSE
        0x0102_1997, // 9P
        0x00c3_6400, // Ceph
        0x0bd0_0bd0, // Lustre
        0x5346_414f, // AFS
        0x6b41_4653, // kAFS
        0x4750_4653, // GPFS
        0x1983_0326, // BeeGFS
    ];
    rustix::fs::statfs(folder).is_ok_and(|it| TYPES.contains(&(it.f_type as u32)))
}

static ATTENDED: Mutex<AttendedStarts> = Mutex::new(AttendedStarts {
    starts: Vec::new(),
    is_idle: false,
});
static BEGUN: Condvar = Condvar::new();

fn lock() -> MutexGuard<'static, AttendedStarts> {
    ATTENDED.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Calls `start`, which starts `process`, and gives it up when `limit` is reached. Returns also
/// whether it was given up; then the process has ended, is being killed, or ends without running its program.
pub(super) fn attended<T>(
    process: &ProcessStart,
    limit: &StartLimit<'_>,
    start: impl FnOnce() -> T,
) -> (T, bool) {
    let entry = AttendedEntry::new(process, limit);
    let started = start();
    let is_given_up = entry.remove();
    if is_given_up {
        note(limit.begun);
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
        let is_idle = attended.is_idle;
        // Unlocked first: the woken thread locks the list at once.
        drop(attended);
        if is_idle {
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
    /// Runs also after a panic.
    fn drop(&mut self) {
        self.remove();
    }
}

/// Gives up the starts whose limits are reached; never returns.
fn look() {
    let mut attended = lock();
    loop {
        if attended.starts.is_empty() {
            attended.is_idle = true;
            attended = BEGUN.wait(attended).unwrap_or_else(PoisonError::into_inner);
            attended.is_idle = false;
        }
        // Nearly all starts have ended when the pause is over.
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

//! Work that may block (a slow disk, a hung file system, a walk through `/proc`), off the thread that
//! runs the loops.

use std::collections::VecDeque;
use std::panic::AssertUnwindSafe;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError, mpsc};
use std::thread;
use std::time::{Duration, Instant};

use crate::hanging;
use mswea_core::Stop;
use mswea_helper::processes::{self, ProcessTarget};
use tokio::sync::oneshot;

/// How many threads work before further work waits: more would only take turns on the processors, and each has
/// memory of its own.
const USUAL: usize = 12;

/// How long work waits before threads are added for it: those that work may hang.
const LONGEST_WAIT: Duration = Duration::from_millis(20);

/// How many threads wait for more work, and how long.
const MOST_IDLE: usize = 4;
const IDLE: Duration = Duration::from_secs(5);

/// Work for another thread.
pub type AsideWork = Box<dyn FnOnce() + Send>;

/// The threads, and the work that no thread has begun.
struct AsideThreads {
    busy: usize,
    idle: usize,
    /// Each with the time since which it waits.
    work: VecDeque<(Instant, AsideWork)>,
    /// Whether a thread looks for work that waits for long.
    is_watched: bool,
}

static THREADS: Mutex<AsideThreads> = Mutex::new(AsideThreads {
    busy: 0,
    idle: 0,
    work: VecDeque::new(),
    is_watched: false,
});
static CALL: Condvar = Condvar::new();

fn threads() -> MutexGuard<'static, AsideThreads> {
    THREADS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Does `work` on another thread; on this one if no other can be started. Dropping the future does not stop the
/// work. `None` if the work panicked.
pub async fn aside<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> Option<T> {
    let (done, waiting) = oneshot::channel();
    // Destructors of values in `work` may need the caller's runtime.
    let runtime = tokio::runtime::Handle::try_current();
    let begun = begin_aside(move || {
        let _entered = runtime.as_ref().map(tokio::runtime::Handle::enter);
        let _ = done.send(work());
    });
    if let Err(work) = begun {
        work();
    }
    waiting.await.ok()
}

/// Begins `work` on another thread. Work that hangs delays other work only for milliseconds.
///
/// # Errors
/// The work, if no thread can be started.
pub fn begin_aside(work: impl FnOnce() + Send + 'static) -> Result<(), AsideWork> {
    let mut threads = threads();
    threads.work.push_back((Instant::now(), Box::new(work)));
    if threads.idle >= threads.work.len() {
        CALL.notify_one();
        return Ok(());
    }
    let is_served = threads.busy < USUAL && threads.add();
    // Without a further thread, the others do it.
    match is_served || threads.busy > 0 && threads.watch() {
        true => Ok(()),
        // The queue was locked since it was added.
        false => threads
            .work
            .pop_back()
            .map_or(Ok(()), |(_, work)| Err(work)),
    }
}

impl AsideThreads {
    /// Adds a thread; returns whether it could be started.
    fn add(&mut self) -> bool {
        let is_started = start(serve);
        self.busy += usize::from(is_started);
        is_started
    }

    /// Has a thread look for work that waits for long; returns whether one does.
    fn watch(&mut self) -> bool {
        self.is_watched = self.is_watched || start(watch);
        self.is_watched
    }
}

fn start(serve: fn()) -> bool {
    let thread = thread::Builder::new().name("aside".to_owned());
    let spawned = thread.spawn(serve);
    spawned
        .inspect_err(|error| tracing::debug!(%error, "no thread"))
        .is_ok()
}

/// Does work until there was none for some time.
fn serve() {
    let mut threads = threads();
    loop {
        if let Some((_, work)) = threads.work.pop_front() {
            drop(threads);
            // The code that waits for it sees a panic, and the thread continues. What was thrown is kept, because
            // its destructor could panic.
            std::panic::catch_unwind(AssertUnwindSafe(work)).unwrap_or_else(std::mem::forget);
            threads = self::threads();
            continue;
        }
        threads.busy -= 1;
        if threads.idle >= MOST_IDLE {
            return;
        }
        threads.idle += 1;
        let waited = CALL.wait_timeout_while(threads, IDLE, |it| it.work.is_empty());
        threads = waited.unwrap_or_else(PoisonError::into_inner).0;
        threads.idle -= 1;
        if threads.work.is_empty() {
            return;
        }
        threads.busy += 1;
    }
}

/// Adds threads for work that waits for long, until no work waits.
fn watch() {
    loop {
        thread::sleep(LONGEST_WAIT);
        let mut threads = threads();
        if threads.work.is_empty() {
            threads.is_watched = false;
            return;
        }
        let late = threads.work.iter();
        let late = late
            .take_while(|(since, _)| since.elapsed() > LONGEST_WAIT)
            .count();
        let _ = (0..late).all(|_| threads.add());
    }
}

/// Does `work`, which reads a file system that may not answer. None if the run is stopped or
/// `limit` has passed; the work then continues on its thread.
pub(crate) async fn look<T: Send + 'static>(
    limit: Duration,
    stop: &Stop,
    work: impl FnOnce() -> T + Send + 'static,
) -> Option<T> {
    if stop.is_stopped() || limit.is_zero() {
        return None;
    }
    let begun = Instant::now();
    tokio::select! {
        biased;
        found = aside(work) => return found,
        () = stop.stopped() => {}
        () = tokio::time::sleep(limit) => {}
    }
    hanging::note(begun);
    None
}

/// Kills the processes of `target` until none is left, for at most `limit`; returns whether none is left. Each
/// search walks through `/proc`.
pub(crate) async fn hunt(target: &ProcessTarget, limit: Duration) -> bool {
    let target = target.clone();
    let kill = move || processes::kill_until_gone(&target, limit) == 0;
    aside(kill).await.unwrap_or(false)
}

/// Does `work` in a destructor: on a new thread with an event loop of its own, because the current
/// loop may be ending. Blocks for at most `limit`; `None` if the work has not ended by then, and it
/// then continues on its thread.
pub fn before_the_end<T: Send + 'static>(
    limit: Duration,
    work: impl Future<Output = T> + Send + 'static,
) -> Option<T> {
    let (sender, receiver) = mpsc::channel();
    thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build();
        if let Ok(runtime) = runtime {
            let _ = sender.send(runtime.block_on(work));
        }
    });
    receiver.recv_timeout(limit).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;

    #[tokio::test]
    async fn work_that_hangs_or_panics_delays_no_other() {
        let (hold, held) = mpsc::channel::<()>();
        let held = Arc::new(Mutex::new(held));
        let mut hanging = tokio::task::JoinSet::new();
        for _ in 0..20 {
            let held = held.clone();
            hanging.spawn(aside(move || held.lock().unwrap().recv().is_err()));
        }
        for number in 0..20 {
            assert_eq!(aside(move || number).await, Some(number));
            assert_eq!(aside(|| panic!("as a fault would")).await, None::<()>);
        }
        drop(hold);
        assert_eq!(hanging.join_all().await, [Some(true); 20]);
    }

    #[tokio::test]
    async fn threads_are_used_again() {
        let id = || rustix::thread::gettid().as_raw_nonzero().get();
        let mut ids = std::collections::BTreeSet::new();
        for _ in 0..50 {
            ids.extend(aside(id).await);
        }
        // The other tests of this process use some of them, too.
        assert!(ids.len() < 25, "{ids:?}");
    }
}

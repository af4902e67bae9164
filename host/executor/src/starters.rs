//! Threads that start processes while this process has many runs: the thread that starts a process waits
//! until the process executes its program.
//!
//! The threads never end. The kernel sends a parent-death signal (`bwrap --die-with-parent`,
//! `setpriv --pdeathsig`) when the *thread* that started the process ends, so a thread of a pool
//! that shrinks would kill commands.

use std::collections::VecDeque;
use std::panic::AssertUnwindSafe;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use tokio::sync::oneshot;

/// How many threads there are usually. A program on a slow file system occupies one until it is executed.
const USUAL: usize = 8;

/// How long a start waits for a thread before another thread is added: a file system that hangs can
/// occupy all of them.
const LONGEST_WAIT: Duration = Duration::from_secs(1);

type Start = Box<dyn FnOnce() + Send>;

/// Calls `start` on one of the threads, or on this thread if there is none. If the future is
/// dropped before `start` begins, `start` is not called; if it is dropped later, the result is
/// dropped. `None` if `start` panicked.
pub(super) async fn start<T: Send + 'static>(
    start: impl FnOnce() -> T + Send + 'static,
) -> Option<T> {
    let (done, mut waiting) = oneshot::channel();
    let has_begun = Arc::new(AtomicBool::new(false));
    let work: Start = Box::new({
        let has_begun = has_begun.clone();
        move || {
            has_begun.store(true, Ordering::Relaxed);
            if !done.is_closed() {
                let _ = done.send(start());
            }
        }
    });
    if let Err(work) = begin(work) {
        work();
        return waiting.await.ok();
    }
    loop {
        if let Ok(done) = tokio::time::timeout(LONGEST_WAIT, &mut waiting).await {
            return done.ok();
        }
        if has_begun.load(Ordering::Relaxed) {
            return waiting.await.ok();
        }
        lock().add();
    }
}

/// The threads, and the starts that none of them has begun.
struct StarterThreads {
    all: usize,
    idle: usize,
    starts: VecDeque<Start>,
}

static THREADS: Mutex<StarterThreads> = Mutex::new(StarterThreads {
    all: 0,
    idle: 0,
    starts: VecDeque::new(),
});
static CALL: Condvar = Condvar::new();

fn lock() -> MutexGuard<'static, StarterThreads> {
    THREADS.lock().unwrap_or_else(PoisonError::into_inner)
}

impl StarterThreads {
    /// Adds a thread, if one can be started.
    fn add(&mut self) {
        let thread = thread::Builder::new().name("starter".to_owned());
        self.all += usize::from(thread.spawn(serve).is_ok());
    }
}

/// Passes a start to the threads. Wakes one of them, and only if one is idle.
///
/// # Errors
/// The start, if no thread can be started.
fn begin(start: Start) -> Result<(), Start> {
    let mut threads = lock();
    if threads.idle <= threads.starts.len() && threads.all < USUAL {
        threads.add();
    }
    if threads.all == 0 {
        return Err(start);
    }
    threads.starts.push_back(start);
    let is_one_idle = threads.idle > 0;
    drop(threads);
    if is_one_idle {
        CALL.notify_one();
    }
    Ok(())
}

fn serve() {
    let mut threads = lock();
    loop {
        if let Some(start) = threads.starts.pop_front() {
            drop(threads);
            // The waiting run sees a panic, and the thread continues.
            drop(std::panic::catch_unwind(AssertUnwindSafe(start)));
            threads = lock();
            continue;
        }
        threads.idle += 1;
        threads = CALL.wait(threads).unwrap_or_else(PoisonError::into_inner);
        threads.idle -= 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;
    use std::sync::mpsc;

    #[tokio::test]
    async fn a_thread_that_started_something_never_ends() {
        let id = || rustix::thread::gettid().as_raw_nonzero().get();
        let mut threads = BTreeSet::new();
        for _ in 0..20 {
            threads.extend(start(id).await);
        }
        assert!(threads.len() <= USUAL, "{threads:?}");
        assert_eq!(start(|| panic!("as a fault would")).await, None::<()>);
        tokio::time::sleep(Duration::from_millis(50)).await;
        for thread in threads {
            let living = std::fs::exists(format!("/proc/self/task/{thread}"));
            assert!(living.unwrap(), "{thread}");
        }
    }

    #[tokio::test]
    async fn what_nobody_waits_for_is_not_started() {
        let (hold, held) = mpsc::channel::<()>();
        let held = Arc::new(Mutex::new(held));
        let mut busy = tokio::task::JoinSet::new();
        for _ in 0..USUAL {
            let held = held.clone();
            busy.spawn(start(move || held.lock().unwrap().recv().is_err()));
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
        let (called, calls) = mpsc::channel();
        let waiting = start(move || called.send(()));
        assert!(
            tokio::time::timeout(Duration::from_millis(20), waiting)
                .await
                .is_err()
        );
        // A start gets a thread, although all threads are occupied.
        assert!(start(|| ()).await.is_some());
        drop(hold);
        busy.join_all().await;
        assert!(calls.recv_timeout(Duration::from_secs(5)).is_err());
    }
}

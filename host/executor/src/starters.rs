//! Threads that start processes while this process has many runs: the thread that starts a process waits
//! until the process executes its program.
//!
//! The threads never end. The kernel sends a parent-death signal (`bwrap --die-with-parent`,
//! `setpriv --pdeathsig`) when the *thread* that started the process ends, so a thread of a pool
//! that shrinks would kill commands.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, Receiver, Sender};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::thread;
use std::time::Duration;

use tokio::sync::oneshot;

/// The number of threads. A program on a slow file system occupies one until it is executed.
const THREADS: usize = 8;

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
    let Some(threads) = starter_threads() else {
        work();
        return waiting.await.ok();
    };
    if let Err(mpsc::SendError(work)) = threads.work.send(work) {
        work();
    }
    loop {
        if let Ok(done) = tokio::time::timeout(LONGEST_WAIT, &mut waiting).await {
            return done.ok();
        }
        if has_begun.load(Ordering::Relaxed) {
            return waiting.await.ok();
        }
        threads.add();
    }
}

/// The threads, and the queue of their work.
struct StarterThreads {
    work: Sender<Start>,
    taken: Arc<Mutex<Receiver<Start>>>,
}

impl StarterThreads {
    /// Adds a thread; returns whether it could be started.
    fn add(&self) -> bool {
        let taken = self.taken.clone();
        let thread = thread::Builder::new().name("starter".to_owned());
        thread.spawn(move || serve(&taken)).is_ok()
    }
}

/// The threads; none if no thread can be started.
fn starter_threads() -> Option<&'static StarterThreads> {
    static STARTERS: OnceLock<Option<StarterThreads>> = OnceLock::new();
    let started = STARTERS.get_or_init(|| {
        let (work, taken) = mpsc::channel();
        let taken = Arc::new(Mutex::new(taken));
        let threads = StarterThreads { work, taken };
        let started = (0..THREADS).filter(|_| threads.add());
        (started.count() > 0).then_some(threads)
    });
    started.as_ref()
}

fn serve(receiver: &Mutex<Receiver<Start>>) {
    loop {
        let next = receiver
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .recv();
        match next {
            // The waiting run sees a panic, and the thread continues.
            Ok(work) => drop(std::panic::catch_unwind(std::panic::AssertUnwindSafe(work))),
            Err(mpsc::RecvError) => return,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[tokio::test]
    async fn a_thread_that_started_something_never_ends() {
        let id = || rustix::thread::gettid().as_raw_nonzero().get();
        let mut threads = BTreeSet::new();
        for _ in 0..20 {
            threads.extend(start(id).await);
        }
        assert!(threads.len() <= THREADS, "{threads:?}");
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
        for _ in 0..THREADS {
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

//! Threads that start processes while this process has many runs: the thread that starts a process waits
//! until the process executes its program.
//!
//! They never end. The kernel sends a parent-death signal (`bwrap --die-with-parent`, `setpriv --pdeathsig`)
//! when the *thread* that started the process ends, so a thread of a pool that shrinks would kill commands.

use std::sync::mpsc::{self, Receiver, Sender};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::thread;

use tokio::sync::oneshot;

/// A program on a slow file system holds one of them until it is executed.
const THREADS: usize = 8;

type Start = Box<dyn FnOnce() + Send>;

/// Does `start` on one of the threads; on this thread if there is none. If the future is dropped before
/// `start` begins, `start` is dropped without a call; if it is dropped later, so is the result.
/// `None` if `start` panicked.
pub(super) async fn start<T: Send + 'static>(
    start: impl FnOnce() -> T + Send + 'static,
) -> Option<T> {
    let (done, waiting) = oneshot::channel();
    let work: Start = Box::new(move || {
        if !done.is_closed() {
            let _ = done.send(start());
        }
    });
    match threads() {
        Some(threads) => {
            if let Err(mpsc::SendError(work)) = threads.send(work) {
                work();
            }
        }
        None => work(),
    }
    waiting.await.ok()
}

/// Where the threads take work from; none if no thread can be started.
fn threads() -> Option<&'static Sender<Start>> {
    static STARTERS: OnceLock<Option<Sender<Start>>> = OnceLock::new();
    let started = STARTERS.get_or_init(|| {
        let (sender, receiver) = mpsc::channel();
        let receiver = Arc::new(Mutex::new(receiver));
        let started = (0..THREADS).filter(|_| {
            let receiver = receiver.clone();
            let thread = thread::Builder::new().name("starter".to_owned());
            thread.spawn(move || serve(&receiver)).is_ok()
        });
        (started.count() > 0).then_some(sender)
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
            // A panic is seen by the waiting run, and the thread goes on.
            Ok(work) => drop(std::panic::catch_unwind(std::panic::AssertUnwindSafe(work))),
            Err(mpsc::RecvError) => return,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;
    use std::time::Duration;

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
        drop(hold);
        busy.join_all().await;
        assert!(start(|| ()).await.is_some());
        assert!(calls.recv_timeout(Duration::from_secs(5)).is_err());
    }
}

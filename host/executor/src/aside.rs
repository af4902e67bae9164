//! Work that may block (a slow disk, a hung file system, a walk through `/proc`), off the thread that
//! runs the loops.

use std::sync::{Arc, Mutex, PoisonError, mpsc};
use std::thread;
use std::time::{Duration, Instant};

use crate::hanging;
use mswea_core::Stop;
use mswea_helper::processes::{self, ProcessTarget};
use tokio::sync::oneshot;

/// Does `work` on a new thread called `name`; on this thread if no other can be started. Dropping
/// the future does not stop the work. `None` if the work panicked.
pub async fn aside<T: Send + 'static>(
    name: &str,
    work: impl FnOnce() -> T + Send + 'static,
) -> Option<T> {
    let (done, waiting) = oneshot::channel();
    // Shared, because `spawn` drops its closure if it can't start a thread.
    let work = Arc::new(Mutex::new(Some(work)));
    let take = {
        let work = work.clone();
        move || work.lock().unwrap_or_else(PoisonError::into_inner).take()
    };
    // Destructors of values in `work` may need the caller's runtime.
    let runtime = tokio::runtime::Handle::try_current();
    let spawned = thread::Builder::new().name(name.to_owned()).spawn(move || {
        let _entered = runtime.as_ref().map(tokio::runtime::Handle::enter);
        if let Some(work) = take() {
            let _ = done.send(work());
        }
    });
    match spawned {
        Ok(_) => waiting.await.ok(),
        Err(error) => {
            tracing::debug!(%error, "no thread for `{name}`");
            let work = work.lock().unwrap_or_else(PoisonError::into_inner).take();
            work.map(|work| work())
        }
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
        found = aside("look", work) => return found,
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
    aside("hunt", kill).await.unwrap_or(false)
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

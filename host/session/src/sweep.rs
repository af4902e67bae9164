//! Removes the processes and folders that killed hosts have left. (The container executor removes
//! containers.) This is done once in a process, on a thread of its own with low priority, so that
//! no run waits for it.

use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use mswea_core::Stop;
use mswea_executor::leftovers::{self, Fate};
use tokio::sync::watch;

/// How long a process that is about to end waits for its sweep. The next start does the remaining
/// work: a folder may have a million files.
const LAST_WAIT: Duration = Duration::from_secs(1);

/// The sweep of a process.
#[derive(Debug)]
pub(crate) struct Sweep {
    /// The sender, until the sweep begins; dropped when the sweep ends.
    end: Mutex<Option<watch::Sender<()>>>,
    over: watch::Receiver<()>,
}

impl Sweep {
    pub(crate) fn new() -> Self {
        let (end, over) = watch::channel(());
        Self {
            end: Mutex::new(Some(end)),
            over,
        }
    }

    /// Begins the sweep at the first call; later calls have no effect.
    pub(crate) fn begin(&self) {
        self.with(sweep);
    }

    fn with(&self, work: impl FnOnce() + Send + 'static) {
        let Some(end) = self.take() else {
            return;
        };
        let work = move || {
            work();
            drop(end);
        };
        // If the thread can't be started, nothing is removed, and nothing has to be waited for.
        drop(thread::Builder::new().name("sweep".to_owned()).spawn(work));
    }

    fn take(&self) -> Option<watch::Sender<()>> {
        self.end
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .take()
    }

    /// Waits for the end of the thread, which has usually ended long before. The wait is short, and
    /// ends if the run is stopped.
    pub(crate) async fn wait(&self, stop: &Stop) {
        // A sweep that was not begun has no end.
        drop(self.take());
        let mut over = self.over.clone();
        tokio::select! {
            _ = over.changed() => {}
            () = tokio::time::sleep(LAST_WAIT) => {}
            () = stop.stopped() => {}
        }
    }
}

fn sweep() {
    let thread = rustix::thread::gettid();
    if let Err(error) = rustix::process::setpriority_process(Some(thread), 19) {
        tracing::debug!(%error, "the priority of the sweep can't be lowered");
    }
    let processes = leftovers::remove_leftover_processes(false);
    let left = processes
        .into_iter()
        .chain(mswea_executor::remove_leftover_folders(None, false));
    for left in left.filter(|it| it.fate == Fate::Removed) {
        let (kind, name, run) = (left.kind, left.name, left.run_id);
        tracing::info!(kind, name, run, "removed a leftover");
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;
    use std::time::Instant;

    use mswea_core::StopSource;

    use super::*;

    /// A folder of a killed run may hold a million files.
    #[tokio::test]
    async fn a_sweep_that_takes_long_is_not_waited_for() {
        let (source, stop) = StopSource::new();
        let (_working, waiting) = mpsc::channel::<()>();
        let sweep = Sweep::new();
        sweep.with(move || {
            let _ = waiting.recv();
        });
        let begun = Instant::now();
        sweep.wait(&stop).await;
        assert!(begun.elapsed() >= LAST_WAIT);
        source.stop();
        let begun = Instant::now();
        sweep.wait(&stop).await;
        assert!(begun.elapsed() < LAST_WAIT);
        // The sweep has ended, or was not begun.
        for begin in [true, false] {
            let sweep = Sweep::new();
            if begin {
                sweep.with(|| {});
            }
            let begun = Instant::now();
            sweep.wait(&Stop::never()).await;
            assert!(begun.elapsed() < LAST_WAIT);
        }
    }
}

//! The share of each run in writing trajectories: how many threads of a process write at once, and
//! how often each run may write.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// How many threads write trajectories at once: each has a whole journal in memory.
const THREADS: usize = 8;

/// The shortest pause between two writes of a trajectory.
const PAUSE: Duration = Duration::from_secs(2);

/// The longest pause. A killed host loses no data by it, because the journal is complete.
const LONGEST_PAUSE: Duration = Duration::from_secs(60);

/// All runs together write for at most one part in this number of the time of one processor.
const PART: u32 = 20;

/// The time of a write that is assumed before the first one.
const USUAL: Duration = Duration::from_millis(5);

/// The writers of a process.
pub(crate) struct Writers {
    permits: Arc<Semaphore>,
    /// The runs that have a record.
    runs: AtomicU32,
}

impl Writers {
    /// Writers without a run.
    pub(crate) fn new() -> Arc<Self> {
        Arc::new(Self {
            permits: Arc::new(Semaphore::new(THREADS)),
            runs: AtomicU32::new(0),
        })
    }

    /// The share of a further run.
    pub(super) fn share(self: &Arc<Self>) -> WriterShare {
        self.runs.fetch_add(1, Ordering::Relaxed);
        WriterShare(self.clone())
    }
}

/// The share of one run in the writers.
pub(super) struct WriterShare(Arc<Writers>);

impl WriterShare {
    /// Waits for a permit to write.
    pub(super) async fn permit(&self) -> Option<OwnedSemaphorePermit> {
        self.0.permits.clone().acquire_owned().await.ok()
    }

    /// The pause before the next write; `took` is the time of the last one.
    pub(super) fn pause(&self, took: Option<Duration>) -> Duration {
        let runs = self.0.runs.load(Ordering::Relaxed);
        let pause = took
            .unwrap_or(USUAL)
            .saturating_mul(PART.saturating_mul(runs));
        pause.clamp(PAUSE, LONGEST_PAUSE)
    }
}

impl Drop for WriterShare {
    fn drop(&mut self) {
        self.0.runs.fetch_sub(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_pause_grows_with_the_runs_and_with_the_time_of_a_write() {
        let writers = Writers::new();
        let mut shares = vec![writers.share()];
        let millis = |it: u64| Some(Duration::from_millis(it));
        assert_eq!(shares[0].pause(None), PAUSE);
        assert_eq!(shares[0].pause(millis(500)), Duration::from_secs(10));
        shares.extend((1..100).map(|_| writers.share()));
        assert_eq!(shares[0].pause(None), Duration::from_secs(10));
        assert_eq!(shares[0].pause(millis(1)), PAUSE);
        assert_eq!(shares[0].pause(millis(500)), LONGEST_PAUSE);
        shares.truncate(1);
        assert_eq!(shares[0].pause(None), PAUSE);
    }
}

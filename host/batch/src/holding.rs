//! The attempts of this worker: writes their heartbeats, and stops those that other workers have
//! taken over.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::{Duration, Instant};

use mswea_core::StopSource;

use crate::claims::{beat, is_fenced};

/// The interval between checks whether another worker has taken over an instance.
const LOOK: Duration = Duration::from_secs(1);

struct HeldClaim {
    folder: PathBuf,
    number: u32,
    stop: Arc<StopSource>,
    /// When the last heartbeat was written.
    written: Instant,
    is_stopped: bool,
}

/// The attempts of one worker.
pub(crate) struct Holding {
    held: Mutex<Vec<HeldClaim>>,
    lease: Duration,
}

impl Holding {
    /// Begins to write heartbeats, on a thread that ends with the last reference.
    ///
    /// # Errors
    /// The system's error if the thread can't be started.
    pub(crate) fn start(lease: Duration) -> std::io::Result<Arc<Self>> {
        let holding = Arc::new(Self {
            held: Mutex::default(),
            lease,
        });
        let weak = Arc::downgrade(&holding);
        std::thread::Builder::new()
            .name("claims".to_owned())
            .spawn(move || beats(&weak, lease))?;
        Ok(holding)
    }

    /// Adds an attempt. `stop` stops its run.
    pub(crate) fn add(&self, folder: PathBuf, number: u32, stop: Arc<StopSource>) {
        let _ = beat(&folder, number, 0);
        self.lock().push(HeldClaim {
            folder,
            number,
            stop,
            written: Instant::now(),
            is_stopped: false,
        });
    }

    /// Removes an attempt that has ended. Returns whether it was still this worker's.
    pub(crate) fn remove(&self, folder: &PathBuf) -> bool {
        let mut held = self.lock();
        let place = held.iter().position(|it| it.folder == *folder);
        let removed = place.map(|place| held.swap_remove(place));
        drop(held);
        removed.is_some_and(|it| !is_fenced(&it.folder, it.number))
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Vec<HeldClaim>> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn look(&self, count: u64, is_time: bool) {
        // The lock is not held during I/O: a file system that does not answer must not delay an
        // attempt that begins or ends.
        let held: Vec<(PathBuf, u32)> = {
            let held = self.lock();
            held.iter()
                .map(|it| (it.folder.clone(), it.number))
                .collect()
        };
        for (folder, number) in held {
            let is_written = is_time && beat(&folder, number, count).is_ok();
            if is_written && let Some(claim) = self.lock().iter_mut().find(|it| it.folder == folder)
            {
                claim.written = Instant::now();
            }
            self.check(&folder);
        }
    }

    /// Stops the attempt in this folder if another worker has taken it over.
    pub(crate) fn check(&self, folder: &Path) {
        let number = {
            let held = self.lock();
            let claim = held.iter().find(|it| it.folder == folder);
            claim.map(|it| it.number)
        };
        let is_lost = number.is_some_and(|number| is_fenced(folder, number));
        let mut held = self.lock();
        let Some(claim) = held.iter_mut().find(|it| it.folder == folder) else {
            return;
        };
        // A whole lease after the last heartbeat, another worker may take over the instance.
        let is_late = claim.written.elapsed() > self.lease / 2;
        if (is_lost || is_late) && !claim.is_stopped {
            let why = match is_lost {
                true => "another worker has taken it over",
                false => "its heartbeat can't be written",
            };
            tracing::warn!("the attempt in `{}` is stopped: {why}", folder.display());
            claim.is_stopped = true;
            claim.stop.stop();
        }
    }
}

fn beats(holding: &Weak<Holding>, lease: Duration) {
    let pause = LOOK.min(lease / 8);
    let mut last = Instant::now();
    for count in 1u64.. {
        std::thread::sleep(pause);
        let Some(holding) = holding.upgrade() else {
            return;
        };
        let is_time = last.elapsed() >= lease / 8;
        if is_time {
            last = Instant::now();
        }
        holding.look(count, is_time);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::claims::{WorkerName, claim};

    #[test]
    fn an_attempt_that_is_lost_is_stopped_when_it_is_checked() {
        let root = tempfile::tempdir().unwrap();
        let folder = root.path().join("i");
        let holding = |lease| Holding {
            held: Mutex::default(),
            lease,
        };
        let begin = |holding: &Holding| {
            let (source, stop) = StopSource::new();
            holding.add(folder.clone(), 1, Arc::new(source));
            stop
        };
        let worker = WorkerName::of_this_process("none", String::new(), String::new());
        assert!(claim(&folder, 1, &worker).unwrap());
        let mine = holding(Duration::from_secs(60));
        let stop = begin(&mine);
        mine.check(&folder);
        assert!(!stop.is_stopped());
        // A worker that was frozen has written no heartbeat for too long.
        let late = holding(Duration::from_millis(10));
        let frozen = begin(&late);
        std::thread::sleep(Duration::from_millis(20));
        late.check(&folder);
        assert!(frozen.is_stopped());
        // Another worker has taken the instance over.
        assert!(claim(&folder, 2, &worker).unwrap());
        mine.check(&folder);
        assert!(stop.is_stopped());
        assert!(!mine.remove(&folder), "it is not published");
    }
}

//! The order in which a worker goes through the manifest: which instance it claims next, and which
//! it takes over from a worker that has ended.

use std::collections::{HashMap, HashSet};
use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

use crate::attempt::write_trajectory;
use crate::claims::{
    ClaimsOf, HolderLife, Observed, WorkerName, attempt_folder, claim, claimed_by,
};
use crate::engine::{BatchEngine, is_among};
use crate::error::BatchError;
use crate::folder::{BatchFolder, journal_name, result_file, trajectory_name};
use crate::outcome::BatchResult;

/// The exit status of an instance whose attempts have all ended without a result.
const EXHAUSTED: &str = "AttemptsExhausted";
/// The longest wait before another attempt.
const LONGEST_WAIT: Duration = Duration::from_secs(300);

/// The settings of a worker.
#[derive(Clone, Debug)]
pub struct WorkerPlan {
    /// This worker.
    pub me: WorkerName,
    /// The engine that is asked about other workers.
    pub engine: BatchEngine,
    /// The time without a heartbeat after which another worker may have ended.
    pub lease: Duration,
    /// The place in the manifest where the worker begins. Workers that begin at different places
    /// rarely try the same instance.
    pub offset: usize,
    /// Whether the worker waits for instances of other workers, which it may have to take over.
    pub waits: bool,
}

/// An instance that this worker has claimed.
pub(crate) struct Claimed {
    /// Its place in the manifest.
    pub(crate) place: usize,
    /// The number of the attempt.
    pub(crate) number: u32,
    /// Earlier attempts that were not released.
    pub(crate) counted: u32,
}

/// The result of a pass over the instances.
pub(crate) struct Pass {
    pub(crate) scan: Scan,
    /// An instance that this worker has claimed.
    pub(crate) found: Option<Claimed>,
    /// A result of an instance whose attempts are exhausted.
    pub(crate) exhausted: Option<BatchResult>,
    /// Instances without a result.
    pub(crate) left: usize,
    pub(crate) error: Option<String>,
}

/// The place of a worker in the manifest, and its data about the instances.
pub(crate) struct Scan {
    pub(crate) plan: WorkerPlan,
    pub(crate) next: usize,
    /// Ids of instances with a result, and of those that this worker is running.
    pub(crate) done: HashSet<String>,
    pub(crate) mine: HashSet<String>,
    /// The earliest time at which this worker tries an instance again.
    pub(crate) later: HashMap<String, Instant>,
    pub(crate) observed: Observed,
    /// The engine's answer: none if it was not asked recently, `Some(None)` if it did not answer.
    pub(crate) alive: Option<Option<HashSet<(String, String)>>>,
    pub(crate) needs_engine: bool,
}

impl Scan {
    /// Claims the next instance that can be claimed.
    pub(crate) fn pass(mut self, folder: &BatchFolder, retries: u32, wait: Duration) -> Pass {
        let all = folder.instances();
        let (mut found, mut exhausted, mut error) = (None, None, None);
        for step in 0..all.len() {
            let place = (self.next + step) % all.len();
            let id = all[place].id.as_str();
            if self.done.contains(id) || self.mine.contains(id) {
                continue;
            }
            let own = folder.of(id);
            if result_file(folder.path(), id).exists() {
                self.heal(folder, id);
                self.done.insert(id.to_owned());
                self.observed.forget(id);
                continue;
            }
            if self
                .later
                .get(id)
                .is_some_and(|time| *time > Instant::now())
            {
                continue;
            }
            let claims = match ClaimsOf::read(&own) {
                Ok(claims) => claims,
                Err(failed) => {
                    error = Some(format!("can't read `{}`: {failed}", own.display()));
                    break;
                }
            };
            if claims.is_taken() && !self.is_over(id, &own, claims.last) {
                continue;
            }
            if claims.is_free && self.rests((id, &own), &claims, wait) {
                continue;
            }
            if claims.counted > retries {
                exhausted = Some(spent(id, &own, &claims));
                self.next = place + 1;
                break;
            }
            match claim(&own, claims.last + 1, &self.plan.me) {
                Ok(true) => {
                    self.mine.insert(id.to_owned());
                    self.observed.forget(id);
                    found = Some(Claimed {
                        place,
                        number: claims.last + 1,
                        counted: claims.counted,
                    });
                    self.next = place + 1;
                    break;
                }
                Ok(false) => {}
                Err(failed) => {
                    error = Some(BatchError::io("claim in", &own)(failed).to_string());
                    break;
                }
            }
        }
        let left = all.len() - self.done.len();
        Pass {
            scan: self,
            found,
            exhausted,
            left,
            error,
        }
    }

    /// Repairs the files of an instance with a result: a worker may have been killed after it wrote
    /// the result and before it linked the other files.
    fn heal(&self, folder: &BatchFolder, id: &str) {
        let own = folder.of(id);
        if [journal_name(id), trajectory_name(id)]
            .iter()
            .all(|name| own.join(name).exists())
        {
            return;
        }
        let result = BatchResult::read(&result_file(folder.path(), id));
        if let Ok(Some(result)) = result {
            let attempt = attempt_folder(&own, result.attempts);
            if attempt.join(journal_name(id)).exists() {
                write_trajectory(&attempt, &result);
                show_files(&own, &attempt, id, &self.plan.me.token);
            }
        }
    }

    /// Whether the wait before another attempt is not over yet.
    fn rests(&mut self, of: (&str, &Path), claims: &ClaimsOf, wait: Duration) -> bool {
        let times = 1_u32 << claims.counted.saturating_sub(1).min(8);
        let wait = (wait * times).min(LONGEST_WAIT);
        let failed = self.observed.failed_for(of, claims.last);
        failed.is_some_and(|time| time < wait)
    }

    /// Whether the worker of an attempt has ended without giving it up.
    fn is_over(&mut self, id: &str, folder: &Path, number: u32) -> bool {
        let life = self
            .observed
            .life((id, folder), number, &self.plan.me, self.plan.lease);
        if matches!(life, HolderLife::Silent | HolderLife::LongSilent) {
            self.needs_engine = true;
        }
        match (life, &self.alive) {
            (HolderLife::Living, _) => false,
            (HolderLife::Ended, _) => true,
            (_, None) => false,
            (HolderLife::Silent, Some(None)) => false,
            (HolderLife::LongSilent, Some(None)) => true,
            (life, Some(Some(alive))) => {
                let is_long = life == HolderLife::LongSilent;
                let by = claimed_by(folder, number).unwrap_or_default();
                let is_slurm_s = by.engine == "slurm";
                // A worker with the job of this one: the job still runs, as this process, so the
                // engine's answer says nothing about the other worker.
                let (me, is_mine) = (&self.plan.me, by.job == self.plan.me.job);
                let is_sibling = is_mine && by.start == me.start && by.token != me.token;
                is_slurm_s && !is_among(&by, alive) || is_long && (!is_slurm_s || is_sibling)
            }
        }
    }
}

/// The result of an instance whose attempts are exhausted.
fn spent(id: &str, folder: &Path, claims: &ClaimsOf) -> BatchResult {
    let last = claimed_by(folder, claims.last).unwrap_or_default();
    BatchResult {
        instance_id: id.to_owned(),
        exit_status: EXHAUSTED.to_owned(),
        error: Some(format!(
            "{} attempts have ended without a result, the last one on `{}`: see the journals in `{}`",
            claims.counted,
            last.machine(),
            folder.display()
        )),
        attempts: claims.counted,
        ..BatchResult::default()
    }
}

/// Links the files of an attempt into the folder of the instance. They replace those of another
/// run.
pub(crate) fn show_files(own: &Path, attempt: &Path, id: &str, token: &str) {
    for name in [journal_name(id), trajectory_name(id)] {
        let beside = own.join(format!(".{name}.{token}"));
        let shown = fs::hard_link(attempt.join(&name), &beside)
            .and_then(|()| fs::rename(&beside, own.join(&name)));
        // `rename` of two links to the same file removes neither.
        let _ = fs::remove_file(&beside);
        if let Err(error) = shown {
            tracing::warn!("`{name}` is only in `{}`: {error}", attempt.display());
        }
    }
}

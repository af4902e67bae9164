//! One of many workers on a batch: it claims instances, one attempt at a time each, until every instance has
//! its result.

use std::collections::{HashMap, HashSet};
use std::fs;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use mswea_core::{Front, Progress, Stop, StopSource};
use mswea_executor::aside;
use mswea_session::Runtime;
use tokio::task::JoinSet;

use crate::attempt::{Attempt, AttemptEnd};
use crate::claims::{
    ClaimRelease, ClaimsOf, HolderLife, Observed, WorkerName, attempt_folder, claim, claimed_by,
    give_up,
};
use crate::engine::{BatchEngine, is_among};
use crate::folder::{BatchFolder, journal_name, result_file, trajectory_name};
use crate::holding::Holding;
use crate::job::BatchJob;
use crate::outcome::{BatchResult, Severity, severity};
use crate::work::{BatchEnd, BatchWatcher, BatchWhy};

/// The exit status of an instance whose attempts have all ended without a result.
const EXHAUSTED: &str = "AttemptsExhausted";

/// How a worker takes part.
#[derive(Clone, Debug)]
pub struct WorkerPlan {
    /// This worker.
    pub me: WorkerName,
    /// The engine that is asked for others.
    pub engine: BatchEngine,
    /// For so long another worker may be silent.
    pub lease: Duration,
    /// Where in the manifest it begins: workers that begin at different places meet late.
    pub offset: usize,
    /// Whether it waits for instances of other workers, which may have to be taken over.
    pub waits: bool,
}

/// What the tasks share.
struct WorkerShared {
    runtime: Arc<Runtime>,
    job: Arc<BatchJob>,
    folder: Arc<BatchFolder>,
    watcher: Arc<dyn BatchWatcher>,
    holding: Arc<Holding>,
    token: String,
    /// What stops the current runs, by the instances' ids.
    stops: Mutex<HashMap<String, Arc<StopSource>>>,
}

struct WorkerFront {
    id: String,
    watcher: Arc<dyn BatchWatcher>,
}

impl Front for WorkerFront {
    fn show(&self, progress: &Progress<'_>) {
        self.watcher.progress(&self.id, progress);
    }
}

/// What an attempt has come to.
enum ClaimEnd {
    /// The instance has its result, made by this worker.
    Published(Box<BatchResult>),
    /// It has no result of this attempt.
    Left,
    /// It may be tried again.
    Again(Box<BatchResult>),
    /// No instance can be run.
    Hopeless(String),
}

/// An instance that was claimed.
struct Claimed {
    /// Its place in the manifest.
    place: usize,
    /// The number of the attempt.
    number: u32,
    /// Earlier attempts that were not released.
    counted: u32,
}

/// What a pass over the instances has found.
struct Pass {
    scan: Scan,
    /// An instance that this worker has claimed.
    found: Option<Claimed>,
    /// A result of an instance whose attempts are exhausted.
    exhausted: Option<BatchResult>,
    /// Instances without a result.
    left: usize,
    error: Option<String>,
}

/// The place of a worker in the manifest, and what it knows.
struct Scan {
    plan: WorkerPlan,
    next: usize,
    /// Ids of instances with a result, and of those that this worker has at present.
    done: HashSet<String>,
    mine: HashSet<String>,
    /// Instances that this worker does not try again before this time.
    later: HashMap<String, Instant>,
    observed: Observed,
    /// What the engine has answered last, and when it was asked.
    alive: Option<HashSet<(String, String)>>,
    needs_engine: bool,
}

impl Scan {
    /// Claims the next instance that can be claimed.
    fn pass(mut self, folder: &BatchFolder, retries: u32) -> Pass {
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
                    error = Some(format!("can't claim in `{}`: {failed}", own.display()));
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

    /// Whether the worker of an attempt has ended without a word.
    fn is_over(&mut self, id: &str, folder: &Path, number: u32) -> bool {
        let life = self
            .observed
            .life((id, folder), number, &self.plan.me, self.plan.lease);
        match (life, &self.alive) {
            (HolderLife::Living, _) => false,
            (HolderLife::Ended, _) => true,
            (HolderLife::Silent | HolderLife::LongSilent, Some(alive)) => {
                let by = claimed_by(folder, number).unwrap_or_default();
                by.engine == "slurm" && !is_among(&by, alive)
                    || by.engine != "slurm" && life == HolderLife::LongSilent
            }
            (HolderLife::LongSilent, None) => true,
            (HolderLife::Silent, None) => {
                self.needs_engine = true;
                false
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

/// Claims instances and gives them their results, until there are none left. `stop` ends it: its runs are
/// stopped, and what it has claimed is given up.
pub async fn work_claims(
    runtime: Arc<Runtime>,
    job: Arc<BatchJob>,
    folder: Arc<BatchFolder>,
    plan: WorkerPlan,
    watcher: Arc<dyn BatchWatcher>,
    stop: Stop,
) -> BatchEnd {
    let mut end = BatchEnd {
        why: BatchWhy::Finished,
        done: 0,
        failed: 0,
        left: folder.missing(),
    };
    let holding = match Holding::start(plan.lease) {
        Ok(holding) => holding,
        Err(error) => {
            end.why = BatchWhy::Hopeless(format!("can't start a thread: {error}"));
            return end;
        }
    };
    let shared = Arc::new(WorkerShared {
        runtime,
        job: job.clone(),
        folder: folder.clone(),
        watcher: watcher.clone(),
        holding,
        token: plan.me.token.clone(),
        stops: Mutex::default(),
    });
    let poll = (plan.lease / 8).min(Duration::from_secs(5));
    let (engine, waits, offset) = (plan.engine, plan.waits, plan.offset);
    let mut scan = Some(Scan {
        next: offset % folder.instances().len().max(1),
        plan,
        done: HashSet::new(),
        mine: HashSet::new(),
        later: HashMap::new(),
        observed: Observed::default(),
        alive: None,
        needs_engine: false,
    });
    let mut running: JoinSet<(String, ClaimEnd)> = JoinSet::new();
    let mut in_a_row = 0;
    let mut asked = None::<Instant>;
    loop {
        while end.why == BatchWhy::Finished
            && !stop.is_stopped()
            && running.len() < job.limits.workers.max(1)
            && let Some(now) = scan.take()
        {
            let (of, retries) = (folder.clone(), job.limits.retries);
            let Some(pass) = aside("claims", move || now.pass(&of, retries)).await else {
                end.why = BatchWhy::Hopeless("a bug of the host: claims were not read".to_owned());
                break;
            };
            end.left = pass.left;
            scan = Some(pass.scan);
            if let Some(error) = pass.error {
                end.why = BatchWhy::Hopeless(error);
            }
            if let Some(result) = pass.exhausted {
                match publish(&shared, Box::new(result), None).await {
                    ClaimEnd::Published(result) => {
                        end.done += 1;
                        end.failed += 1;
                        watcher.done(&result);
                    }
                    ClaimEnd::Hopeless(reason) => end.why = BatchWhy::Hopeless(reason),
                    _ => {}
                }
                continue;
            }
            let Some(claimed) = pass.found else {
                break;
            };
            running.spawn(attempt(shared.clone(), claimed));
        }
        if let Some(scan) = &mut scan
            && scan.needs_engine
            && asked.is_none_or(|time| time.elapsed() >= poll * 2)
        {
            asked = Some(Instant::now());
            scan.alive = engine.alive().await;
            scan.needs_engine = false;
        }
        if running.is_empty() {
            let is_over = end.why != BatchWhy::Finished || end.left == 0 || !waits;
            if is_over || stop.is_stopped() {
                break;
            }
        }
        let finished = tokio::select! {
            biased;
            () = stop.stopped(), if end.why == BatchWhy::Finished => {
                end.why = BatchWhy::Stopped;
                for source in lock(&shared.stops).values() {
                    source.stop();
                }
                continue;
            }
            Some(finished) = running.join_next() => finished,
            () = tokio::time::sleep(poll), if end.why == BatchWhy::Finished => continue,
            else => break,
        };
        let (id, outcome) = match finished {
            Ok(finished) => finished,
            Err(error) => {
                end.why = BatchWhy::Hopeless(format!("a bug of the host: {error}"));
                continue;
            }
        };
        if let Some(scan) = &mut scan {
            scan.mine.remove(&id);
        }
        match outcome {
            ClaimEnd::Published(result) => {
                end.done += 1;
                match result.has_failed() {
                    true => {
                        end.failed += 1;
                        in_a_row += 1;
                    }
                    false => in_a_row = 0,
                }
                let most = job.limits.failures_in_a_row;
                if most > 0 && in_a_row >= most && end.why == BatchWhy::Finished {
                    let error = result.error.clone().unwrap_or(result.exit_status.clone());
                    end.why = BatchWhy::Failures(in_a_row, error);
                }
                watcher.done(&result);
            }
            ClaimEnd::Again(result) => {
                let wait = job.limits.retry_wait;
                watcher.again(&result, wait);
                if let Some(scan) = &mut scan {
                    scan.later.insert(id, Instant::now() + wait);
                }
            }
            ClaimEnd::Left => watcher.cut(&id),
            ClaimEnd::Hopeless(reason) => {
                end.why = BatchWhy::Hopeless(reason);
                for source in lock(&shared.stops).values() {
                    source.stop();
                }
            }
        }
    }
    end.left = folder.missing();
    if end.left == 0 && !matches!(end.why, BatchWhy::Hopeless(_)) {
        end.why = BatchWhy::Finished;
    }
    end
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Makes the attempt that was claimed.
async fn attempt(shared: Arc<WorkerShared>, claimed: Claimed) -> (String, ClaimEnd) {
    let number = claimed.number;
    let instance = &shared.folder.instances()[claimed.place];
    let id = instance.id.clone();
    let own = shared.folder.of(&id);
    let (source, stop) = StopSource::new();
    let source = Arc::new(source);
    lock(&shared.stops).insert(id.clone(), source.clone());
    shared.holding.add(own.clone(), number, source.clone());
    let front = WorkerFront {
        id: id.clone(),
        watcher: shared.watcher.clone(),
    };
    let attempt = Attempt {
        runtime: &shared.runtime,
        job: &shared.job,
        place: attempt_folder(&own, number),
        instance,
        number,
        front: Arc::new(front),
        stop: (source, stop),
    };
    let end = attempt
        .run(|goes_on| shared.watcher.began(&id, number, goes_on))
        .await;
    lock(&shared.stops).remove(&id);
    let (holding, folder) = (shared.holding.clone(), own.clone());
    let is_mine = aside("fence", move || holding.remove(&folder))
        .await
        .unwrap_or_default();
    if !is_mine {
        // What came of it is the other worker's business now.
        return (id, ClaimEnd::Left);
    }
    let (why, end) = match end {
        AttemptEnd::Ended(result) => {
            let is_fault = severity(&result.exit_status) == Severity::Infrastructure;
            if !is_fault || claimed.counted >= shared.job.limits.retries {
                let end = publish(&shared, result, Some(number)).await;
                return (id, end);
            }
            (ClaimRelease::Failed, ClaimEnd::Again(result))
        }
        AttemptEnd::Cut => (ClaimRelease::Released, ClaimEnd::Left),
        AttemptEnd::Hopeless(reason) => (ClaimRelease::Released, ClaimEnd::Hopeless(reason)),
    };
    let given = aside("claims", move || give_up(&own, number, why)).await;
    if let Some(Err(error)) = given {
        tracing::warn!("the claim of `{id}` can't be given up, and has to end by itself: {error}");
    }
    (id, end)
}

/// Writes the result, unless another worker has done so, and shows the attempt's files in the folder of the
/// instance.
async fn publish(shared: &WorkerShared, result: Box<BatchResult>, number: Option<u32>) -> ClaimEnd {
    let path = result_file(shared.folder.path(), &result.instance_id);
    let own = shared.folder.of(&result.instance_id);
    let token = shared.token.clone();
    let written = aside("result", move || {
        let written = result.write_among(&path, &token);
        if let (Ok(true), Some(number)) = (&written, number) {
            let attempt = attempt_folder(&own, number);
            let id = &result.instance_id;
            for name in [journal_name(id), trajectory_name(id)] {
                let shown = fs::hard_link(attempt.join(&name), own.join(&name));
                if let Err(error) = shown {
                    tracing::warn!("`{}` is only in `{}`: {error}", name, attempt.display());
                }
            }
        }
        (written, result)
    });
    match written.await {
        Some((Ok(true), result)) => ClaimEnd::Published(result),
        Some((Ok(false), result)) => {
            tracing::warn!("`{}` has a result of another worker", result.instance_id);
            ClaimEnd::Left
        }
        Some((Err(error), _)) => ClaimEnd::Hopeless(error.to_string()),
        None => ClaimEnd::Hopeless("a bug of the host: the result was not written".to_owned()),
    }
}

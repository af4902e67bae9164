//! One of many workers on a batch: it claims instances, one attempt at a time for each, until every
//! instance has a result.

use std::collections::{HashMap, HashSet};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use mswea_core::{Front, Progress, Stop, StopSource};
use mswea_executor::aside;
use mswea_session::Runtime;
use tokio::task::JoinSet;

use crate::attempt::{Attempt, AttemptEnd};
use crate::claims::{ClaimRelease, Observed, attempt_folder, give_up};
use crate::floor::{FloorWatch, MayBegin};
use crate::folder::{BatchFolder, result_file};
use crate::holding::Holding;
use crate::job::BatchJob;
use crate::outcome::{BatchResult, Severity, severity};
use crate::scan::{Claimed, Scan, WorkerPlan, show_files};
use crate::work::{BatchEnd, BatchWatcher, BatchWhy};

/// The data that the tasks share.
struct WorkerShared {
    runtime: Arc<Runtime>,
    job: Arc<BatchJob>,
    folder: Arc<BatchFolder>,
    watcher: Arc<dyn BatchWatcher>,
    holding: Arc<Holding>,
    token: String,
    /// The stop sources of the current runs, by the ids of their instances.
    stops: Mutex<HashMap<String, Arc<StopSource>>>,
}

struct WorkerFront {
    id: String,
    watcher: Arc<dyn BatchWatcher>,
    holding: Arc<Holding>,
    /// The folder of the instance.
    own: PathBuf,
}

impl Front for WorkerFront {
    fn show(&self, progress: &Progress<'_>) {
        // These precede a query. If another worker has taken over the attempt, the query is not
        // sent.
        if let Progress::StepStarted { .. } | Progress::Asked { .. } = progress {
            self.holding.check(&self.own);
        }
        self.watcher.progress(&self.id, progress);
    }
}

/// How an attempt at a claimed instance ended.
enum ClaimEnd {
    /// The instance has its result, made by this worker.
    Published(Box<BatchResult>),
    /// The attempt gave the instance no result.
    Left,
    /// It may be tried again.
    Again(Box<BatchResult>),
    /// No instance can be run.
    Hopeless(String),
}

/// Claims instances and gives them their results, until none is left. `stop` ends this: the runs
/// are stopped, and the claims are given up.
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
    let mut machine = FloorWatch::new(&job.limits.floor, folder.path());
    loop {
        while end.why == BatchWhy::Finished
            && !stop.is_stopped()
            && running.len() < job.limits.workers.max(1)
        {
            let said = |short: &str| watcher.waits(short);
            match machine.may_begin(running.len(), &said).await {
                MayBegin::Yes => {}
                MayBegin::NotYet => break,
                MayBegin::Never(short) => {
                    end.why = BatchWhy::Limit(short);
                    break;
                }
            }
            let Some(now) = scan.take() else {
                break;
            };
            let of = folder.clone();
            let (retries, wait) = (job.limits.retries, job.limits.retry_wait);
            let Some(pass) = aside(move || now.pass(&of, retries, wait)).await else {
                end.why = BatchWhy::Hopeless("a bug of the host: claims were not read".to_owned());
                break;
            };
            end.left = pass.left;
            scan = Some(pass.scan);
            if let Some(error) = pass.error {
                end.why = BatchWhy::Hopeless(error);
            }
            if let Some(result) = pass.exhausted {
                if let Some(scan) = &mut scan {
                    // If the result can't be published, it is not tried again at once.
                    let later = Instant::now() + poll * 4;
                    scan.later.insert(result.instance_id.clone(), later);
                }
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
            && asked.is_some_and(|time| time.elapsed() > poll * 4)
        {
            scan.alive = None;
        }
        if let Some(scan) = &mut scan
            && scan.needs_engine
            && asked.is_none_or(|time| time.elapsed() >= poll * 2)
        {
            asked = Some(Instant::now());
            scan.alive = Some(engine.alive().await);
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
                watcher.again(&result, job.limits.retry_wait);
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
    if end.left > 0 && stop.is_stopped() && end.why == BatchWhy::Finished {
        end.why = BatchWhy::Stopped;
    }
    if end.left == 0 && !matches!(end.why, BatchWhy::Hopeless(_)) {
        end.why = BatchWhy::Finished;
    }
    end
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Makes an attempt at the claimed instance.
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
        holding: shared.holding.clone(),
        own: own.clone(),
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
    let is_mine = aside(move || holding.remove(&folder))
        .await
        .unwrap_or_default();
    if !is_mine {
        // Another worker has taken over the instance, and decides its result.
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
    let given = aside(move || give_up(&own, number, why)).await;
    if let Some(Err(error)) = given {
        tracing::warn!("the claim of `{id}` can't be given up, and has to end by itself: {error}");
    }
    (id, end)
}

/// Writes the result, unless another worker has written one, and links the attempt's files into the
/// folder of the instance.
async fn publish(shared: &WorkerShared, result: Box<BatchResult>, number: Option<u32>) -> ClaimEnd {
    let path = result_file(shared.folder.path(), &result.instance_id);
    let own = shared.folder.of(&result.instance_id);
    let token = shared.token.clone();
    let written = aside(move || {
        let written = result.write_among(&path, &token);
        if let (Ok(true), Some(number)) = (&written, number) {
            let attempt = attempt_folder(&own, number);
            let id = &result.instance_id;
            show_files(&own, &attempt, id, &token);
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

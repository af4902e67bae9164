//! Works on a batch: several runs at a time, until every instance has a result.

use std::collections::{HashSet, VecDeque};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use mswea_core::{Front, Progress, Stop, StopSource};
use mswea_executor::aside;
use mswea_session::{Earlier, Runtime};
use tokio::sync::Notify;
use tokio::task::JoinSet;

use crate::attempt::{Attempt, AttemptEnd};
use crate::floor::{FloorWatch, MayBegin, RECHECK};
use crate::folder::{BatchFolder, journal, result_file};
use crate::job::{BatchJob, BatchLimits};
use crate::manifest::BatchInstance;
use crate::outcome::{BatchResult, Severity, severity};
use crate::result_files::ResultFiles;

const HIGHER: &str = "the same command with a higher limit goes on";

/// The longest wait before another attempt.
const LONGEST_WAIT: Duration = Duration::from_secs(300);

/// Gets the progress of a batch. Its functions must return at once.
pub trait BatchWatcher: Send + Sync {
    /// An attempt begins; with `goes_on` it continues a run of an earlier process.
    fn began(&self, id: &str, attempt: u32, goes_on: bool);
    /// Progress of the run of an instance.
    fn progress(&self, id: &str, progress: &Progress<'_>);
    /// An instance is tried again after `wait`.
    fn again(&self, failed: &BatchResult, wait: Duration);
    /// An instance has its result, which is written.
    fn done(&self, result: &BatchResult);
    /// The run of an instance was stopped; it has no result.
    fn cut(&self, id: &str);
    /// No further instance begins until more memory or disk space is free. The text says what is
    /// too little.
    fn waits(&self, short: &str);
}

/// Why the work ended.
#[derive(Clone, Debug, PartialEq)]
pub enum BatchWhy {
    /// Every instance has its result.
    Finished,
    /// The user has stopped it.
    Stopped,
    /// So many instances have failed in a row; the text is the last failure.
    Failures(u32, String),
    /// A limit of the whole batch was reached; the text names it.
    Limit(String),
    /// No instance can be run; the text says why.
    Hopeless(String),
}

/// How the work ended.
#[derive(Clone, Debug, PartialEq)]
pub struct BatchEnd {
    /// The reason.
    pub why: BatchWhy,
    /// Instances that got a result.
    pub done: usize,
    /// The number of them whose runs ended with an error.
    pub failed: usize,
    /// Instances without a result.
    pub left: usize,
}

/// The use of all runs together.
#[derive(Debug, Default)]
struct Spent {
    cost: Mutex<f64>,
    calls: AtomicU64,
    changed: Notify,
}

impl Spent {
    /// Adds what was used before: by the results, and by the runs that were cut off.
    fn before(&self, folder: &BatchFolder) {
        let results = folder.results().unwrap_or_default();
        let done: HashSet<&str> = results.iter().map(|it| it.instance_id.as_str()).collect();
        let ids = folder.instances().iter().map(|it| it.id.as_str());
        let cut = ids.filter(|id| !done.contains(id)).filter_map(|id| {
            let account = Earlier::to_read(&journal(folder.path(), id)).ok()?;
            let account = &account.state().account;
            Some((account.known_cost(), account.queries))
        });
        let of_results = results.iter().map(|it| (it.cost, it.steps));
        for (cost, calls) in of_results.chain(cut) {
            *self.cost.lock().unwrap_or_else(PoisonError::into_inner) += cost.unwrap_or_default();
            self.calls.fetch_add(calls.into(), Ordering::Relaxed);
        }
    }

    fn add(&self, cost: Option<f64>) {
        *self.cost.lock().unwrap_or_else(PoisonError::into_inner) += cost.unwrap_or_default();
        self.calls.fetch_add(1, Ordering::Relaxed);
        self.changed.notify_one();
    }

    /// The limit that was reached, if one was.
    fn reached(&self, limits: &BatchLimits) -> Option<String> {
        let cost = *self.cost.lock().unwrap_or_else(PoisonError::into_inner);
        let calls = self.calls.load(Ordering::Relaxed);
        if limits.cost > 0.0 && cost >= limits.cost {
            return Some(format!(
                "the batch has spent ${cost:.2}, and its limit is ${:.2}; {HIGHER}",
                limits.cost
            ));
        }
        (limits.calls > 0 && calls >= limits.calls).then(|| {
            format!(
                "the batch has sent {calls} queries, and its limit is {}; {HIGHER}",
                limits.calls
            )
        })
    }
}

/// The front of one instance.
struct InstanceFront {
    id: String,
    watcher: Arc<dyn BatchWatcher>,
    spent: Arc<Spent>,
}

impl Front for InstanceFront {
    fn show(&self, progress: &Progress<'_>) {
        if let Progress::Replied { cost, .. } | Progress::Answered { cost, .. } = progress {
            self.spent.add(*cost);
        }
        self.watcher.progress(&self.id, progress);
    }
}

/// The data that the tasks of the instances share.
struct BatchShared {
    runtime: Arc<Runtime>,
    job: Arc<BatchJob>,
    folder: Arc<BatchFolder>,
    watcher: Arc<dyn BatchWatcher>,
    spent: Arc<Spent>,
    /// The stop sources of the current runs, by the places of their instances.
    stops: Mutex<Vec<(usize, Arc<StopSource>)>>,
    /// Fires when no further attempt may begin.
    is_ending: Stop,
}

impl BatchShared {
    fn stop_all(&self) {
        let stops = self.stops.lock().unwrap_or_else(PoisonError::into_inner);
        for (_, source) in stops.iter() {
            source.stop();
        }
    }
}

/// Gives each of `instances` its result. At the first stop, no further instance begins, and those
/// that run are finished. At the second, they are stopped, and can be resumed later. At the third,
/// they end at once.
pub async fn work(
    runtime: Arc<Runtime>,
    job: Arc<BatchJob>,
    folder: Arc<BatchFolder>,
    instances: Vec<BatchInstance>,
    watcher: Arc<dyn BatchWatcher>,
    mut files: ResultFiles,
    stop: Stop,
) -> BatchEnd {
    let (ending, is_ending) = StopSource::new();
    let spent = Arc::new(Spent::default());
    if job.limits.cost > 0.0 || job.limits.calls > 0 {
        spent.before(&folder);
    }
    let shared = Arc::new(BatchShared {
        runtime,
        job: job.clone(),
        folder,
        watcher: watcher.clone(),
        spent: spent.clone(),
        stops: Mutex::default(),
        is_ending,
    });
    let all = instances.len();
    let mut queue: VecDeque<(usize, BatchInstance)> = instances.into_iter().enumerate().collect();
    let mut running = JoinSet::new();
    let mut end = BatchEnd {
        why: BatchWhy::Finished,
        done: 0,
        failed: 0,
        left: all,
    };
    let mut in_a_row = 0;
    let mut asked = std::pin::pin!(stops_of(stop.clone()));
    let mut machine = FloorWatch::new(&job.limits.floor, shared.folder.path());
    loop {
        if end.why == BatchWhy::Finished
            && let Some(limit) = spent.reached(&job.limits)
        {
            end.why = BatchWhy::Limit(limit);
            ending.stop();
            shared.stop_all();
        }
        while end.why == BatchWhy::Finished && running.len() < job.limits.workers.max(1) {
            if queue.is_empty() {
                break;
            }
            let said = |short: &str| watcher.waits(short);
            match machine.may_begin(running.len(), &said).await {
                MayBegin::Yes => {}
                MayBegin::NotYet => break,
                MayBegin::Never(short) => {
                    end.why = BatchWhy::Limit(short);
                    break;
                }
            }
            let Some((place, instance)) = queue.pop_front() else {
                break;
            };
            running.spawn(one(shared.clone(), place, instance));
        }
        // Instances and free workers are left: too little of the machine is free.
        let is_held = end.why == BatchWhy::Finished
            && !queue.is_empty()
            && running.len() < job.limits.workers.max(1);
        let finished = tokio::select! {
            biased;
            times = asked.next() => {
                if end.why == BatchWhy::Finished {
                    end.why = BatchWhy::Stopped;
                }
                ending.stop();
                if times > 1 {
                    shared.stop_all();
                }
                continue;
            }
            finished = running.join_next(), if !is_held || !running.is_empty() => finished,
            () = tokio::time::sleep(RECHECK), if is_held => continue,
            () = spent.changed.notified() => continue,
        };
        let outcome = match finished {
            None => break,
            Some(Ok(outcome)) => outcome,
            Some(Err(error)) => AttemptEnd::Hopeless(format!("a bug of the host: {error}")),
        };
        let hopeless = match outcome {
            AttemptEnd::Cut => None,
            AttemptEnd::Hopeless(reason) => Some(reason),
            AttemptEnd::Ended(result) => {
                end.done += 1;
                end.left -= 1;
                match result.has_failed() {
                    true => {
                        end.failed += 1;
                        in_a_row += 1;
                    }
                    false => in_a_row = 0,
                }
                let most = job.limits.failures_in_a_row;
                if end.why == BatchWhy::Finished && most > 0 && in_a_row >= most {
                    let error = result.error.clone().unwrap_or(result.exit_status.clone());
                    end.why = BatchWhy::Failures(in_a_row, error);
                    ending.stop();
                }
                watcher.done(&result);
                files.put(*result)
            }
        };
        if let Some(reason) = hopeless
            && !matches!(end.why, BatchWhy::Hopeless(_))
        {
            end.why = BatchWhy::Hopeless(reason);
            ending.stop();
            shared.stop_all();
        }
    }
    let closed = aside(move || files.close()).await;
    if let Some(Err(error)) = closed {
        end.why = BatchWhy::Hopeless(error);
    }
    if end.left == 0 {
        end.why = match end.why {
            why @ BatchWhy::Hopeless(_) => why,
            _ => BatchWhy::Finished,
        };
    }
    end
}

/// Counts the stops that the user asks for.
struct StopsOf {
    stop: Stop,
    times: u8,
    next: std::pin::Pin<Box<dyn Future<Output = ()> + Send>>,
}

fn stops_of(stop: Stop) -> StopsOf {
    let first = stop.clone();
    StopsOf {
        stop,
        times: 0,
        next: Box::pin(async move { first.stopped().await }),
    }
}

impl StopsOf {
    /// The number of the next stop. The future may be dropped and the function called again.
    async fn next(&mut self) -> u8 {
        self.next.as_mut().await;
        self.times = self.times.saturating_add(1);
        self.next = match self.times {
            1 => {
                let stop = self.stop.clone();
                Box::pin(async move { stop.stopped_twice().await })
            }
            _ => Box::pin(self.stop.stopped_again()),
        };
        self.times
    }
}

/// Gives one instance its result.
async fn one(shared: Arc<BatchShared>, place: usize, instance: BatchInstance) -> AttemptEnd {
    let limits = &shared.job.limits;
    let mut wait = limits.retry_wait;
    for number in 1u32.. {
        let (source, stop) = StopSource::new();
        let source = Arc::new(source);
        let stops = || shared.stops.lock().unwrap_or_else(PoisonError::into_inner);
        stops().push((place, source.clone()));
        let front = InstanceFront {
            id: instance.id.clone(),
            watcher: shared.watcher.clone(),
            spent: shared.spent.clone(),
        };
        let attempt = Attempt {
            runtime: &shared.runtime,
            job: &shared.job,
            place: shared.folder.of(&instance.id),
            instance: &instance,
            number,
            front: Arc::new(front),
            stop: (source, stop),
        };
        let began = |goes_on| shared.watcher.began(&instance.id, number, goes_on);
        let end = attempt.run(began).await;
        stops().retain(|(other, _)| *other != place);
        let result = match end {
            AttemptEnd::Ended(result) => result,
            AttemptEnd::Cut => {
                shared.watcher.cut(&instance.id);
                return AttemptEnd::Cut;
            }
            hopeless @ AttemptEnd::Hopeless(_) => return hopeless,
        };
        let is_infrastructure = severity(&result.exit_status) == Severity::Infrastructure;
        if !is_infrastructure || number > limits.retries {
            return publish(&shared, result).await;
        }
        shared.watcher.again(&result, wait);
        tokio::select! {
            () = tokio::time::sleep(wait) => {}
            // A fault of the infrastructure is not a result while another attempt is possible.
            () = shared.is_ending.stopped() => {
                shared.watcher.cut(&instance.id);
                return AttemptEnd::Cut;
            }
        }
        wait = (wait * 2).min(LONGEST_WAIT);
    }
    AttemptEnd::Cut
}

/// Writes the result.
async fn publish(shared: &BatchShared, result: Box<BatchResult>) -> AttemptEnd {
    let path = result_file(shared.folder.path(), &result.instance_id);
    let written = aside(move || {
        let written = result.write(&path);
        (written, result)
    });
    match written.await {
        Some((Ok(_), result)) => AttemptEnd::Ended(result),
        Some((Err(error), _)) => AttemptEnd::Hopeless(error.to_string()),
        None => AttemptEnd::Hopeless("a bug of the host: the result was not written".to_owned()),
    }
}

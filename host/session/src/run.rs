//! Runs one job to its end, in programs with one run or with a thousand.

use std::path::PathBuf;
use std::pin::{Pin, pin};
use std::sync::{Arc, PoisonError};

use mswea_core::{Context, End, Front, Person, Progress, Stop};
use mswea_executor::aside;
use mswea_run::{Agent, Ended, State, bug, caught};

use super::earlier::Earlier;
use super::error::SetupError;
use super::leftovers::Leftovers;
use super::record::{JournalSettings, RunRecord};
use super::record_error::Unwritten;
use super::{Job, Runtime};

/// Runs a task to its end, and records it: the journal, and the trajectory that is made of it, at
/// `agent.output_path` or else below the user's state folder.
///
/// Many runs can run at once in one process, on one thread or several: the future waits for no program, server or
/// reader on its thread, and no run delays another. On its thread it makes only short calls of the file system (for the
/// journal, and to find programs in `PATH`). `runtime` has the parts that they share. `front` gets the
/// progress and must return at once; `person` answers questions that only a person can decide
/// ([`mswea_core::Nobody`] for a run without a user); `stop` ends the run, also during its
/// preparation. If the future is dropped, the run is aborted as by a `kill -9`: its processes are
/// ended, and its journal has the events so far.
///
/// In a program that unwinds, a panic in this function or in `front` ends only this run: its work
/// is saved and its trajectory written ([`End::Crashed`], or [`RunOutcome::Crashed`] if the end
/// panics, too). In a program that does not unwind (`panic = "abort"`), it ends the process; see
/// [`Runtime::save_current_runs`].
///
/// The function needs a tokio runtime with time and I/O. Use the same runtime for all runs of
/// `runtime`, because connections are kept open between them.
///
/// # Examples
/// `examples/embed` is a program with a hundred runs.
pub async fn run(
    runtime: &Runtime,
    mut job: Job<'_>,
    front: Arc<dyn Front>,
    person: Arc<dyn Person>,
    stop: Stop,
) -> Done {
    let run_id = job.run_id.to_owned();
    let refused = |error: SetupError| Done {
        run_id: run_id.clone(),
        outcome: RunOutcome::Refused(error),
        journal: None,
        trajectory: Err(Unwritten::Nothing),
    };
    runtime.expect_plugins(&job);
    let reserving = reserve(runtime, &mut job, front.clone());
    let record = match unless_stopped(&stop, reserving).await {
        Ok(record) => record,
        Err(error) => return refused(error),
    };
    let _living = runtime.living(&record);
    let agent = match begin(runtime, job, front, person, &record, &stop).await {
        Ok(agent) => agent,
        Err(error) => {
            let journal = record.journal();
            record.forget();
            return Done {
                journal,
                ..refused(error)
            };
        }
    };
    runtime.sweep();
    let (outcome, state) = outcome(agent, &record, &stop).await;
    let written = record.finish(state, &stop).await;
    Done {
        run_id,
        outcome,
        journal: record.journal(),
        trajectory: written.map(|()| record.trajectory()),
    }
}

/// Prepares and begins a run, unless it is stopped first. The processes of the same run in an
/// earlier process have ended when this returns an agent.
async fn begin(
    runtime: &Runtime,
    job: Job<'_>,
    front: Arc<dyn Front>,
    person: Arc<dyn Person>,
    record: &Arc<RunRecord>,
    stop: &Stop,
) -> Result<Agent, SetupError> {
    let files = record.files().clone();
    let context = Context {
        clock: job.clock.clone(),
        ..Context::new(front.clone(), record.clone(), stop.clone())
    };
    let own_files = files.own_files();
    let resumed = job
        .from
        .as_ref()
        .filter(|earlier| earlier.forked().is_none());
    // The processes are ended while the plugins are being prepared.
    let leftovers = resumed.map(|earlier| Leftovers::end(earlier.process_ids()));
    let mut preparing = pin!(async {
        front.show(&Progress::Recording {
            trajectory: &files.trajectory,
            journal: &files.journal,
        });
        runtime.prepared(job, context, person, &own_files).await
    });
    let preparing = async { caught(preparing.as_mut()).await.unwrap_or_else(crashed) };
    // A run that has begun has files. So a first stop during the beginning takes effect only after
    // the beginning is complete.
    let prepared = unless_stopped(stop, preparing).await?;
    let agent = tokio::select! {
        biased;
        begun = prepared.begin() => begun?,
        () = stop.stopped_twice() => return Err(SetupError::Interrupted),
    };
    if let Some(leftovers) = leftovers {
        // The processes must have ended before the first command of this process.
        leftovers.gone(stop).await;
    }
    Ok(agent)
}

/// Runs the loop to its end, and writes the trajectory repeatedly meanwhile. The loop itself
/// handles a panic of a part ([`End::Crashed`]). A panic that it does not handle, for example of
/// the front when it gets the end, is recorded here. Returns also the last state, of which the trajectory is made; none
/// if it is lost, or if the journal does not have all of it.
async fn outcome(
    agent: Agent,
    record: &Arc<RunRecord>,
    stop: &Stop,
) -> (RunOutcome, Option<State>) {
    let mut running: Pin<Box<dyn Future<Output = Ended> + Send>> = Box::pin(agent.run());
    let ended = tokio::select! {
        biased;
        ended = caught(running.as_mut()) => ended,
        never = record.keep_up() => match never {},
    };
    match ended {
        Ok(mut ended) => {
            // The result of the run is without the messages, which may be large.
            let state = std::mem::take(&mut ended.state);
            ended.state.faults.clone_from(&state.faults);
            // The trajectory never says more than the journal.
            let state = ended.is_recorded.then_some(state);
            (RunOutcome::Ended(Box::new(ended)), state)
        }
        Err(words) => {
            // The destructors end the run's processes, and wait for that.
            let gone = aside(move || drop(running));
            tokio::select! {
                _ = gone => {}
                () = stop.stopped_again() => {}
            }
            let message = bug(&words);
            let end = End::Crashed {
                message: message.clone(),
            };
            record.crashed(&end);
            (RunOutcome::Crashed(message), None)
        }
    }
}

async fn reserve(
    runtime: &Runtime,
    job: &mut Job<'_>,
    front: Arc<dyn Front>,
) -> Result<Arc<RunRecord>, SetupError> {
    let files = job.files();
    let held = job.from.as_mut().and_then(Earlier::take_held);
    let run_id = job.run_id.to_owned();
    let settings = JournalSettings {
        fsync: job.fsync,
        clock: job.clock.clone(),
    };
    let writers = runtime.writers.clone();
    // The files may be on a file system that does not answer.
    let reserve = move || RunRecord::reserve(files, held, &run_id, front, &writers, settings);
    let reserved = aside(reserve).await;
    let record = reserved.ok_or_else(|| SetupError::Internal(bug("the files of a run")))?;
    Ok(Arc::new(record?))
}

/// Waits for a part of the preparation, unless the run is stopped.
async fn unless_stopped<T>(
    stop: &Stop,
    part: impl Future<Output = Result<T, SetupError>>,
) -> Result<T, SetupError> {
    tokio::select! {
        biased;
        () = stop.stopped() => Err(SetupError::Interrupted),
        done = part => done,
    }
}

fn crashed<T>(words: String) -> Result<T, SetupError> {
    Err(SetupError::Internal(bug(&words)))
}

/// The result of a run.
#[derive(Debug)]
pub struct Done {
    /// Its id.
    pub run_id: String,
    /// How it ended.
    pub outcome: RunOutcome,
    /// The path of its journal, if it has one.
    pub journal: Option<PathBuf>,
    /// The path of its trajectory.
    ///
    /// # Errors
    /// [`Unwritten`]: why there is none. The journal has the recorded events.
    pub trajectory: Result<PathBuf, Unwritten>,
}

/// How a run ended.
#[derive(Debug)]
pub enum RunOutcome {
    /// The loop has ended, for whatever reason.
    Ended(Box<Ended>),
    /// The run never began: nothing was started or sent, and no file of an earlier run was touched.
    Refused(SetupError),
    /// A bug of the host has ended the run; the text describes it.
    Crashed(String),
}

impl Done {
    /// The exit status, as in the trajectory.
    pub fn exit_status(&self) -> &str {
        match &self.outcome {
            RunOutcome::Ended(ended) => &ended.exit_status,
            RunOutcome::Refused(error) => error.exit_status(),
            RunOutcome::Crashed(_) => "InternalError",
        }
    }

    /// The submission; empty if there is none.
    pub fn submission(&self) -> &str {
        match &self.outcome {
            RunOutcome::Ended(ended) => &ended.submission,
            RunOutcome::Refused(_) | RunOutcome::Crashed(_) => "",
        }
    }

    /// The failure for the user, with cause and remedy; `None` if nothing failed.
    pub fn error(&self) -> Option<String> {
        match &self.outcome {
            RunOutcome::Ended(ended) => ended.end.error().map(str::to_owned),
            RunOutcome::Refused(error) => Some(error.to_string()),
            RunOutcome::Crashed(words) => Some(words.clone()),
        }
    }
}

/// A front that shows nothing.
#[derive(Clone, Copy, Debug, Default)]
pub struct Unwatched;

impl Front for Unwatched {
    fn show(&self, _: &Progress<'_>) {}
}

/// While this exists, [`Runtime::save_current_runs`] includes its run.
struct Living<'a>(&'a Runtime, Arc<RunRecord>);

impl Drop for Living<'_> {
    fn drop(&mut self) {
        let mut living = self.0.living.lock().unwrap_or_else(PoisonError::into_inner);
        living.retain(|other| !Arc::ptr_eq(other, &self.1));
    }
}

impl Runtime {
    fn living(&self, record: &Arc<RunRecord>) -> Living<'_> {
        let mut living = self.living.lock().unwrap_or_else(PoisonError::into_inner);
        living.push(record.clone());
        Living(self, record.clone())
    }

    /// For the panic hook of a program that does not unwind: writes the trajectories of the current
    /// runs, and returns a line with the path of each. It takes a limited time, whatever thread has
    /// panicked.
    pub fn save_current_runs(&self) -> String {
        // A thread that panicked may hold the lock.
        let Ok(living) = self.living.try_lock() else {
            return "what was recorded is in the journal".to_owned();
        };
        match living.as_slice() {
            [] => "nothing was recorded yet".to_owned(),
            living => {
                let words: Vec<String> = living.iter().map(|it| it.save_now()).collect();
                words.join("\n")
            }
        }
    }

    /// For a process that is about to end: waits for a short time for the end of the sweep of
    /// leftovers, if there is one ([`Runtime::sweeping`]).
    pub async fn swept(&self, stop: &Stop) {
        if let Some(sweep) = &self.sweep {
            sweep.wait(stop).await;
        }
    }

    fn sweep(&self) {
        if let Some(sweep) = &self.sweep {
            sweep.begin();
        }
    }
}

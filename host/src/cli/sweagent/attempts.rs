//! Several attempts at one problem: each is a run with a journal and an environment of its own. A
//! model judges them. All are in one trajectory, which is written after each attempt.

mod judges;
mod plan;

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::sync::Arc;

use serde_json::Value;

use super::tidying::write_json;
use crate::cli::output::{self, Failure};
use judges::{Judges, Unjudged};
use mswea_batch::{BatchInstance, InstanceCourse, Severity, severity};
use mswea_core::{End, Front, Nobody, Progress, Stop};
use mswea_executor::aside;
use mswea_record::Account;
use mswea_run::{Ended, State};
use mswea_secrecy as secrecy;
use mswea_session::{self as session, Done, Earlier, Job, RunOutcome, Runtime};
use mswea_sweagent::attempts::{AttemptTally, ModelStats, NoMore, combined};
use mswea_sweagent::{SweProblem, trajectory};
pub(super) use plan::AttemptsPlan;
use plan::PlannedRun;

/// The attempts at one problem.
pub(super) struct AttemptSeries<'a> {
    pub(super) plan: &'a AttemptsPlan,
    /// The problem of the plan; its images are fetched at the beginning.
    pub(super) problem: SweProblem,
    /// The folder of the instance's files.
    pub(super) folder: PathBuf,
    pub(super) runtime: &'a Runtime,
    pub(super) front: Arc<dyn Front>,
    pub(super) stop: Stop,
    /// Whether attempts count that had ended before the process was killed: in a batch, whose
    /// instances have folders of their own.
    pub(super) goes_on: bool,
}

/// The plans of a batch's instances with several attempts each, by instance id.
#[derive(Debug)]
pub(super) struct AttemptsCourse(pub(super) HashMap<String, AttemptsPlan>);

impl InstanceCourse for AttemptsCourse {
    fn run<'a>(
        &'a self,
        runtime: &'a Runtime,
        instance: &'a BatchInstance,
        folder: &'a Path,
        front: Arc<dyn Front>,
        stop: Stop,
    ) -> Pin<Box<dyn Future<Output = Done> + Send + 'a>> {
        let Some(plan) = self.0.get(&instance.id) else {
            let text = format!("the instance `{}` has no plan", instance.id);
            let done = refused(session::SetupError::Internal(text));
            return Box::pin(std::future::ready(done));
        };
        let attempts = AttemptSeries {
            plan,
            problem: plan.problem.clone(),
            folder: folder.to_owned(),
            runtime,
            front,
            stop,
            goes_on: true,
        };
        Box::pin(attempts.run())
    }
}

/// Adds the images of a problem to its text, unless the run is stopped meanwhile.
pub(super) async fn completed(problem: &mut SweProblem, stop: &Stop) {
    let id = problem.id.clone();
    let said = |text: &str| output::warning(&format!("{id}: {text}"));
    tokio::select! {
        () = problem.take_images(&secrecy::var, &said) => {}
        () = stop.stopped() => {}
    }
}

/// Attempts that have ended.
#[derive(Default)]
struct EndedAttempts {
    /// Their trajectories.
    made: Vec<Value>,
    dones: Vec<Done>,
    scores: Vec<f64>,
    tally: AttemptTally,
}

impl AttemptSeries<'_> {
    /// Makes attempts until one is accepted or no further one is allowed, and chooses one of them.
    /// The result is that of the chosen attempt, with the cost of everything.
    pub(super) async fn run(mut self) -> Done {
        completed(&mut self.problem, &self.stop).await;
        let mut judges = match Judges::of(&self).await {
            Ok(judges) => judges,
            Err(error) => return refused(error),
        };
        self.forget_earlier().await;
        let mut ended = EndedAttempts::default();
        let mut is_stopped = false;
        loop {
            let number = ended.made.len();
            if let Some(why) = self.plan.settings.budget.over(ended.tally) {
                let words = format!("there is no attempt {number}: {}", why.words());
                match why {
                    NoMore::Free => self.warn(&words),
                    _ => tracing::info!("{words}"),
                }
                break;
            }
            self.announce(&ended);
            let done = match self.attempt(number, ended.tally.cost).await {
                Ok(done) => done,
                Err(error) => refused(error),
            };
            if let RunOutcome::Refused(error) = &done.outcome {
                if number == 0 || self.stop.is_stopped() {
                    is_stopped = self.stop.is_stopped();
                    if number == 0 {
                        judges.end(&self, false);
                        return done;
                    }
                } else {
                    self.warn(&format!("attempt {number} can't be made: {error}"));
                }
                break;
            }
            is_stopped = is_interrupted(&done) || self.stop.is_stopped();
            let is_last = is_stopped || is_final(&done);
            self.take(&mut ended, done, number).await;
            // Written before the review, which takes time: the process may be killed meanwhile.
            self.write(&ended, None, judges.reviews(), None).await;
            if !is_stopped {
                is_stopped = self.review(&mut judges, &mut ended).await.is_err();
            }
            self.write(&ended, None, judges.reviews(), None).await;
            if is_last || is_stopped {
                break;
            }
        }
        self.conclude(ended, judges, is_stopped).await
    }

    /// Removes the trajectories of an earlier run with the same name, which may have made more
    /// attempts than this one will. Its journals are kept.
    async fn forget_earlier(&self) {
        let places = (0..).map(|number| self.place(number));
        let places: Vec<PathBuf> = places.take_while(|place| place.is_dir()).collect();
        let files: Vec<PathBuf> = places.iter().map(|it| self.file(it, "traj")).collect();
        aside(move || {
            for file in files {
                let _ = std::fs::remove_file(file);
            }
        })
        .await;
    }

    /// The result of an attempt that had ended when an earlier process was killed, and that was
    /// already paid.
    async fn ended_before(&self, number: usize) -> Option<Done> {
        let journal = self.file(&self.place(number), "events.jsonl");
        let task = self.problem.text.clone();
        let read = aside(move || {
            let earlier = Earlier::to_read(&journal).ok()?;
            let state = earlier.state();
            let (ended, end) = (state.ended.clone()?, state.end.clone()?);
            let counts = matches!(
                severity(&ended.exit_status),
                Severity::Ended | Severity::Failed
            );
            if !counts || state.task != task {
                return None;
            }
            let (trajectory, _) = earlier.finish().ok()?;
            let outcome = RunOutcome::Ended(Box::new(Ended {
                end,
                exit_status: ended.exit_status,
                submission: ended.submission,
                account: state.account.clone(),
                state: State {
                    faults: state.faults.clone(),
                    ..State::default()
                },
                is_recorded: true,
            }));
            Some(Done {
                run_id: state.run_id.clone(),
                outcome,
                journal: Some(journal),
                trajectory: Ok(trajectory),
            })
        });
        read.await.flatten()
    }

    /// Makes one attempt. `spent`: the dollars of the attempts before it.
    async fn attempt(&self, number: usize, spent: f64) -> Result<Done, session::SetupError> {
        if self.goes_on
            && let Some(done) = self.ended_before(number).await
        {
            return Ok(done);
        }
        let planned = self.plan.attempt(number, &self.place(number));
        let PlannedRun { layers, mut config } = planned.map_err(unusable)?;
        let own = config.agent.cost_limit;
        config.agent.cost_limit = self.plan.settings.budget.limit(spent, own);
        let work = PathBuf::from(&config.environment.cwd);
        let is_own =
            config.environment.environment_class == "local" && work.starts_with(self.place(number));
        if is_own {
            // Files that an earlier run with the same name has left do not belong to this attempt.
            let of = work.clone();
            let made = aside(move || {
                match mswea_executor::remove_tree(&of) {
                    Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                        return Err(error);
                    }
                    _ => {}
                }
                std::fs::create_dir_all(&of)
            });
            if let Some(Err(error)) = made.await {
                let text = format!("can't make the folder `{}`: {error}", work.display());
                return Err(session::SetupError::Environment(text));
            }
        }
        let run_id = session::new_run_id();
        let job = Job {
            layers: Some(&layers),
            guard_program: std::env::current_exe().ok(),
            ..Job::new(&self.problem.text, &config, &run_id)
        };
        let (front, stop) = (self.front.clone(), self.stop.clone());
        Ok(session::run(self.runtime, job, front, Arc::new(Nobody), stop).await)
    }

    /// Makes the trajectory of an attempt that has ended, and writes it.
    async fn take(&self, ended: &mut EndedAttempts, done: Done, number: usize) {
        let made = match &done.journal {
            Some(journal) => {
                let (journal, name) = (journal.clone(), self.plan.name.clone());
                let shown = self.plan.shown_attempt(number);
                let file = self.file(&self.place(number), "traj");
                let made = aside(move || -> Result<Value, String> {
                    let made = trajectory::trajectory(&journal, &shown, &name);
                    let made = made.map_err(|error| error.to_string())?;
                    write_json(&file, &made).map_err(|failure| failure.message)?;
                    Ok(made)
                });
                made.await
            }
            None => None,
        };
        let made = match made {
            Some(Ok(made)) => made,
            Some(Err(error)) => {
                let text = format!("the trajectory of attempt {number}: {error}");
                self.warn(&text);
                Value::default()
            }
            None => Value::default(),
        };
        ended.tally.attempts = ended.tally.attempts.saturating_add(1);
        ended.tally.last_cost = match &done.outcome {
            RunOutcome::Ended(it) => it.account.cost,
            _ => ModelStats::of(&made).cost,
        };
        ended.tally.cost += ended.tally.last_cost;
        ended.made.push(made);
        ended.dones.push(done);
    }

    /// Asks the reviewer for the score of the last attempt.
    async fn review(&self, judges: &mut Judges, ended: &mut EndedAttempts) -> Result<(), Unjudged> {
        let number = ended.made.len() - 1;
        let before = judges.reviews().cost;
        let review = judges.review(self, number, &ended.made[number]).await?;
        let Some(review) = review else {
            return Ok(());
        };
        let cost = judges.reviews().cost - before;
        ended.tally.last_cost += cost;
        ended.tally.cost += cost;
        ended.tally.accepted += u32::from(review.is_accepted);
        ended.scores.push(review.score);
        ended.made[number]["info"]["review"] = review.shown;
        let (file, made) = (
            self.file(&self.place(number), "traj"),
            ended.made[number].clone(),
        );
        aside(move || drop(write_json(&file, &made))).await;
        Ok(())
    }

    /// Chooses one of the attempts, and writes the trajectory of all.
    async fn conclude(&self, ended: EndedAttempts, mut judges: Judges, stopped: bool) -> Done {
        let chosen = match stopped {
            true => Err(Unjudged::Stopped),
            false => judges.choose(self, &ended.made, &ended.scores).await,
        };
        let (place, choice, is_whole) = match chosen {
            Ok((place, choice)) => (Some(place), choice, true),
            Err(Unjudged::Stopped) => (None, None, false),
        };
        self.write(&ended, place, judges.reviews(), choice.as_ref())
            .await;
        let mut account = judges.end(self, is_whole);
        let mut faults = Vec::new();
        for done in &ended.dones {
            if let RunOutcome::Ended(it) = &done.outcome {
                add(&mut account, &it.account);
                faults.extend_from_slice(&it.state.faults);
            }
        }
        let mut dones = ended.dones;
        let mut done = match place.filter(|place| *place < dones.len()) {
            Some(place) => dones.swap_remove(place),
            None => match dones.pop() {
                Some(last) => last,
                None => return refused(session::SetupError::Interrupted),
            },
        };
        if is_whole {
            self.show_chosen(&mut done).await;
        }
        if let RunOutcome::Ended(it) = &mut done.outcome {
            it.account = account;
            it.state.faults = faults;
            if !is_whole {
                it.end = End::Interrupted;
                End::Interrupted
                    .exit_status()
                    .clone_into(&mut it.exit_status);
            }
        }
        done
    }

    /// Links the chosen attempt's files into the folder of the instance.
    async fn show_chosen(&self, done: &mut Done) {
        for (from, suffix) in [
            (done.journal.clone(), "events.jsonl"),
            (done.trajectory.as_ref().ok().cloned(), "traj.json"),
        ] {
            let Some(from) = from else { continue };
            let to = self.file(&self.folder, suffix);
            let (of, own) = (from.clone(), to.clone());
            let linked = aside(move || {
                let beside = own.with_extension("mswea-tmp");
                let _ = std::fs::remove_file(&beside);
                std::fs::hard_link(&of, &beside)?;
                std::fs::rename(&beside, &own)?;
                // `rename` of two links to the same file removes neither.
                let _ = std::fs::remove_file(&beside);
                Ok::<(), std::io::Error>(())
            });
            match linked.await {
                Some(Ok(())) if suffix == "events.jsonl" => done.journal = Some(to),
                Some(Ok(())) => done.trajectory = Ok(to),
                Some(Err(error)) => {
                    tracing::warn!("`{}` is only there: {error}", from.display());
                }
                None => {}
            }
        }
    }

    /// Writes the trajectory of all attempts; the old one stays until the new one is complete.
    async fn write(
        &self,
        ended: &EndedAttempts,
        chosen: Option<usize>,
        reviews: ModelStats,
        choice: Option<&Value>,
    ) {
        let name = &self.plan.name;
        let made = combined(&ended.made, chosen, reviews, choice, name);
        let file = self.file(&self.folder, "traj");
        let shown = file.display().to_string();
        let written = aside(move || {
            let beside = file.with_extension("traj.mswea-tmp");
            write_json(&beside, &made).map_err(|failure| failure.message)?;
            std::fs::rename(&beside, &file).map_err(|error| error.to_string())
        });
        if let Some(Err(error)) = written.await {
            self.warn(&format!("can't write `{shown}`: {error}"));
        }
    }

    /// Prints that an attempt begins, and how the last one ended.
    fn announce(&self, ended: &EndedAttempts) {
        let number = ended.made.len();
        let last = ended.made.last().map(|made| {
            let status = made["info"]["exit_status"].as_str().unwrap_or_default();
            match ended.scores.last() {
                Some(score) => format!("; attempt {}: {status}, score {score:.2}", number - 1),
                None => format!("; attempt {}: {status}", number - 1),
            }
        });
        let text = format!("attempt {number}{}", last.unwrap_or_default());
        self.front.show(&Progress::Preparing(&text));
    }

    fn warn(&self, text: &str) {
        self.front.show(&Progress::Warning(text));
    }

    /// The folder of an attempt, numbered from 0 as in SWE-agent.
    fn place(&self, number: usize) -> PathBuf {
        self.folder.join(format!("attempt_{number}"))
    }

    fn file(&self, folder: &Path, suffix: &str) -> PathBuf {
        folder.join(format!("{}.{suffix}", self.plan.problem.id))
    }
}

fn refused(error: session::SetupError) -> Done {
    Done {
        run_id: session::new_run_id(),
        outcome: RunOutcome::Refused(error),
        journal: None,
        trajectory: Err(session::Unwritten::Nothing),
    }
}

/// The error for a plan that was valid before the first attempt.
fn unusable(failure: Failure) -> session::SetupError {
    session::SetupError::Workspace(failure.message)
}

fn is_interrupted(done: &Done) -> bool {
    matches!(&done.outcome, RunOutcome::Ended(it) if it.end == End::Interrupted)
}

/// Whether a further attempt would end in the same way.
fn is_final(done: &Done) -> bool {
    matches!(&done.outcome, RunOutcome::Ended(it)
        if matches!(it.end, End::GlobalLimit { .. } | End::Journal { .. }))
}

fn add(sum: &mut Account, other: &Account) {
    sum.queries = sum.queries.saturating_add(other.queries);
    sum.questions = sum.questions.saturating_add(other.questions);
    sum.cost += other.cost;
    sum.cost_unknown |= other.cost_unknown;
    sum.usage.add(&other.usage);
    sum.seconds += other.seconds;
}

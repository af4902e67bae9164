//! One attempt at an instance: a new run, the rest of a run that was cut off, or the result of a run that
//! had ended when its process was killed.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use mswea_config::{Config, Layers};
use mswea_core::{End, Front, Nobody, StopSource};
use mswea_executor::aside;
use mswea_python::{Escapes, push_json_str};
use mswea_record::journal::glance;
use mswea_session::{Done, Earlier, RunOutcome, Runtime, SetupError};

use crate::folder::{journal_name, trajectory_name};
use crate::job::BatchJob;
use crate::manifest::BatchInstance;
use crate::outcome::{BatchResult, Severity, end_of, severity};
use crate::settings::work_folder;

/// The time beyond its limit in which a run has to end; the salvage command has its own time.
const GRACE: Duration = Duration::from_secs(60);

/// The time in which a folder is removed again and again before that counts as an error.
const REMOVAL_TIME: Duration = Duration::from_secs(5);

/// How an attempt ended.
pub(crate) enum AttemptEnd {
    /// The run has ended; its result is not written yet.
    Ended(Box<BatchResult>),
    /// The run was stopped.
    Cut,
    /// No instance of this batch can be run. The text for the user says why.
    Hopeless(String),
}

/// The state in which earlier attempts have left the instance.
enum Before {
    /// Nothing that can be used.
    Nothing,
    /// A run that has ended.
    Ended(Box<BatchResult>),
    /// A run that was cut off and can be resumed.
    Going(Box<Earlier>),
}

/// One attempt.
pub(crate) struct Attempt<'a> {
    pub(crate) runtime: &'a Runtime,
    pub(crate) job: &'a BatchJob,
    /// The folder of the attempt, with its journal and its trajectory.
    pub(crate) place: PathBuf,
    pub(crate) instance: &'a BatchInstance,
    /// Counts from 1.
    pub(crate) number: u32,
    pub(crate) front: Arc<dyn Front>,
    /// Stops this run alone.
    pub(crate) stop: (Arc<StopSource>, mswea_core::Stop),
}

impl Attempt<'_> {
    /// Runs the instance to an end.
    pub(crate) async fn run(&self, resumed: impl FnOnce(bool)) -> AttemptEnd {
        let id = &self.instance.id;
        let folder = self.place.clone();
        let (mut config, layers) = self.job.config.of(self.instance, &folder);
        if let Some(limit) = self.job.limits.instance_time {
            let limit = i64::try_from(limit.as_secs()).unwrap_or(i64::MAX).max(1);
            let own = &mut config.agent.wall_time_limit_seconds;
            *own = if *own > 0 { limit.min(*own) } else { limit };
        }
        match self.before(&config, layers).await {
            Before::Ended(result) => {
                resumed(true);
                AttemptEnd::Ended(result)
            }
            Before::Going(earlier) => {
                resumed(true);
                let run_id = earlier.state().run_id.clone();
                let done = self.done(&config, layers, &run_id, Some(*earlier)).await;
                match &done.outcome {
                    // The journal can't be resumed with these plugins or in this folder.
                    RunOutcome::Refused(SetupError::Earlier(error)) => {
                        tracing::info!("the instance `{id}` begins anew: {error}");
                        self.anew(&config, layers, &folder).await
                    }
                    _ => self.end(done).await,
                }
            }
            Before::Nothing => {
                resumed(false);
                self.anew(&config, layers, &folder).await
            }
        }
    }

    async fn anew(&self, config: &Config, layers: &Layers, folder: &Path) -> AttemptEnd {
        let work = work_folder(&std::path::absolute(folder).unwrap_or_else(|_| folder.to_owned()));
        let is_own = Path::new(&config.environment.cwd) == work;
        let of = folder.to_owned();
        let made = aside(move || make_folders(&of, is_own.then_some(&*work)));
        if let Some(Err((path, error))) = made.await {
            let path = path.display();
            return AttemptEnd::Hopeless(format!("can't make the folder `{path}`: {error}"));
        }
        let run_id = mswea_session::new_run_id();
        let done = self.done(config, layers, &run_id, None).await;
        self.end(done).await
    }

    async fn done(
        &self,
        config: &Config,
        layers: &Layers,
        run_id: &str,
        from: Option<Earlier>,
    ) -> Done {
        let (source, stop) = &self.stop;
        if let Some(course) = &self.job.course {
            let (front, stop) = (self.front.clone(), stop.clone());
            let run = course.run(self.runtime, self.instance, &self.place, front, stop);
            return run.await;
        }
        let task = match (&from, &self.job.completion) {
            (Some(earlier), _) => earlier.state().task.clone(),
            (None, Some(completion)) => completion.task(self.instance, stop).await,
            (None, None) => self.instance.task.clone(),
        };
        let mut job = self.job.run(&task, config, layers, run_id);
        job.from = from;
        let person = Arc::new(Nobody);
        let run = mswea_session::run(self.runtime, job, self.front.clone(), person, stop.clone());
        let mut run = std::pin::pin!(run);
        let Some(limit) = self.job.limits.instance_time else {
            return run.await;
        };
        // The loop ends the run at its limit. This limit is for a run that does not end then.
        let salvage = Duration::try_from_secs_f64(config.agent.salvage_timeout);
        let limit = limit + GRACE + salvage.unwrap_or_default();
        let mut timed_out = false;
        let mut done = loop {
            tokio::select! {
                done = &mut run => break done,
                () = tokio::time::sleep(limit) => {
                    timed_out = true;
                    source.stop();
                }
            }
        };
        if timed_out
            && let RunOutcome::Ended(ended) = &mut done.outcome
            && ended.end == End::Interrupted
        {
            ended.end = End::TimeExceeded;
        }
        done
    }

    /// Makes the end of the attempt from the end of its run.
    async fn end(&self, done: Done) -> AttemptEnd {
        if let RunOutcome::Refused(error) = &done.outcome {
            match error {
                SetupError::Interrupted => return AttemptEnd::Cut,
                // These errors concern this instance alone.
                SetupError::Workspace(_) | SetupError::Environment(_) | SetupError::Internal(_) => {
                }
                error => return AttemptEnd::Hopeless(error.to_string()),
            }
        }
        let result = BatchResult::of_done(&self.instance.id, &done, self.number);
        if severity(&result.exit_status) == Severity::Cut {
            return match &done.outcome {
                RunOutcome::Ended(ended) if ended.end.error().is_some() => {
                    AttemptEnd::Hopeless(ended.end.error().unwrap_or_default().to_owned())
                }
                _ => AttemptEnd::Cut,
            };
        }
        if let Ok(trajectory) = done.trajectory {
            let (id, error) = (self.instance.id.clone(), result.error.clone());
            aside(move || {
                name_instance(&trajectory, &id, error.as_deref());
            })
            .await;
        }
        AttemptEnd::Ended(Box::new(result))
    }

    /// Reads what earlier attempts have left.
    async fn before(&self, config: &Config, layers: &Layers) -> Before {
        let journal = self.place.join(journal_name(&self.instance.id));
        let (id, number) = (self.instance.id.clone(), self.number);
        let can_go_on = survives(config);
        let looked = aside(move || look(&journal, &id, number, can_go_on)).await;
        match looked {
            Some(Before::Going(mut earlier)) => {
                // The digests of the batch's plugins were compared when the batch was opened.
                earlier.plugins(&[]);
                match earlier.check_authority(layers) {
                    Ok(()) => Before::Going(earlier),
                    Err(error) => {
                        tracing::info!("the instance `{}` begins anew: {error}", self.instance.id);
                        Before::Nothing
                    }
                }
            }
            Some(before) => before,
            None => Before::Nothing,
        }
    }
}

/// Whether an environment of this config still exists after the process that made it has ended.
fn survives(config: &Config) -> bool {
    let environment = &config.environment;
    match environment.environment_class.as_str() {
        "local" => !environment.session,
        "docker" | "podman" => environment.keep_container,
        _ => false,
    }
}

fn look(journal: &Path, id: &str, number: u32, can_go_on: bool) -> Before {
    let Ok(file) = File::open(journal) else {
        return Before::Nothing;
    };
    let end = glance(&file).ok().and_then(|it| it.end);
    let end = end.map(|it| (severity(&it.exit_status), it.exit_status));
    match end {
        Some((Severity::Ended | Severity::Failed, _)) => {
            let earlier = match Earlier::to_read(journal) {
                Ok(earlier) => earlier,
                Err(error) => {
                    tracing::warn!("the instance `{id}` begins anew: {error}");
                    return Before::Nothing;
                }
            };
            match (
                earlier.finish(),
                BatchResult::of_state(id, earlier.state(), number),
            ) {
                (Ok((trajectory, _)), Some(result)) => {
                    name_instance(&trajectory, id, result.error.as_deref());
                    Before::Ended(Box::new(result))
                }
                (Err(error), _) => {
                    tracing::warn!("the instance `{id}` begins anew: {error}");
                    Before::Nothing
                }
                (_, None) => Before::Nothing,
            }
        }
        // The environment itself may be the cause, so it is not used again.
        Some((_, status)) if matches!(end_of(&status), Some(End::Environment { .. })) => {
            Before::Nothing
        }
        _ if can_go_on => match Earlier::to_resume(journal) {
            Ok(earlier) => Before::Going(Box::new(earlier)),
            Err(error) => {
                tracing::info!("the instance `{id}` begins anew: {error}");
                Before::Nothing
            }
        },
        _ => Before::Nothing,
    }
}

/// Makes the folder of the instance, and an empty folder for its commands.
fn make_folders(folder: &Path, work: Option<&Path>) -> Result<(), (PathBuf, std::io::Error)> {
    let with = |path: &Path| {
        let path = path.to_owned();
        |error| (path, error)
    };
    fs::create_dir_all(folder).map_err(with(folder))?;
    if let Some(work) = work {
        let begun = Instant::now();
        loop {
            match mswea_executor::remove_tree(work) {
                Ok(()) => break,
                Err(error) if error.kind() == std::io::ErrorKind::NotFound => break,
                // A process of a killed host may write there until its guardian has ended it.
                Err(_) if begun.elapsed() < REMOVAL_TIME => std::thread::sleep(REMOVAL_TIME / 50),
                Err(error) => return Err(with(work)(error)),
            }
        }
        fs::create_dir(work).map_err(with(work))?;
    }
    Ok(())
}

/// Makes the trajectory of an instance with a result from its journal, if it is missing: the process was killed
/// before it was there, or a file was lost. `folder` has both.
pub fn write_trajectory(folder: &Path, result: &BatchResult) {
    let id = &result.instance_id;
    let journal = folder.join(journal_name(id));
    if folder.join(trajectory_name(id)).exists() || !journal.exists() {
        return;
    }
    let written = Earlier::to_read(&journal).map_err(|error| error.to_string());
    let written = written.and_then(|it| it.finish().map_err(|error| error.to_string()));
    match written {
        Ok((trajectory, _)) => name_instance(&trajectory, id, result.error.as_deref()),
        Err(error) => tracing::warn!("`{id}` has no trajectory: {error}"),
    }
}

/// Writes the instance's id and the error that ended its run into its trajectory, where tools for
/// mini-swe-agent read them. The trajectory is complete without them, so a failure here does not
/// fail the run.
fn name_instance(trajectory: &Path, id: &str, error: Option<&str>) {
    let key = format!("\"instance_id\": {}", json_text(id));
    let error = error.map_or_else(String::new, |error| {
        format!("\n    \"exception_str\": {},", json_text(error))
    });
    let named = fs::read(trajectory).and_then(|text| {
        let rest = text.strip_prefix(b"{").unwrap_or(b"}");
        if rest.trim_ascii_start().starts_with(key.as_bytes()) || rest == b"}" {
            return Ok(());
        }
        let info = b"\n  \"info\": {".as_slice();
        let (info, rest) = match rest.strip_prefix(info) {
            Some(rest) => ([info, error.as_bytes()].concat(), rest),
            None => (Vec::new(), rest),
        };
        let whole = [b"{\n  ", key.as_bytes(), b",", &info, rest].concat();
        crate::whole_file::replace(trajectory, &whole)
    });
    if let Err(error) = named {
        tracing::warn!(
            "`{}` does not name its instance: {error}",
            trajectory.display()
        );
    }
}

/// The text as JSON with escapes as Python writes them, like the other texts of a trajectory.
fn json_text(text: &str) -> String {
    let mut out = String::new();
    let escapes = Escapes {
        ascii: true,
        html: false,
    };
    push_json_str(&mut out, text, escapes);
    out
}

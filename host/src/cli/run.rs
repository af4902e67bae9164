//! Runs a task, or the demo, which needs no model.

use std::path::PathBuf;
use std::sync::Arc;

use anyhow::Context as _;

use super::args::{ChangeArgs, DemoArgs, DisplayArgs, PersonArgs, RunArgs, read_task};
use super::exit::{ExitCode, ExitCodes};
use super::front::{self, CliFront, RunHeader, faults_line};
use super::output::{self, Failure};
use super::person::{Attendant, NextRun};
use super::{atif, configs, demo, first_steps, on_end, panics, run_id, signals};
use mswea_config::{Config, Layers, ProcessEnvironment, Sources};
use mswea_core::{Nobody, Person, Progress, Stop, StopSource};
use mswea_plugin_host::Cache;
use mswea_record::{index, runs_folder};
use mswea_session::{self as session, Job, RunOutcome, Runtime, SetupError};

/// The options of one process: flags that are not part of the config.
pub(super) struct ProcessOptions<'a> {
    pub(super) plugins: &'a [String],
    pub(super) shadows: &'a [String],
    pub(super) allow_hosts: &'a [String],
    pub(super) fresh_instances: bool,
    pub(super) fsync: bool,
    pub(super) exit_codes: ExitCodes,
    pub(super) cache: Option<Cache>,
    /// Whether to print the header.
    pub(super) head: bool,
}

/// Runs a task.
pub fn run(args: &RunArgs) -> Result<RunEnd, Failure> {
    let layers = configs::layers(args)?;
    let config = configs::resolve(&layers)?;
    let typed = args.task.clone().or_else(|| config.run.task.clone());
    let front = front::make(&args.display);
    let person = attend(&config, &args.person, &*front)?;
    // A plugin may be an adapter that needs neither a model nor a key.
    if person.is_some() && args.plugins.is_empty() {
        first_steps::check(&config)?;
    }
    let task = match (&typed, &person) {
        (None, Some(person)) => match asked_task(person)? {
            Some(task) => task,
            None => return Ok(ExitCode::Interrupted.into()),
        },
        _ => read_task(typed.as_deref(), std::io::stdin())
            .map_err(|error| Failure::usage(error.to_string()))?,
    };
    warn(&layers, args.display, &*front);
    let options = process_options(args);
    let run_id = run_id::chosen(args.run_id.as_deref())?;
    let job = options.job(&layers, Job::new(&task, &config, &run_id));
    let audience = Audience {
        front: &front,
        person,
        display: args.display,
    };
    finish(&config, &layers, job, &options, audience)
}

/// The user at the terminal, if there is one.
pub(super) fn attend(
    config: &Config,
    args: &PersonArgs,
    front: &dyn CliFront,
) -> Result<Option<Arc<Attendant>>, Failure> {
    let person = Attendant::of(config, front, args).map_err(Failure::usage)?;
    if let (None, Some(mode @ ("human" | "confirm"))) = (&person, config.agent.mode.as_deref()) {
        front.show(&Progress::Warning(&format!(
            "`agent.mode` = `{mode}` has no effect without a terminal: nobody is asked, and every command runs at once"
        )));
    }
    Ok(person)
}

/// Asks for the task; none if the user has ended the program.
fn asked_task(person: &Attendant) -> Result<Option<String>, Failure> {
    let tokio = output::runtime()?;
    tokio.block_on(async {
        let stop = signals::stop()?;
        person.begin();
        tokio::select! {
            task = person.task() => Ok(task),
            () = stop.stopped() => Ok(None),
        }
    })
}

/// The options of these flags.
pub(super) fn process_options(args: &RunArgs) -> ProcessOptions<'_> {
    ProcessOptions {
        plugins: &args.plugins,
        shadows: &args.shadow,
        allow_hosts: &args.allow_hosts,
        fresh_instances: args.fresh_instances,
        fsync: args.fsync,
        exit_codes: args.exit_codes,
        cache: (!args.no_cache).then(Cache::of_user).flatten(),
        head: true,
    }
}

impl<'a> ProcessOptions<'a> {
    /// The job with these options.
    pub(super) fn job(&self, layers: &'a Layers, job: Job<'a>) -> Job<'a> {
        Job {
            layers: Some(layers),
            plugins: self.plugins,
            shadows: self.shadows,
            allow_hosts: self.allow_hosts,
            fresh_instances: self.fresh_instances,
            fsync: self.fsync,
            guard_program: std::env::current_exe().ok(),
            ..job
        }
    }
}

/// Shows the warnings of the config.
pub(super) fn warn(layers: &Layers, display: DisplayArgs, front: &dyn CliFront) {
    for warning in layers.warnings() {
        if display.quiet {
            // The front of `-q` shows no warnings, but a misspelt key must be noticed.
            output::warning(warning);
        } else {
            front.show(&Progress::Warning(warning));
        }
    }
}

/// The person and the front of a run.
pub(super) struct Audience<'a> {
    pub(super) front: &'a Arc<dyn CliFront>,
    /// The user who is asked, if there is one.
    pub(super) person: Option<Arc<Attendant>>,
    pub(super) display: DisplayArgs,
}

/// How a run ended.
pub(super) struct RunEnd {
    pub(super) code: ExitCode,
    /// The user's wish to continue, if any.
    pub(super) switch: Option<Switch>,
}

impl From<ExitCode> for RunEnd {
    fn from(code: ExitCode) -> Self {
        Self { code, switch: None }
    }
}

/// A run with which the user continues.
pub(super) struct Switch {
    pub(super) journal: PathBuf,
    pub(super) next: NextRun,
    pub(super) change: ChangeArgs,
}

impl Switch {
    fn of(
        person: Option<&Attendant>,
        done: &RunResult,
        options: &ProcessOptions<'_>,
        display: DisplayArgs,
    ) -> Option<Self> {
        let next = person?.next()?;
        let change = ChangeArgs {
            model: match &next {
                NextRun::Model(model) => Some(model.clone()),
                NextRun::Fork => None,
            },
            person: person?.flags(),
            display,
            fsync: options.fsync,
            exit_codes: options.exit_codes,
            no_cache: options.cache.is_none(),
            ..ChangeArgs::default()
        };
        Some(Self {
            journal: done.journal.clone()?,
            next,
            change,
        })
    }
}

/// Runs a job to its end, and writes and reports its results.
pub(super) fn finish(
    config: &Config,
    layers: &Layers,
    job: Job<'_>,
    options: &ProcessOptions<'_>,
    audience: Audience<'_>,
) -> Result<RunEnd, Failure> {
    let atif = atif::before_the_run(&config.run, &job.files())?;
    let person = audience.person.clone();
    let done = execute(
        config,
        layers,
        job,
        options,
        audience.front,
        audience.person,
    )?;
    let mut end = RunEnd::from(done.code);
    end.switch = Switch::of(person.as_deref(), &done, options, audience.display);
    // The same run continues with another model, so it has not ended yet.
    if let Some(NextRun::Model(_)) = end.switch.as_ref().map(|it| &it.next) {
        return Ok(end);
    }
    if let Some(text) = person.and_then(|person| person.unsent()) {
        output::note(&format!("the model was not told: {text}"));
    }
    done.tell(audience.display);
    atif::at_the_end(&config.run, atif.as_ref(), done.journal.as_deref());
    on_end::run(
        &config.run,
        &on_end::EndedRun {
            exit_status: &done.exit_status,
            code: done.code,
            trajectory: done.trajectory.as_deref(),
            journal: done.journal.as_deref(),
        },
    );
    Ok(end)
}

/// Runs the demo: a real repository, the real loop, a scripted model.
pub fn demo(args: &DemoArgs) -> Result<ExitCode, Failure> {
    let folder = tempfile::Builder::new()
        .prefix("mswea-demo-")
        .tempdir()
        .context("can't make a temporary folder: set `TMPDIR` to a folder that can be written")?;
    let note = |text: &str| output::remark(args.display, text);
    let demo = demo::prepare(folder.path())?;
    let front = front::make(&args.display);
    let replies = demo.replies.get("replies").cloned().unwrap_or_default();
    let by = "demo".to_owned();
    let sources = Sources {
        flags: vec![
            ("model.model_name".into(), "replay/".into(), by.clone()),
            ("plugins.replay.config.replies".into(), replies, by.clone()),
            (
                "environment.cwd".into(),
                demo.repo.to_string_lossy().into(),
                by.clone(),
            ),
            (
                "agent.output_path".into(),
                folder
                    .path()
                    .join("demo.traj.json")
                    .to_string_lossy()
                    .into(),
                by,
            ),
        ],
        ..Sources::default()
    };
    let usage = |error: mswea_config::ConfigError| Failure::usage(error.to_string());
    let layers = Layers::load(&sources, &ProcessEnvironment).map_err(usage)?;
    let config = layers.resolve().map_err(usage)?;
    note(&format!(
        "A small repository with a bug was made in `{}`.\nThe task: {}\n",
        demo.repo.display(),
        demo.task.lines().next().unwrap_or_default()
    ));
    let options = ProcessOptions {
        plugins: &[],
        shadows: &[],
        allow_hosts: &[],
        fresh_instances: false,
        fsync: false,
        exit_codes: ExitCodes::Mswea,
        cache: Cache::of_user(),
        head: false,
    };
    let run_id = session::new_run_id();
    let job = options.job(&layers, Job::new(&demo.task, &config, &run_id));
    let done = execute(&config, &layers, job, &options, &front, None)?;
    let keeps = match done.code {
        ExitCode::Submitted => args.keep,
        ExitCode::Interrupted => false,
        // The files are kept, so that the user can find the cause.
        _ => done.trajectory.is_some(),
    };
    if !keeps {
        index::forget(&runs_folder(), &run_id);
    }
    if done.code == ExitCode::Submitted {
        demo::verify(&demo)?;
        note("\nThe test that failed before passes now; the patch above is the submission.");
        if args.keep {
            output::note(&format!(
                "Kept: the repository, the trajectory and the journal in `{}`.",
                folder.path().display()
            ));
        }
        note(&format!("\n{}", demo::epilogue().trim_end()));
    } else if done.code != ExitCode::Interrupted {
        done.tell(args.display);
    }
    if keeps {
        let _ = folder.keep();
    }
    Ok(done.code)
}

/// The result of a run that has ended or was refused.
pub(super) struct RunResult {
    pub(super) code: ExitCode,
    exit_status: String,
    pub(super) error: Option<String>,
    /// The path of the journal, if there is one.
    pub(super) journal: Option<PathBuf>,
    /// The path of the trajectory, if it is written.
    trajectory: Option<PathBuf>,
}

impl RunResult {
    /// Prints the failure and the paths of the files, which the front does not show.
    pub(super) fn tell(&self, display: DisplayArgs) {
        if let Some(error) = &self.error {
            output::error(error);
        }
        if let Some(trajectory) = self.trajectory.as_ref().filter(|_| !display.json) {
            output::note(&format!("trajectory: {}", trajectory.display()));
        }
    }
}

pub(super) fn execute(
    config: &Config,
    layers: &Layers,
    job: Job<'_>,
    options: &ProcessOptions<'_>,
    front: &Arc<dyn CliFront>,
    attendant: Option<Arc<Attendant>>,
) -> Result<RunResult, Failure> {
    if options.head {
        let files = job.files();
        let home = std::env::home_dir();
        front.begin(RunHeader::new(
            config,
            layers,
            &files.trajectory,
            job.from
                .as_ref()
                .and_then(|it| it.folder(config))
                .as_deref(),
            home.as_deref(),
        ));
    }
    let (of_run, end) = (front.clone(), attendant.clone());
    drive(
        options,
        front,
        attendant,
        async move |runtime, stop, person| {
            let done = session::run(&runtime, job, of_run, person, stop).await;
            if let Some(attendant) = &end {
                attendant.end();
            }
            done
        },
    )
}

/// Runs `work` to its end with a tokio runtime, the stops of signals, and the end of a run: the
/// remaining output and the exit code.
pub(super) fn drive(
    options: &ProcessOptions<'_>,
    front: &Arc<dyn CliFront>,
    attendant: Option<Arc<Attendant>>,
    work: impl AsyncFnOnce(Arc<Runtime>, Stop, Arc<dyn Person>) -> session::Done,
) -> Result<RunResult, Failure> {
    let runtime = Arc::new(Runtime::new(options.cache.clone()).sweeping());
    let saving = runtime.clone();
    panics::on_panic(move || saving.save_current_runs());
    let tokio = output::runtime()?;
    let done = tokio.block_on(async {
        let (watched, stop, person) = watched(attendant);
        watched
            .context("can't watch for signals")
            .map_err(Failure::from)?;
        let done = work(runtime.clone(), stop.clone(), person).await;
        runtime.swept(&stop).await;
        conclude(done, options, &**front, &stop).await
    });
    // A removal that has not ended is aborted when the process ends.
    tokio.shutdown_background();
    done
}

/// Watches for signals; returns also the stop and the person of the run.
fn watched(attendant: Option<Arc<Attendant>>) -> (std::io::Result<()>, Stop, Arc<dyn Person>) {
    let Some(person) = attendant else {
        let (source, stop) = StopSource::new();
        return (signals::watch(source), stop, Arc::new(Nobody));
    };
    let (source, stop) = person.stops();
    let interrupted = person.clone();
    let watched = signals::watch_with(source, move || interrupted.interrupt());
    person.begin();
    (watched, stop, person)
}

/// Writes the remaining output, and determines the exit code and the error.
async fn conclude(
    done: session::Done,
    options: &ProcessOptions<'_>,
    front: &dyn CliFront,
    stop: &Stop,
) -> Result<RunResult, Failure> {
    let exit_status = done.exit_status().to_owned();
    let mut error = done.error();
    let mut code = match &done.outcome {
        RunOutcome::Ended(ended) => options.exit_codes.of_run(&ended.end),
        RunOutcome::Crashed(_) => ExitCode::Failed,
        RunOutcome::Refused(refused) => {
            let message = error.unwrap_or_default();
            if let SetupError::Output(_) = refused {
                return Err(Failure::usage(message));
            }
            return Ok(RunResult {
                code: options.exit_codes.of_setup(setup_code(refused)),
                exit_status,
                error: Some(message),
                journal: done.journal,
                trajectory: None,
            });
        }
    };
    let recorded = || match &done.journal {
        Some(journal) => journal.display().to_string(),
        None => "nowhere".to_owned(),
    };
    if let Err(unwritten) = &done.trajectory {
        // The failure of the run is reported as well: a full disk may be the cause of both.
        if let Some(cause) = &error {
            output::error(cause);
        }
        error = Some(format!(
            "{unwritten}; what was recorded is in the journal `{}`",
            recorded()
        ));
        code = ExitCode::Failed;
    }
    front.conclude(code, error.as_deref());
    if let RunOutcome::Ended(ended) = &done.outcome
        && let Some(warning) = faults_line("this run", &ended.state.fault_counts())
    {
        output::warning(&warning);
    }
    let place = match &done.trajectory {
        Ok(trajectory) => trajectory.display().to_string(),
        Err(_) => recorded(),
    };
    // Every other code says already that there is no whole submission.
    if !delivered(front, stop, &place).await && code == ExitCode::Submitted {
        code = ExitCode::Failed;
    }
    Ok(RunResult {
        code,
        exit_status,
        error,
        journal: done.journal,
        trajectory: done.trajectory.ok(),
    })
}

/// Waits until stdout has all data of the front, as long as its reader reads. If data is lost, this
/// is an error, because a program that reads stdout must not use a part of a patch.
///
/// `place`: the file that has the submission.
pub(super) async fn delivered(front: &dyn CliFront, stop: &Stop, place: &str) -> bool {
    let delivered = front::deliver(stop).await;
    let broken = front.take_output_error().map(|error| error.to_string());
    if broken.is_none() && delivered {
        return true;
    }
    let why = broken.unwrap_or_else(|| "its reader has stopped reading".to_owned());
    output::error(&format!(
        "can't write to stdout: {why}; the submission is in `{place}`"
    ));
    false
}

pub(super) fn setup_code(error: &SetupError) -> ExitCode {
    match error {
        error if error.is_usage() => ExitCode::Usage,
        SetupError::Plugin { .. }
        | SetupError::Pin(_)
        | SetupError::Shadow(_)
        | SetupError::Earlier(_) => ExitCode::Plugin,
        SetupError::Environment(_) => ExitCode::Environment,
        SetupError::Interrupted => ExitCode::Interrupted,
        _ => ExitCode::Failed,
    }
}

//! Running a task, and the demo that runs one without a model.

use std::path::PathBuf;
use std::sync::Arc;

use anyhow::Context as _;

use super::args::{DemoArgs, DisplayArgs, RunArgs, read_task};
use super::exit::{ExitCode, ExitCodes};
use super::front::{self, CliFront, Header};
use super::output::{self, Failure};
use super::paths::RunFiles;
use super::record::{Record, Unwritable};
use super::{configs, demo, gc, on_end, panics, signals};
use crate::config::{Config, Layers, ProcessEnvironment, Sources};
use crate::plugin::Cache;
use crate::roles::{Context, Progress, Stop, StopSource};
use crate::run::{Ended, Interrupt};
use crate::session::{self, Job, Runtime, SetupError};

/// How this one process works; what a run *is* stands in its config.
struct Ways<'a> {
    plugins: &'a [String],
    shadows: &'a [String],
    allow_hosts: &'a [String],
    fresh_instances: bool,
    fsync: bool,
    exit_codes: ExitCodes,
    cache: Option<Cache>,
    /// Say what is about to begin.
    head: bool,
}

/// Runs a task.
pub fn run(args: &RunArgs) -> Result<ExitCode, Failure> {
    let layers = configs::layers(args)?;
    let config = configs::resolve(&layers)?;
    let typed = args.task.clone().or_else(|| config.run.task.clone());
    let task = read_task(typed.as_deref(), std::io::stdin())
        .map_err(|error| Failure::usage(error.to_string()))?;
    let front = front::make(&args.display);
    for warning in layers.warnings() {
        if args.display.quiet {
            // Least of all here may a misspelt key go unnoticed.
            output::warning(warning);
        } else {
            front.show(&Progress::Warning(warning));
        }
    }
    let ways = Ways {
        plugins: &args.plugins,
        shadows: &args.shadow,
        allow_hosts: &args.allow_hosts,
        fresh_instances: args.fresh_instances,
        fsync: args.fsync,
        exit_codes: args.exit_codes,
        cache: (!args.no_cache).then(Cache::of_user).flatten(),
        head: true,
    };
    let done = execute(&config, &layers, &task, &ways, &front)?;
    done.tell(args.display);
    on_end::run(
        &config.run,
        &on_end::Told {
            exit_status: &done.exit_status,
            code: done.code,
            trajectory: done.is_written.then_some(&*done.files.trajectory),
            journal: done.journal.as_deref(),
        },
    );
    Ok(done.code)
}

/// Runs the demo: a real repository, the real loop, a scripted model.
pub fn demo(args: &DemoArgs) -> Result<ExitCode, Failure> {
    let folder = tempfile::Builder::new()
        .prefix("mswea-demo-")
        .tempdir()
        .context("can't make a temporary folder: let `TMPDIR` name one that can be written")?;
    let note = |text: &str| {
        if !args.display.quiet && !args.display.json {
            output::note(text);
        }
    };
    let demo = demo::prepare(folder.path())?;
    let front = front::make(&args.display);
    let replies = demo.replies.get("replies").cloned().unwrap_or_default();
    let by = "demo".to_owned();
    let sources = Sources {
        configs: Vec::new(),
        no_default_config: false,
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
    };
    let usage = |error: crate::config::ConfigError| Failure::usage(error.to_string());
    let layers = Layers::load(&sources, &ProcessEnvironment).map_err(usage)?;
    let config = layers.resolve().map_err(usage)?;
    note(&format!(
        "A small repository with a bug was made in `{}`.\nThe task: {}\n",
        demo.repo.display(),
        demo.task.lines().next().unwrap_or_default()
    ));
    let ways = Ways {
        plugins: &[],
        shadows: &[],
        allow_hosts: &[],
        fresh_instances: false,
        fsync: false,
        exit_codes: ExitCodes::Mswea,
        cache: Cache::of_user(),
        head: false,
    };
    let done = execute(&config, &layers, &demo.task, &ways, &front)?;
    if done.code != ExitCode::Submitted {
        if done.code != ExitCode::Interrupted {
            // What went wrong can be looked at.
            if done.is_written {
                let _ = folder.keep();
            }
            done.tell(args.display);
        }
        return Ok(done.code);
    }
    demo::verify(&demo)?;
    note("\nThe test that failed before passes now; the patch above is the submission.");
    if args.keep {
        let kept = folder.keep();
        output::note(&format!(
            "Kept: the repository, the trajectory and the journal in `{}`.",
            kept.display()
        ));
    }
    note(&format!("\n{}", demo::epilogue().trim_end()));
    Ok(done.code)
}

/// A run that is over, in whatever way: from the moment that its journal is made, there is one.
struct Done {
    code: ExitCode,
    exit_status: String,
    error: Option<String>,
    files: RunFiles,
    /// Where the journal is, if there is one.
    journal: Option<PathBuf>,
    /// Whether the trajectory is.
    is_written: bool,
}

impl Done {
    /// Says what the front does not: why it failed, and where the files are.
    fn tell(&self, display: DisplayArgs) {
        if let Some(error) = &self.error {
            output::error(error);
        }
        if self.is_written && !display.json {
            output::note(&format!("trajectory: {}", self.files.trajectory.display()));
        }
    }
}

fn execute(
    config: &Config,
    layers: &Layers,
    task: &str,
    ways: &Ways<'_>,
    front: &Arc<dyn CliFront>,
) -> Result<Done, Failure> {
    let run_id = session::new_run_id();
    let files = RunFiles::of(config.agent.output_path.as_deref(), &run_id);
    let record = Record::reserve(files.clone(), &run_id, front.clone(), ways.fsync);
    let record = Arc::new(record.map_err(|error| match error {
        Unwritable::Trajectory(text) => Failure::usage(text),
        Unwritable::Other(detail) => Failure::usage(format!(
            "can't write the trajectory `{}`: {detail}: name another file with `-o PATH`",
            files.trajectory.display()
        )),
    })?);
    let last_words = record.clone();
    panics::on_panic(move || last_words.last_words());
    if ways.head {
        let home = std::env::home_dir();
        front.begin(&Header::new(
            config,
            layers,
            &files.trajectory,
            home.as_deref(),
        ));
    }

    let tokio = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .context("can't start the runtime")?;
    let done = tokio.block_on(async {
        let (source, stop) = StopSource::new();
        let context = Context {
            front: front.clone(),
            journal: record.clone(),
            stop: stop.clone(),
        };
        let own_files = files.own_files();
        let job = Job {
            task,
            config,
            layers: Some(layers),
            plugins: ways.plugins,
            shadows: ways.shadows,
            allow_hosts: ways.allow_hosts,
            fresh_instances: ways.fresh_instances,
            run_id: &run_id,
            own_files: &own_files,
            guard_program: std::env::current_exe().ok(),
        };
        let runtime = Runtime::new(ways.cache.clone());
        let agent = match runtime.prepare(job, context).await {
            Ok(agent) => agent,
            Err(error) => {
                let failure = setup_failure(&error);
                record.forget();
                return Ok(Done {
                    exit_status: setup_status(failure.code).to_owned(),
                    code: ways.exit_codes.of_setup(failure.code),
                    error: Some(failure.message),
                    journal: record.journal(),
                    files,
                    is_written: false,
                });
            }
        };
        // Only from here on is there anything to end in an orderly way; before, a signal just
        // ends the program.
        signals::watch(source).context("can't watch for signals")?;
        record.keep_up();
        let sweeping = gc::beside();
        let ended = agent.run().await;
        sweeping.wait(&stop).await;
        anyhow::Ok(conclude(ended, &record, files, ways, &**front, &stop).await)
    });
    // A removal that was not waited for ends with the process.
    tokio.shutdown_background();
    Ok(done?)
}

/// Writes what is left to write, and tells what the process ends with.
async fn conclude(
    mut ended: Ended,
    record: &Record,
    mut files: RunFiles,
    ways: &Ways<'_>,
    front: &dyn CliFront,
    stop: &Stop,
) -> Done {
    // The trajectory is made of what the journal has; a second copy of them may be large.
    ended.messages = Vec::new();
    let exit_status = ended.interrupt.exit_status();
    let mut code = ways.exit_codes.of_run(exit_status);
    let mut error = cause(&ended);
    let written = record.finish(stop).await;
    files.trajectory = record.trajectory();
    let journal = record.journal();
    let recorded = journal.as_deref().unwrap_or(&files.journal);
    if let Err(unwritten) = &written {
        // Why the run failed is not lost over this: a full disk may be the cause of both.
        if let Some(cause) = &error {
            output::error(cause);
        }
        error = Some(format!(
            "{unwritten}; what was recorded is in the journal `{}`",
            recorded.display()
        ));
        code = ExitCode::Failed;
    }
    front.conclude(code, error.as_deref());
    let delivered = front::deliver(stop).await;
    let broken = front.take_output_error().map(|error| error.to_string());
    if broken.is_some() || !delivered {
        // Whoever reads stdout must not take half a patch for a whole one.
        let why = broken.unwrap_or_else(|| "its reader has stopped reading".to_owned());
        let place = match &written {
            Ok(()) => &files.trajectory,
            Err(_) => recorded,
        };
        output::error(&format!(
            "can't write to stdout: {why}; the submission is in `{}`",
            place.display()
        ));
        code = ExitCode::Failed;
    }
    Done {
        code,
        exit_status: exit_status.to_owned(),
        error,
        journal,
        files,
        is_written: written.is_ok(),
    }
}

/// The exit status of a run that could not be set up.
fn setup_status(code: ExitCode) -> &'static str {
    match code {
        ExitCode::Plugin => "PluginError",
        ExitCode::Environment => "EnvironmentError",
        _ => "SetupError",
    }
}

fn cause(ended: &Ended) -> Option<String> {
    match &ended.interrupt {
        Interrupt::Failed { message, .. } => Some(message.clone()),
        _ => None,
    }
}

fn setup_failure(error: &SetupError) -> Failure {
    let code = match error {
        error if error.is_usage() => ExitCode::Usage,
        SetupError::Plugin { .. } | SetupError::Pin(_) | SetupError::Shadow(_) => ExitCode::Plugin,
        SetupError::Environment(_) => ExitCode::Environment,
        _ => ExitCode::Failed,
    };
    Failure::new(code, error.to_string())
}

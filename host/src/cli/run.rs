//! Running a task, and the demo that runs one without a model.

use std::io::ErrorKind;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use anyhow::Context as _;

use super::args::{DemoArgs, DisplayArgs, RunArgs, read_task};
use super::exit::ExitCode;
use super::front::{self, CliFront};
use super::output::{self, Failure};
use super::paths::RunFiles;
use super::{configs, demo, gc, on_end, panics, signals};
use crate::config::{Config, Layers, ProcessEnvironment, Sources};
use crate::journal::{self, Event, JournalFile, trajectory};
use crate::plugin::Cache;
use crate::roles::{Context, Journal, Progress, StopSource};
use crate::run::{Ended, Interrupt};
use crate::session::{self, Job, Runtime, SetupError};

/// How this one process works; what a run *is* stands in its config.
struct Ways<'a> {
    plugins: &'a [String],
    shadows: &'a [String],
    allow_hosts: &'a [String],
    fresh_instances: bool,
    fsync: bool,
    cache: Option<Cache>,
}

/// Runs a task.
pub fn run(args: &RunArgs) -> Result<ExitCode, Failure> {
    let layers = configs::layers(args)?;
    let config = configs::resolve(&layers)?;
    let typed = args.task.clone().or_else(|| config.run.task.clone());
    let task = read_task(typed.as_deref(), std::io::stdin())
        .map_err(|error| Failure::usage(error.to_string()))?;
    let front = front::make(&args.display);
    if args.display.verbose > 0 {
        output::note(&format!("config: {}", layers.names().join(" < ")));
    }
    for warning in layers.warnings() {
        front.show(&Progress::Warning(warning));
    }
    let ways = Ways {
        plugins: &args.plugins,
        shadows: &args.shadow,
        allow_hosts: &args.allow_hosts,
        fresh_instances: args.fresh_instances,
        fsync: args.fsync,
        cache: (!args.no_cache).then(Cache::of_user).flatten(),
    };
    let done = execute(&config, &layers, &task, &ways, &front)?;
    done.tell(args.display);
    on_end::run(
        &config.run,
        &on_end::Told {
            exit_status: &done.exit_status,
            code: done.code,
            trajectory: done.is_written.then_some(&*done.files.trajectory),
            journal: Some(&*done.files.journal).filter(|journal| journal.exists()),
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
        cache: Cache::of_user(),
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
    /// Whether the trajectory is.
    is_written: bool,
}

impl Done {
    /// Says what the front does not: why it failed, and where the files are.
    fn tell(&self, display: DisplayArgs) {
        if let Some(error) = &self.error {
            output::error(error);
        }
        if self.is_written && !display.quiet && !display.json {
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
    let unwritable = |detail: String| {
        Failure::usage(format!(
            "can't write the trajectory `{}`: {detail}: name another file with `-o PATH`",
            files.trajectory.display()
        ))
    };
    files
        .make_room()
        .map_err(|error| unwritable(error.to_string()))?;
    trajectory::check_writable(&files.trajectory)
        .map_err(|error| Failure::usage(error.to_string()))?;
    let file = JournalFile::create(&files.journal)
        .map_err(|error| match error.kind() {
            // Two runs with the same `-o`.
            ErrorKind::WouldBlock => Failure::usage(error.to_string()),
            _ => unwritable(format!("its journal can't be made: {error}")),
        })?
        .fsync(ways.fsync);
    let keeper = Arc::new(Keeper::new(file, &files));
    let last_words = keeper.clone();
    panics::on_panic(move || {
        let written = last_words.write_trajectory();
        let files = match written {
            Ok(()) => &last_words.files.trajectory,
            Err(_) => &last_words.files.journal,
        };
        format!("what was recorded is in `{}`", files.display())
    });

    let tokio = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .context("can't start the runtime")?;
    let prepared_and_run = tokio.block_on(async {
        let (source, stop) = StopSource::new();
        let context = Context {
            front: front.clone(),
            journal: keeper.clone(),
            stop,
        };
        let job = Job {
            task,
            config,
            layers: Some(layers),
            plugins: ways.plugins,
            shadows: ways.shadows,
            allow_hosts: ways.allow_hosts,
            fresh_instances: ways.fresh_instances,
            run_id: &run_id,
            guard_program: std::env::current_exe().ok(),
        };
        let runtime = Runtime::new(ways.cache.clone());
        match runtime.prepare(job, context).await {
            Ok(agent) => {
                // Only from here on is there anything to end in an orderly way; before, a
                // signal just ends the program.
                signals::watch(source).context("can't watch for signals")?;
                let sweeping = gc::beside();
                let ended = agent.run().await;
                sweeping.wait();
                Ok(ended)
            }
            Err(error) => Err(setup_failure(&error)),
        }
    });
    let ended = match prepared_and_run {
        Ok(ended) => ended,
        Err(failure) => {
            keeper.forget_if_empty();
            return Ok(Done {
                code: failure.code,
                exit_status: setup_status(failure.code).to_owned(),
                error: Some(failure.message),
                files,
                is_written: false,
            });
        }
    };
    let mut code = ExitCode::from_exit_status(ended.interrupt.exit_status());
    let mut error = cause(&ended);
    let written = keeper.write_trajectory();
    if let Err(unwritten) = &written {
        // Why the run failed is not lost over this: a full disk may be the cause of both.
        if let Some(cause) = &error {
            output::error(cause);
        }
        error = Some(format!(
            "{unwritten}; everything is in the journal `{}`",
            files.journal.display()
        ));
        code = ExitCode::Failed;
    }
    if let Some(error) = front.take_output_error() {
        // Whoever reads stdout must not take half a patch for a whole one.
        let place = match &written {
            Ok(()) => &files.trajectory,
            Err(_) => &files.journal,
        };
        output::error(&format!(
            "can't write to stdout: {error}; the submission is in `{}`",
            place.display()
        ));
        code = ExitCode::Failed;
    }
    Ok(Done {
        code,
        exit_status: ended.interrupt.exit_status().to_owned(),
        error,
        files,
        is_written: written.is_ok(),
    })
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

/// The journal of a run, from which the trajectory is written: at the end, and now and then
/// in between for those who look at it while the run goes on.
struct Keeper {
    file: JournalFile,
    files: RunFiles,
    next: Mutex<Next>,
}

/// When the trajectory is written again. A long one takes long to write, so the pause grows
/// with it: never more than a twentieth of the time goes there.
struct Next {
    at: Instant,
}

const PAUSE: Duration = Duration::from_secs(5);

/// A journal beyond this is read once only, at the end.
const LARGE: u64 = 32 << 20;

impl Keeper {
    fn new(file: JournalFile, files: &RunFiles) -> Self {
        Self {
            file,
            files: files.clone(),
            next: Mutex::new(Next {
                at: Instant::now() + PAUSE,
            }),
        }
    }

    fn write_trajectory(&self) -> anyhow::Result<()> {
        let log = journal::read(&self.files.journal)?;
        let mut value = trajectory::from_journal(&log.records);
        trajectory::set_journal(&mut value, self.files.journal_seen_from_trajectory());
        trajectory::write(&self.files.trajectory, &value)?;
        Ok(())
    }

    /// A run that never began leaves no journal.
    fn forget_if_empty(&self) {
        if is_empty(&self.files.journal) {
            let _ = std::fs::remove_file(&self.files.journal);
        }
    }
}

fn is_empty(path: &Path) -> bool {
    std::fs::metadata(path).is_ok_and(|meta| meta.len() == 0)
}

impl Journal for Keeper {
    fn record(&self, event: &Event) -> std::io::Result<()> {
        self.file.record(event)?;
        if matches!(event, Event::Message { .. }) {
            let mut next = self.next.lock().unwrap_or_else(PoisonError::into_inner);
            let now = Instant::now();
            let large = std::fs::metadata(&self.files.journal).is_ok_and(|meta| meta.len() > LARGE);
            // What went into a pipe can't be replaced by something newer.
            if now >= next.at && !large && !self.files.to_device() {
                if let Err(error) = self.write_trajectory() {
                    tracing::warn!(%error, "the trajectory could not be brought up to date");
                }
                next.at = Instant::now() + PAUSE.max(now.elapsed() * 20);
            }
        }
        Ok(())
    }
}

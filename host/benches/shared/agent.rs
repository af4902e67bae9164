//! Runs made through the library: config, a front that shows nothing, and a journal that stores the
//! time of each event.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use mswea_host::config::{Config, HostEnvironment, Layers, Sources};
use mswea_host::journal::{Event, JournalFile};
use mswea_host::roles::{Context, Front, Journal, Nobody, Progress, Stop};
use mswea_host::run::Agent;
use mswea_host::session::{Job, Runtime};
use serde_json::{Value, json};

/// The shell of every run: the fastest one, so that the host's own time is the largest part.
pub const SHELL: [&str; 2] = ["/bin/sh", "-c"];

/// Observations hold the output whole, so that the request of the last of 400 steps has 8 MB.
pub const WHOLE_OUTPUT: &str =
    r#"{"returncode": {{ output.returncode }}, "output": {{ output.output|tojson }}}"#;

/// A source of files and variables without any of this machine's user.
struct Nowhere;

impl HostEnvironment for Nowhere {
    fn var(&self, _: &str) -> Option<String> {
        None
    }

    fn read(&self, _: &Path) -> io::Result<Vec<u8>> {
        Err(io::ErrorKind::NotFound.into())
    }

    fn cwd(&self) -> PathBuf {
        PathBuf::from("/")
    }
}

/// The settings of a run with `queries` queries to `url`, in `cwd`, over the built-in defaults.
/// There is no salvage command, because it runs at the end and not in a step.
pub fn settings(url: &str, cwd: &Path, queries: usize, stream: bool) -> Vec<(&'static str, Value)> {
    vec![
        ("model.model_name", json!("local/test")),
        ("model.base_url", json!(url)),
        ("model.stream", json!(stream)),
        ("agent.step_limit", json!(queries)),
        ("agent.cost_limit", json!(0.0)),
        ("agent.salvage_command", json!("")),
        ("environment.interpreter", json!(SHELL)),
        ("environment.cwd", json!(cwd.to_string_lossy())),
    ]
}

/// The built-in defaults with these settings over them.
pub fn config_of(settings: &[(&str, Value)]) -> Config {
    let by = "bench".to_owned();
    let flags = settings.iter();
    let sources = Sources {
        flags: flags
            .map(|(key, value)| ((*key).to_owned(), value.clone(), by.clone()))
            .collect(),
        ..Sources::default()
    };
    let layers = Layers::load(&sources, &Nowhere).unwrap_or_else(|error| panic!("{error}"));
    layers.resolve().unwrap_or_else(|error| panic!("{error}"))
}

/// The config of [`settings`].
pub fn config(url: &str, cwd: &Path, queries: usize, stream: bool) -> Config {
    config_of(&settings(url, cwd, queries, stream))
}

/// A journal that stores nothing.
struct Nothing;

impl Journal for Nothing {
    fn record(&self, _: &Event) -> io::Result<f64> {
        Ok(0.0)
    }
}

/// A context with a front that shows nothing and a stop that never comes.
pub fn context() -> Context {
    Context::new(Arc::new(Silent), Arc::new(Nothing), Stop::never())
}

/// Shows nothing.
struct Silent;

impl Front for Silent {
    fn show(&self, _: &Progress<'_>) {}
}

/// The places in a step at which an event is recorded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    Query,
    Reply,
    Accepted,
    Action,
    Output,
    Observed,
    Other,
}

/// An event: its place in the step, and the times before and after recording it.
#[derive(Clone, Copy, Debug)]
pub struct Mark {
    pub place: Place,
    pub begin: Instant,
    pub end: Instant,
}

/// A journal file that also stores the times of events.
pub struct Clocked {
    file: JournalFile,
    marks: Mutex<Vec<Mark>>,
}

impl Clocked {
    /// A journal at `path`.
    pub fn create(path: PathBuf) -> Arc<Self> {
        Arc::new(Self {
            file: JournalFile::create(path).unwrap(),
            marks: Mutex::new(Vec::with_capacity(4096)),
        })
    }

    /// The recorded events with their times.
    pub fn marks(&self) -> Vec<Mark> {
        self.marks.lock().unwrap().clone()
    }
}

impl Journal for Clocked {
    fn record(&self, event: &Event) -> io::Result<f64> {
        let place = match event {
            Event::QueryStarted { .. } => Place::Query,
            Event::Reply { .. } => Place::Reply,
            Event::Accepted { .. } => Place::Accepted,
            Event::Action { .. } => Place::Action,
            Event::Output { .. } => Place::Output,
            Event::Observed { .. } => Place::Observed,
            _ => Place::Other,
        };
        let begin = Instant::now();
        let result = self.file.record(event);
        let end = Instant::now();
        self.marks.lock().unwrap().push(Mark { place, begin, end });
        result
    }
}

/// A prepared run.
pub async fn prepare(
    runtime: &Runtime,
    config: &Config,
    run_id: &str,
    journal: Arc<dyn Journal>,
    guard_program: Option<PathBuf>,
) -> Agent {
    prepare_shadowed(runtime, config, run_id, journal, guard_program, &[]).await
}

/// The same with shadows.
pub async fn prepare_shadowed(
    runtime: &Runtime,
    config: &Config,
    run_id: &str,
    journal: Arc<dyn Journal>,
    guard_program: Option<PathBuf>,
    shadows: &[String],
) -> Agent {
    let job = Job {
        shadows,
        guard_program,
        ..Job::new("Say `true` until you are told to stop.", config, run_id)
    };
    let context = Context::new(Arc::new(Silent), journal, Stop::never());
    let prepared = runtime.prepare(job, context, Arc::new(Nobody), &[]).await;
    prepared.unwrap_or_else(|error| panic!("{error}"))
}

/// A runtime like that of the program.
pub fn tokio_runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap()
}

/// A runtime like that of `batch run`: a thread for each processor, at most 8.
pub fn runtime_for_many() -> tokio::runtime::Runtime {
    let processors = std::thread::available_parallelism().unwrap().get();
    tokio::runtime::Builder::new_multi_thread()
        .worker_threads(processors.min(8))
        .enable_all()
        .build()
        .unwrap()
}

/// The parts of the time of one step.
#[derive(Clone, Copy, Debug, Default)]
pub struct Step {
    /// From the start of its query to that of the next one.
    pub whole: Duration,
    /// Encoding, the request, decoding.
    pub query: Duration,
    /// Parsing the reply.
    pub parse: Duration,
    /// Running the command.
    pub execute: Duration,
    /// Formatting the observation.
    pub format: Duration,
    /// Recording events.
    pub journal: Duration,
}

/// Computes the steps from the marks; the last query only marks the end of the last step.
pub fn steps(marks: &[Mark]) -> Vec<Step> {
    let queries: Vec<usize> = (0..marks.len())
        .filter(|index| marks[*index].place == Place::Query)
        .collect();
    queries
        .windows(2)
        .map(|ends| {
            let marks = &marks[ends[0]..=ends[1]];
            let mut step = Step {
                whole: marks[marks.len() - 1].begin - marks[0].begin,
                ..Step::default()
            };
            for pair in marks.windows(2) {
                let between = pair[1].begin - pair[0].end;
                step.journal += pair[0].end - pair[0].begin;
                match (pair[0].place, pair[1].place) {
                    (Place::Query, Place::Reply) => step.query += between,
                    (Place::Reply, Place::Accepted) => step.parse += between,
                    (Place::Action, Place::Output) => step.execute += between,
                    (Place::Output, Place::Observed) => step.format += between,
                    _ => {}
                }
            }
            step
        })
        .collect()
}

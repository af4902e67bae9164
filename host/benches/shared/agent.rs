//! Runs made through the library: config, a front that shows nothing, and a journal that
//! remembers when each event came.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use async_trait::async_trait;
use mswea_host::config::{Config, Environment, Layers, Sources};
use mswea_host::journal::{Event, JournalFile};
use mswea_host::roles::{Action, Context, Front, Journal, Progress, Stop};
use mswea_host::run::Agent;
use mswea_host::session::{Job, Runtime};
use serde_json::{Value, json};

/// The shell of every run here: the quickest that there is, so that what the host adds shows
/// most.
pub const SHELL: [&str; 2] = ["/bin/sh", "-c"];

/// The built-in defaults and nothing of this machine's user.
struct Nowhere;

impl Environment for Nowhere {
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

/// The settings of a run of so many queries against `url`, in `cwd`, over the built-in defaults.
/// No salvage command: that is a cost of the ending, not of a step.
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

/// A journal that keeps nothing.
struct Nothing;

impl Journal for Nothing {
    fn record(&self, _: &Event) -> io::Result<()> {
        Ok(())
    }
}

/// Where nobody watches and nothing is stopped.
pub fn context() -> Context {
    Context {
        front: Arc::new(Silent),
        journal: Arc::new(Nothing),
        stop: Stop::never(),
    }
}

/// Shows nothing.
struct Silent;

#[async_trait]
impl Front for Silent {
    fn show(&self, _: &Progress<'_>) {}

    async fn confirm(&self, _: &Action, _: &str) -> Option<bool> {
        None
    }
}

/// The places in a step at which an event is recorded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    Query,
    Reply,
    Accepted,
    Action,
    Output,
    Message,
    Other,
}

/// An event: where in the step, and when recording it began and ended.
#[derive(Clone, Copy, Debug)]
pub struct Mark {
    pub place: Place,
    pub begin: Instant,
    pub end: Instant,
}

/// A journal file with a clock beside it.
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

    /// What was recorded when.
    pub fn marks(&self) -> Vec<Mark> {
        self.marks.lock().unwrap().clone()
    }
}

impl Journal for Clocked {
    fn record(&self, event: &Event) -> io::Result<()> {
        let place = match event {
            Event::QueryStarted { .. } => Place::Query,
            Event::Reply { .. } => Place::Reply,
            Event::Accepted { .. } => Place::Accepted,
            Event::Action { .. } => Place::Action,
            Event::Output { .. } => Place::Output,
            Event::Message { .. } => Place::Message,
            _ => Place::Other,
        };
        let begin = Instant::now();
        let result = self.file.record(event);
        let end = Instant::now();
        self.marks.lock().unwrap().push(Mark { place, begin, end });
        result
    }
}

/// A run, ready to go.
pub async fn prepare(
    runtime: &Runtime,
    config: &Config,
    run_id: &str,
    journal: Arc<dyn Journal>,
    guard_program: Option<PathBuf>,
) -> Agent {
    prepare_shadowed(runtime, config, run_id, journal, guard_program, &[]).await
}

/// The same, with candidates that look on.
pub async fn prepare_shadowed(
    runtime: &Runtime,
    config: &Config,
    run_id: &str,
    journal: Arc<dyn Journal>,
    guard_program: Option<PathBuf>,
    shadows: &[String],
) -> Agent {
    let job = Job {
        own_files: &[],
        task: "Say `true` until you are told to stop.",
        config,
        layers: None,
        plugins: &[],
        shadows,
        allow_hosts: &[],
        fresh_instances: false,
        run_id,
        guard_program,
    };
    let context = Context {
        front: Arc::new(Silent),
        journal,
        stop: Stop::never(),
    };
    let prepared = runtime.prepare(job, context).await;
    prepared.unwrap_or_else(|error| panic!("{error}"))
}

/// A runtime as the program has one.
pub fn tokio_runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap()
}

/// Where the time of one step went.
#[derive(Clone, Copy, Debug, Default)]
pub struct Step {
    /// From its query's start to the next one's.
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

/// Reads the steps off the marks; the last query only ends the last step that counts.
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
                    (Place::Output, Place::Message) => step.format += between,
                    _ => {}
                }
            }
            step
        })
        .collect()
}

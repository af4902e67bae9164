//! What the list shows of a run, read from the ends of its file.

use std::fs::{File, TryLockError};
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;
use std::time::UNIX_EPOCH;

use mswea_export::SecretValues;
use mswea_run::journal::{first_line, last_lines};
use mswea_text::one_line;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::foreign_card;
use crate::places::RunPlace;
use crate::tally::JournalTally;

/// How much of a task and of an error the list shows.
const SHOWN: usize = 240;

/// What the list shows of a run.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct RunCard {
    pub(crate) run_id: String,
    pub(crate) task: String,
    /// `running`, `killed`, `unreadable`, or the exit status.
    pub(crate) status: String,
    pub(crate) is_running: bool,
    pub(crate) model: String,
    pub(crate) environment: String,
    pub(crate) steps: u32,
    /// Dollars; none if a price is unknown.
    pub(crate) cost: Option<f64>,
    pub(crate) input: u64,
    pub(crate) output: u64,
    /// Unix seconds.
    pub(crate) started: f64,
    /// Unix seconds of the last event.
    pub(crate) last: f64,
    /// The last line of the error that ended the run.
    pub(crate) error: String,
    /// The program that made the run.
    pub(crate) program: String,
    pub(crate) bytes: u64,
}

impl RunCard {
    /// As the page gets it.
    pub(crate) fn to_json(&self, id: &str, name: &str, secrets: &SecretValues) -> Value {
        let clean = |text: &str, most: usize| {
            let mut text = text.to_owned();
            secrets.remove_from_text(&mut text);
            one_line(text.chars().take(most).collect::<String>().as_str())
        };
        json!({
            "id": id,
            "name": one_line(name),
            "run": one_line(&self.run_id),
            "task": clean(&self.task, SHOWN),
            "status": clean(&self.status, 80),
            "running": self.is_running,
            "model": clean(&self.model, 120),
            "environment": clean(&self.environment, 40),
            "steps": self.steps,
            "cost": self.cost.filter(|it| it.is_finite()),
            "input": self.input,
            "output": self.output,
            "started": finite(self.started),
            "last": finite(self.last),
            "error": clean(&self.error, SHOWN),
            "program": clean(&self.program, 60),
            "bytes": self.bytes,
        })
    }
}

/// Whether a file has changed since.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct FileStamp {
    device: u64,
    inode: u64,
    pub(crate) bytes: u64,
    seconds: i64,
    nanos: i64,
}

impl FileStamp {
    pub(crate) fn of(path: &Path) -> std::io::Result<Self> {
        let meta = std::fs::metadata(path)?;
        Ok(Self {
            device: meta.dev(),
            inode: meta.ino(),
            bytes: meta.len(),
            seconds: meta.mtime(),
            nanos: meta.mtime_nsec(),
        })
    }

    /// Whether it is the same file, which has at most grown.
    pub(crate) fn has_grown_to(&self, later: &Self) -> bool {
        (self.device, self.inode) == (later.device, later.inode) && later.bytes >= self.bytes
    }
}

/// Reads the card of a run. `tally` is what was counted of the same file before.
///
/// # Errors
/// A message if the file can't be read as a run.
pub(crate) fn read(place: &RunPlace, tally: &mut JournalTally) -> Result<RunCard, String> {
    match place.is_journal {
        true => of_journal(&place.path, tally),
        false => foreign_card::read(&place.path),
    }
}

/// What is read of the first line; the rest of the config is long.
#[derive(Deserialize)]
struct HeadLine {
    t: f64,
    event: String,
    run_id: String,
    host_version: String,
    task: String,
    #[serde(default)]
    config: HeadConfig,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct HeadConfig {
    model: HeadModel,
    environment: HeadEnvironment,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct HeadModel {
    model_name: Option<String>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct HeadEnvironment {
    environment_class: Option<String>,
}

fn of_journal(path: &Path, tally: &mut JournalTally) -> Result<RunCard, String> {
    let file = mswea_files::open(path, u64::MAX).map_err(|error| error.to_string())?;
    let first = first_line(&file).map_err(|error| error.to_string())?;
    let head: HeadLine =
        serde_json::from_slice(&first).map_err(|error| format!("it is no journal: {error}"))?;
    if head.event != "run_started" {
        return Err("it does not begin with `run_started`".to_owned());
    }
    let (last, end) = last_lines(&file).map_err(|error| error.to_string())?;
    let card = RunCard {
        run_id: head.run_id,
        task: first_of(&head.task),
        model: head.config.model.model_name.unwrap_or_default(),
        environment: head
            .config
            .environment
            .environment_class
            .unwrap_or_default(),
        started: head.t,
        last: last.unwrap_or(head.t),
        program: format!("mswea-host {}", head.host_version),
        bytes: file.metadata().map(|it| it.len()).unwrap_or_default(),
        ..RunCard::default()
    };
    if let Some(end) = end {
        let error = end.extra.get("message").and_then(Value::as_str);
        return Ok(RunCard {
            status: end.exit_status,
            steps: end.queries,
            cost: end.cost,
            input: end.usage.input_tokens,
            output: end.usage.output_tokens,
            error: last_of(error.unwrap_or_default()),
            ..card
        });
    }
    tally.go_on(&file).map_err(|error| error.to_string())?;
    let is_running = is_held(&file);
    let status = if is_running { "running" } else { "killed" };
    Ok(RunCard {
        status: status.to_owned(),
        is_running,
        steps: tally.queries,
        cost: tally.cost(),
        input: tally.usage.input_tokens,
        output: tally.usage.output_tokens,
        ..card
    })
}

/// Whether a process holds the journal: its run goes on.
pub(crate) fn is_held(file: &File) -> bool {
    match file.try_lock_shared() {
        Err(TryLockError::WouldBlock) => true,
        Ok(()) => {
            // At once, because a process may be about to continue the run.
            let _ = file.unlock();
            false
        }
        Err(TryLockError::Error(_)) => false,
    }
}

/// The first line with something in it.
pub(crate) fn first_of(text: &str) -> String {
    let line = text.lines().map(str::trim).find(|line| !line.is_empty());
    line.unwrap_or_default().chars().take(4 * SHOWN).collect()
}

/// The last line with something in it.
fn last_of(text: &str) -> String {
    let line = text.lines().rev().map(str::trim);
    let mut line = line.filter(|line| !line.is_empty());
    line.next()
        .unwrap_or_default()
        .chars()
        .take(4 * SHOWN)
        .collect()
}

/// When a file was changed, in Unix seconds.
pub(crate) fn changed(path: &Path) -> f64 {
    let time = std::fs::metadata(path).and_then(|meta| meta.modified());
    let since = time.ok().and_then(|it| it.duration_since(UNIX_EPOCH).ok());
    since.unwrap_or_default().as_secs_f64()
}

fn finite(value: f64) -> f64 {
    if value.is_finite() { value } else { 0.0 }
}

//! A summary of a run: its id and task, its status and its cost.

use std::fs::File;
use std::io::BufReader;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use mswea_core::Event;
use mswea_files as regular_file;
use mswea_record::journal::{self, Glance, is_held};
use mswea_record::trajectory_of;
use mswea_run::State;

/// The largest journal that is read whole for a list.
const READ: u64 = 1 << 30;

/// The status of a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Standing {
    /// A process holds the lock of its journal.
    Running,
    /// The run has recorded its end, with this exit status.
    Ended(String),
    /// The run has recorded no end, and no process holds its journal.
    Killed,
}

impl Standing {
    pub(super) fn word(&self) -> &str {
        match self {
            Self::Running => "running",
            Self::Ended(status) => status,
            Self::Killed => "killed",
        }
    }
}

/// The summary of a run.
#[derive(Clone, Debug)]
pub(super) struct Card {
    pub(super) run_id: String,
    pub(super) task: String,
    pub(super) standing: Standing,
    /// Dollars; none if the price was unknown.
    pub(super) cost: Option<f64>,
    /// Queries that were begun.
    pub(super) steps: u32,
    /// Unix seconds.
    pub(super) started: f64,
    /// Unix seconds of the last event.
    pub(super) last: f64,
    pub(super) journal: PathBuf,
    pub(super) trajectory: PathBuf,
}

impl Card {
    /// Reads a summary from a journal.
    ///
    /// # Errors
    /// A message if the file can't be read, or is not a journal.
    pub(super) fn of(path: &Path) -> Result<Self, String> {
        let file = open(path)?;
        let Glance { head, last, end } = journal::glance(&file).map_err(|error| no(path, error))?;
        let Event::RunStarted {
            run_id,
            task,
            config,
            ..
        } = head.event
        else {
            return Err(no(path, "it does not begin with `run_started`"));
        };
        let (standing, cost, steps) = match end {
            // A run that is still running has not ended, even if its last event is an end.
            Some(end) if !is_held(&file) => {
                (Standing::Ended(end.exit_status), end.cost, end.queries)
            }
            _ => {
                let standing = match is_held(&file) {
                    true => Standing::Running,
                    false => Standing::Killed,
                };
                let state = state(&file, path)?;
                let cost = state.account.known_cost();
                (standing, cost, state.account.queries)
            }
        };
        Ok(Self {
            standing,
            cost,
            steps,
            started: head.t,
            last,
            trajectory: trajectory_of(path, &config),
            journal: path.to_owned(),
            run_id,
            task,
        })
    }

    pub(super) fn to_json(&self) -> Value {
        json!({
            "run_id": self.run_id,
            "status": self.standing.word(),
            "running": self.standing == Standing::Running,
            "cost": self.cost,
            "steps": self.steps,
            "started": self.started,
            "last": self.last,
            "task": self.task,
            "journal": self.journal.display().to_string(),
            "trajectory": self.trajectory.display().to_string(),
        })
    }
}

/// Opens a journal for reading.
///
/// # Errors
/// A message if it is not a regular file, or can't be read.
pub(super) fn open(path: &Path) -> Result<File, String> {
    regular_file::open(path, u64::MAX)
        .map_err(|error| format!("can't read the journal `{}`: {error}", path.display()))
}

fn no(path: &Path, why: impl std::fmt::Display) -> String {
    format!("`{}` is not a journal of mswea-host: {why}", path.display())
}

/// The id of the run of a journal.
///
/// # Errors
/// A message if the file can't be read, or is not a journal.
pub(super) fn head(path: &Path) -> Result<String, String> {
    let file = open(path)?;
    match journal::glance(&file)
        .map_err(|error| no(path, error))?
        .head
        .event
    {
        Event::RunStarted { run_id, .. } => Ok(run_id),
        _ => Err(no(path, "it does not begin with `run_started`")),
    }
}

fn state(file: &File, path: &Path) -> Result<State, String> {
    let shown = path.display();
    if file.metadata().is_ok_and(|it| it.len() > READ) {
        return Err(format!("the journal `{shown}` is larger than {READ} bytes"));
    }
    let log = journal::read_from(BufReader::new(file), &shown.to_string());
    let log = log.map_err(|error| format!("`{shown}`: {error}"))?;
    Ok(mswea_run::fold(&log.records))
}

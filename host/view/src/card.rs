//! The data of a run in the list.

use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::time::UNIX_EPOCH;

use mswea_export::SecretValues;
use mswea_text::one_line;
use serde_json::{Value, json};

/// The number of characters of a task and of an error in the list.
const SHOWN: usize = 240;

/// The data of a run in the list.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct RunCard {
    pub(crate) run_id: String,
    /// Of a copy of a run in ATIF: the run's id.
    pub(crate) twin: String,
    pub(crate) task: String,
    /// `running`, `killed`, `unreadable`, or the exit status.
    pub(crate) status: String,
    pub(crate) is_running: bool,
    pub(crate) model: String,
    pub(crate) environment: String,
    pub(crate) steps: u32,
    /// The cost in dollars; none if a price is unknown.
    pub(crate) cost: Option<f64>,
    pub(crate) input: u64,
    pub(crate) output: u64,
    /// The settings that it ran with ([`crate::config_name`]).
    pub(crate) config: String,
    /// Unix seconds; none if no time is recorded.
    pub(crate) started: Option<f64>,
    /// Unix seconds of the last event.
    pub(crate) last: Option<f64>,
    /// When its file was changed, in Unix seconds.
    pub(crate) changed: f64,
    /// The last line of the error that ended the run.
    pub(crate) error: String,
    /// The program that made the run.
    pub(crate) program: String,
    pub(crate) bytes: u64,
    /// The file of secrets that the run's config names.
    pub(crate) secrets_file: Option<PathBuf>,
}

impl RunCard {
    /// For an order by age: when it began, or else when its file was changed.
    pub(crate) fn age(&self) -> f64 {
        self.started.unwrap_or(self.changed)
    }

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
            "config": clean(&self.config, 120),
            "started": self.started.filter(|it| it.is_finite()),
            "last": self.last.filter(|it| it.is_finite()),
            "error": clean(&self.error, SHOWN),
            "program": clean(&self.program, 60),
            "bytes": self.bytes,
        })
    }
}

/// The identity, size and time of a file, from which a change is noticed.
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

    /// Whether `later` is of the same file, which has at most grown.
    pub(crate) fn has_grown_to(&self, later: &Self) -> bool {
        (self.device, self.inode) == (later.device, later.inode) && later.bytes >= self.bytes
    }
}

/// The first line that is not empty.
pub(crate) fn first_of(text: &str) -> String {
    let line = text.lines().map(str::trim).find(|line| !line.is_empty());
    line.unwrap_or_default().chars().take(4 * SHOWN).collect()
}

/// The last line that is not empty.
pub(crate) fn last_of(text: &str) -> String {
    let line = text.lines().rev().map(str::trim);
    let mut line = line.filter(|line| !line.is_empty());
    line.next()
        .unwrap_or_default()
        .chars()
        .take(4 * SHOWN)
        .collect()
}

/// The time of a file's last change, in Unix seconds.
pub(crate) fn changed(path: &Path) -> f64 {
    let time = std::fs::metadata(path).and_then(|meta| meta.modified());
    let since = time.ok().and_then(|it| it.duration_since(UNIX_EPOCH).ok());
    since.unwrap_or_default().as_secs_f64()
}

//! The result of a run of the binary, with checks for tests.
#![allow(
    dead_code,
    reason = "helpers for tests; a test may be removed without its helper"
)]

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use serde_json::Value;
use tempfile::TempDir;

use crate::processes;

/// The result of a run. When the last value of a folder is dropped, the folder is removed.
pub struct Run {
    /// The exit code, or minus the signal's number.
    pub status: i32,
    /// Standard output.
    pub stdout: String,
    /// Standard error.
    pub stderr: String,
    /// The folder that it was run in.
    pub dir: PathBuf,
    pub(crate) trajectory: PathBuf,
    pub(crate) args: Vec<OsString>,
    pub(crate) root: Arc<TempDir>,
}

impl Run {
    /// Fails, and shows what was printed, unless the status is this.
    #[track_caller]
    pub fn expect(self, status: i32) -> Self {
        assert!(
            self.status == status,
            "status {} instead of {status}\n{self}",
            self.status
        );
        self
    }

    /// Fails unless standard error has all of these in it.
    #[track_caller]
    pub fn says(self, parts: &[&str]) -> Self {
        for part in parts {
            assert!(self.stderr.contains(part), "`{part}` is not said\n{self}");
        }
        self
    }

    /// The trajectory.
    #[track_caller]
    pub fn trajectory(&self) -> Value {
        let text = fs::read(&self.trajectory)
            .unwrap_or_else(|error| panic!("no trajectory: {error}\n{self}"));
        serde_json::from_slice(&text)
            .unwrap_or_else(|error| panic!("the trajectory is no JSON: {error}\n{self}"))
    }

    /// How the run ended, by its trajectory.
    #[track_caller]
    pub fn exit_status(&self) -> String {
        let status = &self.trajectory()["info"]["exit_status"];
        status.as_str().unwrap_or_default().to_owned()
    }

    /// The journal, line by line; a last line that is not whole is left out.
    pub fn journal(&self) -> Vec<Value> {
        journal(&self.trajectory)
    }

    /// The events of one kind in the journal.
    pub fn events(&self, kind: &str) -> Vec<Value> {
        let mut events = self.journal();
        events.retain(|event| event["event"] == kind);
        events
    }

    /// The run's id, by its journal.
    #[track_caller]
    pub fn run_id(&self) -> String {
        let started = self.events("run_started");
        let id = started.first().and_then(|event| event["run_id"].as_str());
        id.unwrap_or_else(|| panic!("the journal names no run id\n{self}"))
            .to_owned()
    }

    /// Fails if a process of the run is still there (a moment after its end).
    #[track_caller]
    pub fn nothing_left(self) -> Self {
        let id = self.run_id();
        let end = Instant::now() + Duration::from_secs(2);
        loop {
            let mut left = processes::left_over(&id);
            // Processes without the run's variable, for example after `env -i`, are found by their folder.
            left.extend(processes::inside(self.root.path()));
            if left.is_empty() {
                return self;
            }
            assert!(Instant::now() < end, "left behind: {left:?}\n{self}");
            thread::sleep(Duration::from_millis(10));
        }
    }
}

impl std::fmt::Display for Run {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&shown(&self.args, &self.stdout, &self.stderr))
    }
}

impl Drop for Run {
    fn drop(&mut self) {
        // Other calls may still use the same folders.
        if Arc::strong_count(&self.root) == 1 {
            processes::kill_inside(self.root.path());
        }
    }
}

pub(crate) fn shown(args: &[OsString], stdout: &str, stderr: &str) -> String {
    format!("--- arguments: {args:?}\n--- stdout:\n{stdout}\n--- stderr:\n{stderr}\n---")
}

/// Reads the journal that a trajectory names, or the one beside it.
pub(crate) fn journal(trajectory: &Path) -> Vec<Value> {
    let named = fs::read(trajectory)
        .ok()
        .and_then(|text| serde_json::from_slice::<Value>(&text).ok())
        .and_then(|value| Some(PathBuf::from(value["info"]["mswea"]["journal"].as_str()?)));
    let path = match named {
        // Relative names are relative to where the trajectory is.
        Some(path) => trajectory.with_file_name(path),
        None if trajectory.ends_with("traj.json") => trajectory.with_extension("events.jsonl"),
        None => {
            let name = trajectory.file_name().unwrap().to_str().unwrap();
            let stem = match name.strip_suffix(".traj.json") {
                Some(stem) => stem.to_owned(),
                None => format!("{name}.run"),
            };
            trajectory.with_file_name(format!("{stem}.events.jsonl"))
        }
    };
    let text = fs::read_to_string(path).unwrap_or_default();
    let whole = text.rfind('\n').map_or("", |end| &text[..end]);
    whole
        .lines()
        .map(|line| {
            serde_json::from_str(line)
                .unwrap_or_else(|error| panic!("a journal line is no JSON: {error}: {line}"))
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_journal_is_read_up_to_its_last_whole_line() {
        let folder = TempDir::new().unwrap();
        let trajectory = folder.path().join("traj.json");
        let write = |name: &str, text: &str| fs::write(folder.path().join(name), text).unwrap();
        assert!(journal(&trajectory).is_empty());
        write("traj.events.jsonl", "{\"seq\": 0}\n{\"seq\": 1}\n{\"se");
        assert_eq!(journal(&trajectory).len(), 2);
        write(
            "traj.json",
            r#"{"info": {"mswea": {"journal": "other.jsonl"}}}"#,
        );
        write("other.jsonl", "{\"seq\": 7}\n");
        assert_eq!(journal(&trajectory)[0]["seq"], 7);
    }
}

//! The files of a batch that other tools read: `preds.json`, and mini-swe-agent's
//! `exit_statuses_TIME.yaml`. Both are made from the results, and replaced as a whole.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use mswea_python::PythonJson;
use serde::Serialize as _;
use serde_json::{Map, Value, json};

use crate::error::BatchError;
use crate::outcome::BatchResult;
use crate::whole_file;

/// The largest file that is read.
const LIMIT: u64 = 4 << 30;
/// A large file is written less often than after each instance: writing it takes at most one part
/// in so many of the time.
const PART: u32 = 20;

/// `preds.json`: the patch of each instance.
#[derive(Debug)]
pub struct Predictions {
    path: PathBuf,
    model: String,
    entries: Map<String, Value>,
    /// Whether instances whose agent has not begun are left out.
    of_begun: bool,
    pace: Pace,
}

impl Predictions {
    /// Reads the file of a batch folder, if there is one.
    ///
    /// # Errors
    /// [`BatchError`] if it can't be read, or is not such a file.
    pub fn open(folder: &Path, model: &str) -> Result<Self, BatchError> {
        let path = folder.join("preds.json");
        let entries = match mswea_files::read(&path, LIMIT) {
            Ok(text) => mswea_text::read_json(&text).map_err(|error| {
                BatchError::Refused(format!(
                    "`{}` has no predictions by instance: {error}; move it to another place, and it is made anew of the results",
                    path.display()
                ))
            })?,
            Err(error) if error.kind() == io::ErrorKind::NotFound => Map::new(),
            Err(error) => return Err(BatchError::io("read", &path)(error)),
        };
        Ok(Self {
            path,
            model: model.to_owned(),
            entries,
            of_begun: false,
            pace: Pace::default(),
        })
    }

    /// Sets SWE-agent's rule: an instance whose agent has not begun has no entry. mini-swe-agent
    /// writes an empty one.
    #[must_use]
    pub fn of_begun(mut self, is_set: bool) -> Self {
        self.of_begun = is_set;
        self
    }

    /// The entries, by instance.
    pub fn entries(&self) -> &Map<String, Value> {
        &self.entries
    }

    /// Whether there is an entry for this instance, which mini-swe-agent may have written.
    pub fn has(&self, id: &str) -> bool {
        self.entries.contains_key(id)
    }

    /// Adds the results, and removes the entries of those of these instances that have no result.
    pub fn renew<'r>(
        &mut self,
        removed: impl Iterator<Item = &'r str>,
        results: impl Iterator<Item = &'r BatchResult>,
    ) {
        for id in removed {
            self.entries.shift_remove(id);
        }
        for result in results {
            self.set(result);
        }
    }

    /// Adds a result.
    pub fn set(&mut self, result: &BatchResult) {
        if self.of_begun && !result.has_begun() {
            self.pace.is_stale |= self.entries.shift_remove(&result.instance_id).is_some();
            return;
        }
        let mut entry = json!({
            "model_name_or_path": self.model,
            "instance_id": result.instance_id,
            "model_patch": result.submission,
        });
        // The batch may have been continued with another model.
        if let Some(known) = self.entries.get(&result.instance_id)
            && known["model_patch"] == entry["model_patch"]
            && known["model_name_or_path"].is_string()
        {
            entry["model_name_or_path"] = known["model_name_or_path"].clone();
        }
        self.entries.insert(result.instance_id.clone(), entry);
        self.pace.is_stale = true;
    }

    /// Writes the file, if it has changed and is due, or if this is the `last` time.
    ///
    /// # Errors
    /// [`BatchError`] if it can't be written.
    pub fn write(&mut self, last: bool) -> Result<(), BatchError> {
        if !self.pace.is_due(last) {
            return Ok(());
        }
        let begun = Instant::now();
        let io = BatchError::io("write", &self.path);
        let mut text = Vec::new();
        let python = PythonJson::default();
        let mut serializer = serde_json::Serializer::with_formatter(&mut text, python);
        match self.entries.serialize(&mut serializer) {
            Ok(()) => whole_file::replace(&self.path, &text).map_err(io)?,
            Err(error) => return Err(io(error.into())),
        }
        self.pace.written(begun);
        Ok(())
    }
}

/// Decides when a file is written again.
#[derive(Debug, Default)]
struct Pace {
    is_stale: bool,
    /// When the last writing ended, and how long it took.
    last: Option<(Instant, Duration)>,
}

impl Pace {
    fn is_due(&self, last: bool) -> bool {
        let rested = |(at, took): (Instant, Duration)| at.elapsed() >= took * PART;
        // A small file is written after each instance, however slow the disk is.
        self.is_stale
            && (last
                || self
                    .last
                    .is_none_or(|it| it.1 < Duration::from_millis(50) || rested(it)))
    }

    fn written(&mut self, begun: Instant) {
        self.is_stale = false;
        self.last = Some((Instant::now(), begun.elapsed()));
    }
}

/// `exit_statuses_TIME.yaml`: the instances of this process, by exit status.
#[derive(Debug)]
pub struct ExitStatuses {
    path: PathBuf,
    ids: BTreeMap<String, Vec<String>>,
    pace: Pace,
}

impl ExitStatuses {
    /// A new file, with `now` in Unix seconds in its name.
    pub fn new(folder: &Path, now: f64) -> Self {
        Self {
            path: folder.join(format!("exit_statuses_{now}.yaml")),
            ids: BTreeMap::new(),
            pace: Pace::default(),
        }
    }

    /// Adds a result.
    pub fn set(&mut self, result: &BatchResult) {
        let ids = self.ids.entry(result.exit_status.clone()).or_default();
        ids.push(result.instance_id.clone());
        self.pace.is_stale = true;
    }

    /// As [`Predictions::write`].
    ///
    /// # Errors
    /// [`BatchError`] if it can't be written.
    pub fn write(&mut self, last: bool) -> Result<(), BatchError> {
        if !self.pace.is_due(last) {
            return Ok(());
        }
        let begun = Instant::now();
        let mut text = "instances_by_exit_status:\n".to_owned();
        for (status, ids) in &self.ids {
            let _ = writeln!(text, "    {}:", scalar(status));
            for id in ids {
                let _ = writeln!(text, "    - {}", scalar(id));
            }
        }
        whole_file::replace(&self.path, text.as_bytes())
            .map_err(BatchError::io("write", &self.path))?;
        self.pace.written(begun);
        Ok(())
    }
}

/// A YAML scalar: plain where a reader certainly takes it for this text, else quoted as PyYAML
/// quotes it.
fn scalar(text: &str) -> String {
    let is_plain = text.starts_with(|c: char| c.is_ascii_alphabetic())
        && text
            .chars()
            .all(|c| c.is_ascii_alphanumeric() || "_-.".contains(c))
        && !["yes", "no", "true", "false", "on", "off", "null", "y", "n"]
            .contains(&text.to_ascii_lowercase().as_str());
    match text.chars().all(|c| c.is_ascii() && !c.is_control()) {
        true if is_plain => text.to_owned(),
        true => format!("'{}'", text.replace('\'', "''")),
        false => Value::from(text).to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn result(id: &str, status: &str, patch: &str) -> BatchResult {
        BatchResult {
            instance_id: id.to_owned(),
            exit_status: status.to_owned(),
            submission: patch.to_owned(),
            ..BatchResult::default()
        }
    }

    #[test]
    fn predictions() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("preds.json");
        let mut preds = Predictions::open(folder.path(), "m/x").unwrap();
        preds.set(&result("b", "Submitted", "diff\n"));
        preds.write(false).unwrap();
        let expected = "{\n  \"b\": {\n    \"model_name_or_path\": \"m/x\",\n    \"instance_id\": \"b\",\n    \"model_patch\": \"diff\\n\"\n  }\n}";
        assert_eq!(std::fs::read_to_string(&path).unwrap(), expected);
        let mut preds = Predictions::open(folder.path(), "other").unwrap();
        assert!(preds.has("b") && !preds.has("a"));
        let results = [result("a", "Timeout", "")];
        preds.renew(["b"].into_iter(), results.iter());
        preds.write(true).unwrap();
        let preds = Predictions::open(folder.path(), "other").unwrap();
        assert!(preds.has("a") && !preds.has("b"));
        // SWE-agent writes no entry for an instance whose agent has not begun, and removes an
        // earlier entry.
        let mut preds = preds.of_begun(true);
        for (status, steps, is_there) in [
            ("SetupError", 0, false),
            ("InternalError", 0, false),
            ("exit_environment_error", 0, false),
            ("InternalError", 3, true),
            ("exit_error", 0, true),
            ("SetupError", 0, false),
        ] {
            let result = BatchResult {
                steps,
                ..result("a", status, "")
            };
            preds.set(&result);
            assert_eq!(preds.has("a"), is_there, "{status} {steps}");
        }
        std::fs::write(&path, "[]").unwrap();
        let error = Predictions::open(folder.path(), "m").unwrap_err();
        assert!(error.to_string().contains("preds.json"), "{error}");
    }

    #[test]
    fn exit_statuses() {
        let folder = tempfile::tempdir().unwrap();
        let mut statuses = ExitStatuses::new(folder.path(), 12.5);
        for (id, status) in [
            ("z-1", "Submitted"),
            ("a", "LimitsExceeded"),
            ("1", "Submitted"),
            ("no", "Submitted"),
        ] {
            statuses.set(&result(id, status, ""));
        }
        statuses.write(true).unwrap();
        let text = std::fs::read_to_string(folder.path().join("exit_statuses_12.5.yaml")).unwrap();
        assert_eq!(
            text,
            "instances_by_exit_status:\n    LimitsExceeded:\n    - a\n    Submitted:\n    - z-1\n    - '1'\n    - 'no'\n"
        );
    }
}

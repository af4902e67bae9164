//! Trajectories in the place of a journal: mini-swe-agent's, and those of this host that have lost theirs.

use std::path::Path;

use serde_json::error::Category;
use serde_json::{Value, json};

use mswea_core::Event;
use mswea_record::journal::Log;
use mswea_record::trajectory::{FORMAT, is_trajectory, owner, records_from_trajectory};
use mswea_text::read_json;

use super::{Earlier, EarlierError};
use mswea_record::trajectory_beside;

/// A trajectory; none if the file is something else.
pub(super) fn read(path: &Path) -> Option<Value> {
    // A journal's name: the file is not parsed here, because it may be large.
    if trajectory_beside(path).is_some() {
        return None;
    }
    let bytes = mswea_files::read(path, mswea_files::RECORDS).ok()?;
    read_json(&bytes).ok().map(whole).filter(is_trajectory)
}

/// The trajectory of which a file has only the list of messages.
fn whole(value: Value) -> Value {
    let is_message = |it: &Value| it.get("role").is_some_and(Value::is_string);
    match value {
        Value::Array(all) if !all.is_empty() && all.iter().all(is_message) => {
            json!({ "info": {}, "messages": all, "trajectory_format": FORMAT })
        }
        value => value,
    }
}

/// Why the content of a file is no trajectory.
fn fault(bytes: &[u8]) -> Option<String> {
    let error = match read_json(bytes).map(whole) {
        Ok(value) if is_trajectory(&value) => return None,
        Ok(_) => {
            return Some(
                "it is neither a trajectory of mini-swe-agent nor a list of messages".to_owned(),
            );
        }
        Err(error) => error,
    };
    let line = error.line();
    Some(match error.classify() {
        Category::Eof => format!("it is cut off: its JSON ends in line {line}, before its end"),
        _ if error.to_string().starts_with("recursion limit") => {
            format!("its JSON is nested too deeply, see line {line}")
        }
        _ => format!("it is no JSON: {error}"),
    })
}

/// Whether a trajectory is one of this host, which is known by its beginning.
pub(super) fn is_own(path: &Path) -> bool {
    owner(path).is_ok_and(|owner| owner.run_id.is_some())
}

/// Its events. A run of mini-swe-agent has no id, so the file's name stands for it.
pub(super) fn log(path: &Path, trajectory: &Value) -> Result<Log, EarlierError> {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let records = records_from_trajectory(trajectory, &name);
    let records = records.map_err(|reason| EarlierError::Foreign {
        trajectory: path.to_owned(),
        reason,
    })?;
    Ok(Log {
        records,
        ..Log::default()
    })
}

impl Earlier {
    /// Why a file can't be read as a trajectory. None if it is one, is called like a journal, or can't be
    /// read at all.
    pub fn why_no_trajectory(path: &Path) -> Option<String> {
        if trajectory_beside(path).is_some() {
            return None;
        }
        let bytes = mswea_files::read(path, mswea_files::RECORDS).ok()?;
        fault(&bytes)
    }

    /// Checks that the recorded data is sufficient for a replay.
    pub(super) fn check_replayable(&self) -> Result<(), EarlierError> {
        let has_no_actions =
            |event: &Event| matches!(event, Event::Accepted { actions } if actions.is_empty());
        match self.is_foreign && self.events().any(has_no_actions) {
            true => Err(EarlierError::NoOutputs {
                trajectory: self.journal.clone(),
            }),
            false => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_of_messages_is_a_trajectory() {
        let list = json!([{"role": "system", "content": "s"}, {"role": "user", "content": "t"},
            {"role": "assistant", "content": "```bash\nls\n```"}]);
        let value = whole(list);
        assert!(is_trajectory(&value));
        let log = log(Path::new("run.json"), &value).unwrap();
        assert!(
            matches!(&log.records[0].event, Event::RunStarted { run_id, task, .. }
            if run_id == "run.json" && task == "t")
        );
        for other in [
            json!([]),
            json!([1]),
            json!([{"role": 1}]),
            json!({"messages": []}),
        ] {
            assert_eq!(whole(other.clone()), other);
        }
    }

    #[test]
    fn what_is_wrong_with_a_file() {
        let deep = "[".repeat(1000);
        for (text, expected) in [
            (
                "{\n\"messages\": [",
                Some("cut off: its JSON ends in line 2"),
            ),
            ("", Some("cut off")),
            (&deep, Some("nested too deeply, see line 1")),
            ("# Notes", Some("no JSON: expected value at line 1")),
            ("{}", Some("neither a trajectory")),
            ("[{\"role\": \"user\", \"content\": \"\\ud800\"}]", None),
        ] {
            let told = fault(text.as_bytes());
            assert_eq!(told.is_some(), expected.is_some(), "{told:?}");
            assert!(
                told.unwrap_or_default()
                    .contains(expected.unwrap_or_default()),
                "{text}"
            );
        }
    }
}

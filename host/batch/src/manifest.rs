//! The manifest: one JSON line per instance, with everything that differs between the runs.

use std::collections::{HashMap, HashSet};
use std::fmt::Write as _;
use std::path::Path;

use serde::{Deserialize, Serialize};

use crate::error::BatchError;
use crate::whole_file;

/// The largest manifest that is read.
const LIMIT: u64 = 4 << 30;
/// The longest id. File systems take names of 255 bytes, and the journal's name is longer than the
/// id.
const LONGEST_ID: usize = 200;
/// Names in the batch's directory that are not folders of instances.
const OWN_NAMES: &[&str] = &[
    "batch.json",
    "manifest.jsonl",
    "preds.json",
    "minisweagent.log",
];

/// An instance: what differs between the runs of a batch.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct BatchInstance {
    /// Its name, which is also the name of its folder.
    pub id: String,
    /// The task.
    pub task: String,
    /// The image of its container.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub image: Option<String>,
    /// The repository to work on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub repo: Option<String>,
    /// The commit to check out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub base_commit: Option<String>,
    /// `run.env_startup_command`, rendered with the instance's fields.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub startup: Option<String>,
}

/// Whether an id can be the name of a folder.
///
/// # Errors
/// The reason why it can't be one, as text for the user.
pub fn check_id(id: &str) -> Result<(), String> {
    let reason = match id {
        "" => "is empty",
        "." | ".." => "is no name of a folder",
        id if id.contains('/') || id.contains('\\') => "has a slash in it",
        id if id.starts_with('.') => "begins with a dot",
        id if id.chars().any(char::is_control) => "has a control character in it",
        id if id.len() > LONGEST_ID => "is longer than 200 bytes",
        id if OWN_NAMES.contains(&id) || id.starts_with("exit_statuses_") => {
            "is the name of a file of the batch"
        }
        _ => return Ok(()),
    };
    Err(format!(
        "the id `{}` {reason}, and each instance has a folder of this name: change it, or make another one with `--id-template`",
        mswea_text::harmless(id).escape_debug()
    ))
}

/// Reads a manifest; a missing file is an empty manifest.
pub(crate) fn read(path: &Path) -> Result<Vec<BatchInstance>, BatchError> {
    let text = match mswea_files::read_text(path, LIMIT) {
        Ok(text) => text,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(BatchError::io("read", path)(error)),
    };
    let mut instances: Vec<BatchInstance> = Vec::new();
    for (index, line) in text.lines().enumerate() {
        let instance = serde_json::from_str(line).map_err(|error| {
            let reason = format!("it is no instance of a batch: {error}");
            changed(path, index, &reason)
        })?;
        instances.push(instance);
    }
    // An id in a file from elsewhere could name a path outside of the directory, and two runs in
    // one folder would overwrite each other's files.
    let mut ids = HashSet::with_capacity(instances.len());
    for (index, instance) in instances.iter().enumerate() {
        check_id(&instance.id).map_err(|reason| changed(path, index, &reason))?;
        if !ids.insert(instance.id.as_str()) {
            let reason = format!("the id `{}` is there twice", instance.id);
            return Err(changed(path, index, &reason));
        }
    }
    Ok(instances)
}

fn changed(path: &Path, index: usize, reason: &str) -> BatchError {
    BatchError::Refused(format!(
        "`{}`, line {}: {reason}; the file was changed since it was written",
        path.display(),
        index + 1
    ))
}

/// Writes a manifest.
pub(crate) fn write(path: &Path, instances: &[BatchInstance]) -> Result<(), BatchError> {
    let mut text = String::new();
    for instance in instances {
        let line = serde_json::to_string(instance)
            .map_err(|error| BatchError::io("write", path)(error.into()))?;
        let _ = writeln!(text, "{line}");
    }
    whole_file::replace(path, text.as_bytes()).map_err(BatchError::io("write", path))
}

/// The known instances, followed by the new ones. An instance that is already known must be
/// unchanged.
pub(crate) fn joined(
    known: Vec<BatchInstance>,
    given: &[BatchInstance],
) -> Result<Vec<BatchInstance>, BatchError> {
    let mut all = known;
    let places: HashMap<String, usize> = all
        .iter()
        .enumerate()
        .map(|(place, instance)| (instance.id.clone(), place))
        .collect();
    for instance in given {
        match places.get(&instance.id) {
            None => all.push(instance.clone()),
            Some(place) if all[*place] == *instance => {}
            Some(place) => {
                return Err(BatchError::Refused(format!(
                    "the instance `{}` is another one than in the batch: its {} differs; use another directory, or give the instances as they were",
                    instance.id,
                    difference(&all[*place], instance)
                )));
            }
        }
    }
    Ok(all)
}

fn difference(one: &BatchInstance, other: &BatchInstance) -> &'static str {
    [
        ("task", one.task != other.task),
        ("image", one.image != other.image),
        ("repository", one.repo != other.repo),
        ("commit", one.base_commit != other.base_commit),
    ]
    .into_iter()
    .find_map(|(name, differs)| differs.then_some(name))
    .unwrap_or("start-up command")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn instance(id: &str, task: &str) -> BatchInstance {
        BatchInstance {
            id: id.to_owned(),
            task: task.to_owned(),
            ..BatchInstance::default()
        }
    }

    #[test]
    fn ids() {
        for good in ["a", "django__django-11099", "a.b", "ä b", "1"] {
            assert_eq!(check_id(good), Ok(()), "{good}");
        }
        for (bad, reason) in [
            ("", "is empty"),
            ("..", "no name of a folder"),
            ("a/b", "slash"),
            ("../x", "slash"),
            (".hidden", "begins with a dot"),
            ("a\nb", "control character"),
            ("preds.json", "file of the batch"),
            (&"x".repeat(201), "longer than 200"),
        ] {
            let error = check_id(bad).unwrap_err();
            assert!(error.contains(reason), "{bad}: {error}");
        }
    }

    #[test]
    fn it_is_read_as_it_was_written_and_grows() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("manifest.jsonl");
        assert_eq!(read(&path).unwrap(), []);
        let first = vec![instance("a", "line\nline \u{2028}"), instance("b", "")];
        write(&path, &first).unwrap();
        assert_eq!(read(&path).unwrap(), first);
        let given = [instance("b", ""), instance("c", "x")];
        let all = joined(first.clone(), &given).unwrap();
        let ids: Vec<&str> = all.iter().map(|it| it.id.as_str()).collect();
        assert_eq!(ids, ["a", "b", "c"]);
        let error = joined(first, &[instance("b", "other")]).unwrap_err();
        assert!(error.to_string().contains("its task differs"), "{error}");
        for (second, reason) in [
            ("{\"id\"", "it is no instance"),
            ("{\"id\":\"../../b\",\"task\":\"\"}", "has a slash in it"),
            ("{\"id\":\"a\",\"task\":\"\"}", "the id `a` is there twice"),
        ] {
            let text = format!("{{\"id\":\"a\",\"task\":\"\"}}\n{second}");
            std::fs::write(&path, text).unwrap();
            let error = read(&path).unwrap_err().to_string();
            assert!(
                error.contains("line 2") && error.contains(reason),
                "{error}"
            );
        }
    }
}

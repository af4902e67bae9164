//! What all runs of a batch have in common, recorded when the batch began: the config, and the
//! digests of its plugins. With another config in the same directory, the results could not be
//! compared.

use std::path::Path;
use std::sync::Arc;

use mswea_core::{Context, Event, Nobody, Stop};
use mswea_record::journal::MemoryJournal;
use mswea_session::{Job, Runtime, Unwatched};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::error::BatchError;
use crate::job::BatchJob;
use crate::whole_file;

/// The largest file that is read.
const LIMIT: u64 = 64 << 20;
const FORMAT: &str = "mswea-batch-1";
/// The keys that each instance sets, or that do not change the run of an instance.
const OWN_KEYS: &[(&str, &str)] = &[
    ("agent", "output_path"),
    ("run", "task"),
    ("run", "env_startup_command"),
    ("environment", "image"),
    ("workspace", "repo"),
    ("workspace", "base_commit"),
];
/// How many characters of a value a message shows.
const SHOWN: usize = 60;

/// The file `batch.json`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct FrozenBatch {
    format: String,
    /// The version of the host that began the batch.
    host_version: String,
    /// The config without secrets, and without the values that differ between instances.
    config: Value,
    /// Name, kind and digest of each plugin.
    plugins: Vec<Value>,
}

/// Prepares a run of the batch up to the point where something would be started or sent, so that a
/// wrong config is found before the first instance begins.
///
/// # Errors
/// [`BatchError::Setup`] if no run can be made from the config.
pub async fn preflight(runtime: &Runtime, job: &BatchJob) -> Result<FrozenBatch, BatchError> {
    let shape = job.config.any();
    let mut config = shape.config.clone();
    config.run.env_startup_command = None;
    config.workspace.startup_commands.clear();
    let journal = Arc::new(MemoryJournal::new());
    let context = Context::new(Arc::new(Unwatched), journal.clone(), Stop::never());
    let run_id = mswea_session::new_run_id();
    let probe = Job {
        guard_program: None,
        ..job.run("", &config, &shape.layers, &run_id)
    };
    drop(
        runtime
            .prepare(probe, context, Arc::new(Nobody), &[])
            .await?,
    );
    let first = journal.records().into_iter().next().map(|it| it.event);
    let plugins = match first {
        Some(Event::RunStarted { plugins, .. }) => plugins,
        _ => Value::Null,
    };
    Ok(FrozenBatch {
        format: FORMAT.to_owned(),
        host_version: env!("CARGO_PKG_VERSION").to_owned(),
        config: common(shape.config.redacted()),
        plugins: identities(&plugins),
    })
}

fn common(mut config: Value) -> Value {
    for (section, key) in OWN_KEYS {
        if let Some(section) = config.get_mut(section).and_then(Value::as_object_mut) {
            section.remove(*key);
        }
    }
    config
}

fn identities(plugins: &Value) -> Vec<Value> {
    let plugins = plugins.as_array().into_iter().flatten();
    plugins
        .map(|it| json!({"name": it["name"], "kind": it["kind"], "sha256": it["sha256"]}))
        .collect()
}

impl FrozenBatch {
    /// Reads the file of a batch's directory. A missing file is an error.
    pub(crate) fn of_folder(folder: &Path) -> Result<Self, BatchError> {
        Self::read(&folder.join("batch.json"))?.ok_or_else(|| {
            BatchError::Refused(format!(
                "`{}` is not the directory of a batch: there is no `batch.json` in it",
                folder.display()
            ))
        })
    }

    /// Reads the file; none if it does not exist.
    pub(crate) fn read(path: &Path) -> Result<Option<Self>, BatchError> {
        let text = match mswea_files::read(path, LIMIT) {
            Ok(text) => text,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(BatchError::io("read", path)(error)),
        };
        let wrong = |reason: String| BatchError::Refused(format!("`{}` {reason}", path.display()));
        let value: Value = serde_json::from_slice(&text)
            .map_err(|error| wrong(format!("is not the file of a batch: {error}")))?;
        match value["format"].as_str() {
            Some(FORMAT) => {}
            Some(format) => {
                return Err(wrong(format!(
                    "has the format `{}`, and mswea-host {} knows `{FORMAT}`: use the version that wrote it, or a later one",
                    mswea_text::harmless(format),
                    env!("CARGO_PKG_VERSION")
                )));
            }
            None => return Err(wrong("is not the file of a batch".to_owned())),
        }
        serde_json::from_value(value)
            .map(Some)
            .map_err(|error| wrong(format!("is not the file of a batch: {error}")))
    }

    /// The model of the batch.
    pub(crate) fn model(&self) -> &str {
        self.config["model"]["model_name"]
            .as_str()
            .unwrap_or_default()
    }

    pub(crate) fn write(&self, path: &Path) -> Result<(), BatchError> {
        let io = BatchError::io("write", path);
        match serde_json::to_vec_pretty(self) {
            Ok(mut text) => {
                text.push(b'\n');
                whole_file::replace(path, &text).map_err(io)
            }
            Err(error) => Err(io(error.into())),
        }
    }

    /// The differences to `now`, one line each.
    pub(crate) fn differences(&self, now: &Self) -> Vec<String> {
        let mut lines = Vec::new();
        compare("", &self.config, &now.config, &mut lines);
        let name = |it: &Value| (it["kind"].clone(), it["name"].clone());
        for plugin in &now.plugins {
            let before = self.plugins.iter().find(|it| name(it) == name(plugin));
            match before {
                None => lines.push(format!(
                    "the {} {} is new",
                    text(&plugin["kind"]),
                    text(&plugin["name"])
                )),
                Some(before) if before["sha256"] != plugin["sha256"] => lines.push(format!(
                    "the {} {} has the digest {}, and had {}",
                    text(&plugin["kind"]),
                    text(&plugin["name"]),
                    text(&plugin["sha256"]),
                    text(&before["sha256"])
                )),
                Some(_) => {}
            }
        }
        for plugin in &self.plugins {
            if !now.plugins.iter().any(|it| name(it) == name(plugin)) {
                lines.push(format!(
                    "the {} {} is not there",
                    text(&plugin["kind"]),
                    text(&plugin["name"])
                ));
            }
        }
        lines
    }
}

fn text(value: &Value) -> String {
    value
        .as_str()
        .map_or_else(|| value.to_string(), str::to_owned)
}

fn compare(path: &str, before: &Value, now: &Value, lines: &mut Vec<String>) {
    if before == now {
        return;
    }
    if let (Value::Object(before), Value::Object(now)) = (before, now) {
        let inside = |key: &str| match path {
            "" => key.to_owned(),
            path => format!("{path}.{key}"),
        };
        for (key, value) in before {
            compare(
                &inside(key),
                value,
                now.get(key).unwrap_or(&Value::Null),
                lines,
            );
        }
        for (key, value) in now {
            if !before.contains_key(key) {
                compare(&inside(key), &Value::Null, value, lines);
            }
        }
        return;
    }
    lines.push(format!(
        "{path} = {}, and was {}",
        shown(now),
        shown(before)
    ));
}

fn shown(value: &Value) -> String {
    let text = mswea_text::harmless(&value.to_string()).to_string();
    match text.char_indices().nth(SHOWN) {
        Some((at, _)) => format!("{}...", &text[..at]),
        None => text,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn differences_are_named_by_key() {
        let frozen = |limit: i64, digest: &str| FrozenBatch {
            format: FORMAT.to_owned(),
            host_version: "1".to_owned(),
            config: common(json!({
                "agent": {"step_limit": limit, "output_path": digest},
                "environment": {"image": digest},
            })),
            plugins: identities(
                &json!([{"name": "p", "kind": "parser", "sha256": digest, "x": 1}]),
            ),
        };
        let one = frozen(3, "aa");
        assert_eq!(one.differences(&one.clone()), Vec::<String>::new());
        assert_eq!(
            one.differences(&frozen(4, "bb")),
            [
                "agent.step_limit = 4, and was 3",
                "the parser p has the digest bb, and had aa"
            ]
        );
    }

    #[test]
    fn it_is_read_as_it_was_written() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("batch.json");
        assert_eq!(FrozenBatch::read(&path).unwrap(), None);
        let frozen = FrozenBatch {
            format: FORMAT.to_owned(),
            host_version: "1".to_owned(),
            config: json!({"a": 1.5}),
            plugins: vec![],
        };
        frozen.write(&path).unwrap();
        assert_eq!(FrozenBatch::read(&path).unwrap(), Some(frozen));
        for (text, reason) in [
            ("{}", "is not the file of a batch"),
            ("{\"format\": \"mswea-batch-9\"}", "mswea-batch-9"),
            ("x", "is not the file of a batch"),
        ] {
            std::fs::write(&path, text).unwrap();
            let error = FrozenBatch::read(&path).unwrap_err().to_string();
            assert!(error.contains(reason), "{error}");
        }
    }
}

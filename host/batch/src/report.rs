//! The figures of a batch, computed from its results alone.

use std::collections::{BTreeMap, HashSet};
use std::path::Path;

use serde::Serialize;
use serde_json::Value;

use crate::error::BatchError;
use crate::folder::FolderState;
use crate::lost::LostAttempts;
use crate::outcome::BatchResult;

/// The largest report of an evaluation that is read.
const LIMIT: u64 = 1 << 30;

/// The figures of a batch.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct BatchReport {
    /// Instances of the manifest.
    pub instances: usize,
    /// Instances with a result.
    pub done: usize,
    /// Instances that were begun and have no result.
    pub begun: usize,
    /// Results of runs that ended with an error.
    pub failed: usize,
    /// Results with a submission that is not empty.
    pub with_submission: usize,
    /// Results by exit status, the most frequent first.
    pub by_status: Vec<StatusLine>,
    /// The sum of all results.
    pub total: StatusLine,
    /// Attempts that ended without a result, if they were counted. They are not in the sums.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lost: Option<LostAttempts>,
    /// The process that works on the batch, if there is one.
    pub worker: Option<String>,
    /// Instances that an evaluation has resolved, if its report was given.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub resolved: Option<usize>,
}

/// The results of one exit status.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct StatusLine {
    /// The exit status; empty for the sum of all.
    pub exit_status: String,
    /// The number of results.
    pub count: usize,
    /// The sum of the known costs, in dollars.
    pub cost: f64,
    /// How many results have no known cost.
    pub cost_unknown: usize,
    /// Queries of the model.
    pub steps: u64,
    /// Input tokens.
    pub input_tokens: u64,
    /// Output tokens.
    pub output_tokens: u64,
    /// The time of the runs in seconds.
    pub seconds: f64,
}

impl StatusLine {
    fn add(&mut self, result: &BatchResult) {
        self.count += 1;
        self.cost += result.cost.unwrap_or_default();
        self.cost_unknown += usize::from(result.cost.is_none());
        self.steps += u64::from(result.steps);
        self.input_tokens = self.input_tokens.saturating_add(result.usage.input_tokens);
        self.output_tokens = self
            .output_tokens
            .saturating_add(result.usage.output_tokens);
        self.seconds += result.seconds;
    }
}

impl BatchReport {
    /// The figures of a batch.
    pub fn of(state: &FolderState) -> Self {
        let mut by_status = BTreeMap::<&str, StatusLine>::new();
        let mut total = StatusLine::default();
        for result in &state.results {
            let line = by_status.entry(&result.exit_status).or_default();
            line.exit_status.clone_from(&result.exit_status);
            line.add(result);
            total.add(result);
        }
        let mut by_status: Vec<StatusLine> = by_status.into_values().collect();
        by_status.sort_by_key(|line| std::cmp::Reverse(line.count));
        let results = state.results.iter();
        Self {
            instances: state.instances.len(),
            done: state.results.len(),
            begun: state.begun.len(),
            failed: results.clone().filter(|it| it.has_failed()).count(),
            with_submission: results
                .filter(|it| !it.submission.trim().is_empty())
                .count(),
            by_status,
            total,
            lost: None,
            worker: state.worker.clone(),
            resolved: None,
        }
    }
}

/// The ids in `resolved_ids` (or `resolved`) of the report of an evaluation, as SWE-bench's harness and
/// `sb-cli` write it.
///
/// # Errors
/// [`BatchError`] if it can't be read, or has no such list.
pub fn resolved_ids(path: &Path) -> Result<HashSet<String>, BatchError> {
    let text = mswea_files::read(path, LIMIT).map_err(BatchError::io("read", path))?;
    let wrong = |reason: &str| {
        BatchError::Refused(format!(
            "`{}` is not the report of an evaluation: {reason}",
            path.display()
        ))
    };
    let value: Value = mswea_text::read_json(&text).map_err(|it| wrong(&it.to_string()))?;
    let lists = ["resolved_ids", "resolved"].iter();
    let list = lists.filter_map(|key| value[*key].as_array()).next();
    let list = list.ok_or_else(|| wrong("there is no list `resolved_ids` in it"))?;
    Ok(list
        .iter()
        .filter_map(|id| id.as_str().map(str::to_owned))
        .collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reports_of_evaluations() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("report.json");
        for (text, expected) in [
            (
                r#"{"resolved_ids": ["a", "b"], "resolved_instances": 2}"#,
                Ok(2),
            ),
            (r#"{"resolved": ["a"]}"#, Ok(1)),
            (r#"{"resolved": 3}"#, Err("no list")),
            ("x", Err("not the report")),
        ] {
            std::fs::write(&path, text).unwrap();
            match (resolved_ids(&path), expected) {
                (Ok(ids), Ok(count)) => assert_eq!(ids.len(), count, "{text}"),
                (Err(error), Err(part)) => assert!(error.to_string().contains(part), "{error}"),
                (found, _) => panic!("{text}: {found:?}"),
            }
        }
    }
}

//! The use of attempts that ended without a result: those that failed and were made again, and those of workers
//! that were killed. Their journals are kept.

use std::collections::HashMap;
use std::fs::{self, File};
use std::path::{Path, PathBuf};

use mswea_record::journal::glance;
use mswea_session::Earlier;
use serde::Serialize;

use crate::claims::{ClaimsOf, attempt_folder};
use crate::folder::{FolderState, journal_name};

/// What was used and is in no result.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct LostAttempts {
    /// Their number.
    pub attempts: usize,
    /// Queries of the model.
    pub queries: u64,
    /// The sum of the known costs, in dollars.
    pub cost: f64,
    /// How many have no known cost.
    pub cost_unknown: usize,
}

impl LostAttempts {
    /// Those of a batch. Their journals are read.
    pub fn of(dir: &Path, state: &FolderState) -> Self {
        let results = state.results.iter();
        let attempts: HashMap<&str, u32> = results
            .map(|it| (it.instance_id.as_str(), it.attempts))
            .collect();
        let mut lost = Self::default();
        for instance in &state.instances {
            let id = instance.id.as_str();
            for journal in journals(&dir.join(id), id, attempts.get(id).copied()) {
                lost.add(&journal);
            }
        }
        lost
    }

    fn add(&mut self, journal: &Path) {
        let end = File::open(journal).and_then(|file| glance(&file));
        let used = match end.ok().and_then(|it| it.end) {
            Some(end) => Some((end.cost, end.queries)),
            // The run was cut off.
            None => Earlier::to_read(journal).ok().map(|it| {
                let account = &it.state().account;
                (account.known_cost(), account.queries)
            }),
        };
        if let Some((cost, queries)) = used.filter(|(_, queries)| *queries > 0) {
            self.attempts += 1;
            self.queries += u64::from(queries);
            self.cost += cost.unwrap_or_default();
            self.cost_unknown += usize::from(cost.is_none());
        }
    }
}

/// The journals in the folder of an instance that are neither that of its result nor that of an attempt that goes
/// on. `result`: the attempt that has made the result.
fn journals(own: &Path, id: &str, result: Option<u32>) -> Vec<PathBuf> {
    let claims = ClaimsOf::read(own).unwrap_or_default();
    let current = match result {
        Some(number) => Some(number),
        None if claims.is_taken() => Some(claims.last),
        None => None,
    };
    let mut found = earlier(own, id);
    for number in 1..=claims.last {
        let attempt = attempt_folder(own, number);
        found.extend(earlier(&attempt, id));
        if current != Some(number) {
            found.push(attempt.join(journal_name(id)));
        }
    }
    found.retain(|path| path.is_file());
    found
}

/// The journals of earlier runs in a folder, which have numbers.
fn earlier(folder: &Path, id: &str) -> Vec<PathBuf> {
    let prefix = format!("{}.", journal_name(id));
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let is_earlier = |path: &PathBuf| {
        let name = path.file_name().and_then(|it| it.to_str());
        let number = name.and_then(|it| it.strip_prefix(&prefix));
        number.is_some_and(|it| !it.is_empty() && it.bytes().all(|byte| byte.is_ascii_digit()))
    };
    entries
        .map(|entry| entry.path())
        .filter(is_earlier)
        .collect()
}

//! Trajectories in the place of a journal: mini-swe-agent's, and those of this host that have lost theirs.

use std::path::Path;

use serde_json::Value;

use mswea_core::Event;
use mswea_run::journal::Log;
use mswea_run::journal::trajectory::{
    is_trajectory, owner, records_from_trajectory, replace_lone_surrogates,
};

use super::{Earlier, EarlierError};
use crate::files::trajectory_beside;

/// A trajectory; none if the file is something else.
pub(super) fn read(path: &Path) -> Option<Value> {
    // A journal's name: the file is not parsed here, because it may be large.
    if trajectory_beside(path).is_some() {
        return None;
    }
    let mut bytes = mswea_files::read(path, mswea_files::RECORDS).ok()?;
    let parsed = serde_json::from_slice(&bytes).or_else(|error| {
        // Python writes lone surrogates unchanged.
        match replace_lone_surrogates(&mut bytes) {
            0 => Err(error),
            _ => serde_json::from_slice(&bytes),
        }
    });
    parsed.ok().filter(is_trajectory)
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

//! The trajectory of a run, from the state that its events amount to. So the trajectory that a run writes at its
//! end and the one that is made after a `kill -9` are the same.

use serde_json::Value;

use crate::state::State;
use mswea_record::trajectory::{TrajectoryContent, of_content};

impl State {
    /// Makes the trajectory of the run. The state of a live run is the same as that of its journal.
    pub fn into_trajectory(self) -> Value {
        of_content(TrajectoryContent {
            run_id: self.run_id,
            host_version: self.host_version,
            task: self.task,
            config: self.config,
            plugins: self.plugins,
            started: self.started,
            last: self.last,
            account: self.account,
            retries: self.retries,
            faults: self.faults,
            salvage: self.salvage,
            ended: self.ended,
            messages: self.messages,
        })
    }
}

#[cfg(test)]
mod events_tests;
#[cfg(test)]
mod tests;

//! The config and the plugins that a recorded run goes on with.

use serde_json::Value;

use mswea_core::Event;
use mswea_run::journal::Record;

/// What the last process of the run was started with whose environment became ready. A `resume` with a
/// folder that does not exist leaves nothing behind; nor does one that was broken off before that.
#[derive(Debug, Default)]
pub(super) struct Kept {
    pub(super) config: Value,
    pub(super) plugins: Value,
}

impl Kept {
    pub(super) fn of(records: &[Record]) -> Self {
        let mut last = 0;
        let mut begun = 0;
        for (position, record) in records.iter().enumerate() {
            match record.event {
                Event::RunStarted { .. } | Event::RunResumed { .. } => begun = position,
                Event::EnvironmentReady { .. } => last = begun,
                _ => {}
            }
        }
        match records.get(last).map(|record| &record.event) {
            Some(
                Event::RunStarted {
                    config, plugins, ..
                }
                | Event::RunResumed {
                    config, plugins, ..
                },
            ) => Self {
                config: config.clone(),
                plugins: plugins.clone(),
            },
            _ => Self::default(),
        }
    }
}

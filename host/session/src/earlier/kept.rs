//! The config and the plugins with which a recorded run continues.

use serde_json::Value;

use mswea_core::Event;
use mswea_record::journal::Record;

/// The config and the plugins of the run's last process whose environment became ready. So a
/// `resume` that failed before that, for example because its folder does not exist, has no effect.
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

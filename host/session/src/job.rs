//! The inputs of a run.

use std::path::PathBuf;

use mswea_config::{Config, Layers};
use mswea_core::Clock;

use super::earlier::Earlier;
use mswea_record::RunFiles;

/// One run to be made.
pub struct Job<'a> {
    /// The task.
    pub task: &'a str,
    /// The resolved config.
    pub config: &'a Config,
    /// The layers from which its values came, for messages.
    pub layers: Option<&'a Layers>,
    /// Plugins that replace the config's, each in the roles that it has.
    pub plugins: &'a [String],
    /// Plugins that run beside the real ones of their kinds.
    pub shadows: &'a [String],
    /// Further hosts that the adapter may reach.
    pub allow_hosts: &'a [String],
    /// Whether every call gets a fresh plugin instance.
    pub fresh_instances: bool,
    /// Unique among the runs of this machine; see [`crate::new_run_id`].
    pub run_id: &'a str,
    /// Whether to wait for the disk at the end of each step.
    pub fsync: bool,
    /// The program that cleans up after a killed host; see [`mswea_executor::guard`].
    pub guard_program: Option<PathBuf>,
    /// Gives the times of the run's events.
    pub clock: Clock,
    /// The journal of the run to continue, to fork or to replay; `None` for a new run. If the run is
    /// continued, `task` and `run_id` are those of that run, and its files are used again.
    pub from: Option<Earlier>,
}

impl<'a> Job<'a> {
    /// A run of `task` with only the plugins of its config, and without a guardian that cleans up
    /// after a `kill -9` of this process.
    pub fn new(task: &'a str, config: &'a Config, run_id: &'a str) -> Self {
        Self {
            task,
            config,
            layers: None,
            plugins: &[],
            shadows: &[],
            allow_hosts: &[],
            fresh_instances: false,
            run_id,
            fsync: false,
            guard_program: None,
            clock: Clock::default(),
            from: None,
        }
    }
}

impl Job<'_> {
    /// The paths of the run's files.
    pub fn files(&self) -> RunFiles {
        match &self.from {
            Some(earlier) if earlier.forked().is_none() => earlier.files(),
            _ => RunFiles::of(self.config.agent.output_path.as_deref(), self.run_id),
        }
    }

    /// The place where a config value was set.
    pub(crate) fn origin(&self, key: &str) -> Option<String> {
        Some(self.layers?.origin_of(key)?.to_string())
    }

    /// Whether the user has set a config value.
    pub(crate) fn is_set(&self, key: &str) -> bool {
        self.layers.is_some_and(|layers| layers.has(key))
    }
}

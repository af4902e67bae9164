//! What the runs of a batch have in common, and how the batch is worked on.

use std::path::PathBuf;
use std::time::Duration;

use mswea_config::{Config, Layers};
use mswea_session::Job;

use crate::floor::MachineFloor;
use crate::settings::BatchConfig;

/// What the runs of a batch have in common.
#[derive(Debug)]
pub struct BatchJob {
    /// The config.
    pub config: BatchConfig,
    /// As [`Job::plugins`].
    pub plugins: Vec<String>,
    /// As [`Job::allow_hosts`].
    pub allow_hosts: Vec<String>,
    /// As [`Job::fresh_instances`].
    pub fresh_instances: bool,
    /// As [`Job::fsync`].
    pub fsync: bool,
    /// As [`Job::guard_program`].
    pub guard_program: Option<PathBuf>,
    /// When it stops, and how often it tries.
    pub limits: BatchLimits,
}

impl BatchJob {
    pub(crate) fn run<'a>(
        &'a self,
        task: &'a str,
        config: &'a Config,
        layers: &'a Layers,
        run_id: &'a str,
    ) -> Job<'a> {
        Job {
            layers: Some(layers),
            plugins: &self.plugins,
            allow_hosts: &self.allow_hosts,
            fresh_instances: self.fresh_instances,
            fsync: self.fsync,
            guard_program: self.guard_program.clone(),
            ..Job::new(task, config, run_id)
        }
    }
}

/// How a batch is worked on.
#[derive(Clone, Debug, PartialEq)]
pub struct BatchLimits {
    /// How many instances run at a time.
    pub workers: usize,
    /// How often an instance is tried again after a fault of the infrastructure.
    pub retries: u32,
    /// The wait before that; it doubles each time.
    pub retry_wait: Duration,
    /// The time of one instance.
    pub instance_time: Option<Duration>,
    /// After so many failures in a row no further instance begins; 0: never.
    pub failures_in_a_row: u32,
    /// Dollars of all instances of the batch; 0: no limit.
    pub cost: f64,
    /// Queries of all instances of the batch; 0: no limit.
    pub calls: u64,
    /// What has to be free on the machine before an instance begins.
    pub floor: MachineFloor,
}

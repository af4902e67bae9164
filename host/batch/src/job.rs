//! The common settings of the runs of a batch, and the limits of the work on it.

use std::fmt::Debug;
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use mswea_config::{Config, Layers};
use mswea_core::{Front, Stop};
use mswea_session::{Done, Job, Runtime};

use crate::floor::MachineFloor;
use crate::manifest::BatchInstance;
use crate::settings::BatchConfig;

/// The common settings of the runs of a batch.
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
    /// Limits and retries.
    pub limits: BatchLimits,
    /// Replaces the single run of each instance, if set.
    pub course: Option<Arc<dyn InstanceCourse>>,
    /// Completes the tasks, if set.
    pub completion: Option<Arc<dyn TaskCompletion>>,
}

/// Completes the task of an instance when its run begins, with data that is fetched for it.
pub trait TaskCompletion: Debug + Send + Sync {
    /// The task of the run; the task of the manifest if the run is stopped meanwhile.
    fn task<'a>(
        &'a self,
        instance: &'a BatchInstance,
        stop: &'a Stop,
    ) -> Pin<Box<dyn Future<Output = String> + Send + 'a>>;
}

/// The work on an instance, where that is not a single run.
pub trait InstanceCourse: Debug + Send + Sync {
    /// Works on an instance until it ends. Its files go into `folder`; the result names those that
    /// a single run would have there.
    fn run<'a>(
        &'a self,
        runtime: &'a Runtime,
        instance: &'a BatchInstance,
        folder: &'a Path,
        front: Arc<dyn Front>,
        stop: Stop,
    ) -> Pin<Box<dyn Future<Output = Done> + Send + 'a>>;
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
    /// The wait before the first retry; it doubles each time.
    pub retry_wait: Duration,
    /// The time limit of one instance.
    pub instance_time: Option<Duration>,
    /// After so many failures in a row no further instance begins; 0: no limit.
    pub failures_in_a_row: u32,
    /// The limit of dollars for all instances together; 0: no limit.
    pub cost: f64,
    /// The limit of queries for all instances together; 0: no limit.
    pub calls: u64,
    /// The minimum of memory and disk space that must be free before an instance begins.
    pub floor: MachineFloor,
}

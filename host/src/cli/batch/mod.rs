//! Many runs: the `batch` commands, and mini-swe-agent's `swebench` commands.

mod after;
mod dataset;
mod look;
mod mini_log;
mod run;
mod submit;
mod swebench;
mod watch;
mod worker;

pub use after::{compare, export, merge};
pub(in crate::cli) use dataset::split_rows;
pub use look::{preds, report, status};
pub use run::run;
pub(in crate::cli) use run::{BatchPlan, BatchSources, BatchStart, MoreFiles, work_on};
pub use submit::{cancel, submit};
pub use swebench::{single, swebench};
pub use watch::watch;
pub use worker::worker;

use std::thread::available_parallelism;

use anyhow::Context;

use crate::cli::output::Failure;

/// More threads do not help: agents mostly wait.
const MOST_THREADS: usize = 8;

/// The runtime of many runs: one thread's loops could not use more than one processor.
fn runtime_for_many() -> Result<tokio::runtime::Runtime, Failure> {
    let processors = available_parallelism().map_or(1, usize::from);
    let mut builder = match processors {
        1 => tokio::runtime::Builder::new_current_thread(),
        _ => tokio::runtime::Builder::new_multi_thread(),
    };
    let runtime = builder
        .worker_threads(processors.min(MOST_THREADS))
        .enable_all()
        .build();
    Ok(runtime.context("can't start the runtime")?)
}

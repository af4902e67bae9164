//! Many runs: the `batch` commands, and mini-swe-agent's `swebench` commands.

mod after;
mod dataset;
mod look;
mod mini_log;
mod more_files;
mod run;
mod submit;
mod swebench;
mod watch;
mod worker;

pub use after::{compare, export, merge};
pub(in crate::cli) use dataset::split_rows;
pub use look::{preds, report, status};
pub(in crate::cli) use more_files::{BatchStart, MoreFiles};
pub use run::run;
pub(in crate::cli) use run::{BatchPlan, BatchSources, failure as batch_failure, work_on};
pub use submit::{cancel, submit};
pub use swebench::{single, swebench};
pub use watch::watch;
pub use worker::worker;

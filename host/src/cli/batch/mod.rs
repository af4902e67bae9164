//! Many runs: `batch run`, `batch status`, `batch report` and `batch preds`, and mini-swe-agent's `swebench` commands.

mod look;
mod run;
mod swebench;

pub use look::{preds, report, status};
pub use run::run;
pub use swebench::{single, swebench};

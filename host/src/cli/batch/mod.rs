//! Many runs: the `batch` commands, and mini-swe-agent's `swebench` commands.

mod look;
mod run;
mod submit;
mod swebench;
mod worker;

pub use look::{preds, report, status};
pub use run::run;
pub use submit::{cancel, submit};
pub use swebench::{single, swebench};
pub use worker::worker;

//! Many runs: `batch run`, `batch status` and `batch report`, and mini-swe-agent's `swebench` commands.

mod look;
mod run;
mod swebench;

pub use look::{report, status};
pub use run::run;
pub use swebench::{single, swebench};

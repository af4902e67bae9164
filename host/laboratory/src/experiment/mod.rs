//! Experiments on plugins without an effect on runs: two plugins compared on recorded runs
//! (`plugin diff`), and a candidate that gets the inputs of a live run's plugin (`--shadow`).
//!
//! A plugin is only a maker of roles here ([`mswea_core::Maker`]).

mod answer;
mod comparison;
mod diff;
mod excerpt;
mod groups;
mod html;
mod json;
mod latency;
mod lines;
mod recorded;
pub mod shadow;
mod shadowed;
#[cfg(test)]
mod testing;
mod text;
mod watched;

pub use answer::Degree;
pub use comparison::{Case, Comparison, Counts, Side};
pub use diff::{DiffError, DiffOptions, diff};
pub use latency::Latency;
pub use recorded::{
    RecordedError, RecordedOutcome, RecordedRuns, RecordedVerdict, Run, RunFileFormat, Step,
};
pub use shadow::{RunRoles, Shadow, ShadowError, ShadowSettings, Steps};
pub use text::TextOptions;

/// The number of threads: one for each core.
fn threads() -> usize {
    std::thread::available_parallelism().map_or(1, Into::into)
}

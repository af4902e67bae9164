//! Experiments on plugins that can't hurt: two of them compared on recorded runs
//! (`plugin diff`), and a candidate that looks on while a run goes by another (`--shadow`).
//!
//! It knows plugins only as what makes roles ([`crate::roles::Maker`]).

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
pub use diff::{DiffError, Options, diff};
pub use latency::Latency;
pub use recorded::{Form, Recorded, RecordedError, RecordedOutcome, RecordedVerdict, Run, Step};
pub use shadow::{Cast, Shadow, ShadowError, ShadowSettings, Steps};
pub use text::TextOptions;

/// How many threads to use: one for each core.
fn threads() -> usize {
    std::thread::available_parallelism().map_or(1, Into::into)
}

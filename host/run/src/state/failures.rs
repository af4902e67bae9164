//! Failures that the state counts: replies that the provider refused, and commands that exceeded
//! their time.

use mswea_core::{ErrorClass, ModelFailure, Output};

/// Whether the provider's content policy has refused to answer.
pub(crate) fn is_filtered(class: &ModelFailure) -> bool {
    *class == ModelFailure::Reported(ErrorClass::ContentFiltered)
}

/// The number of commands in a row that have exceeded their time, after this output; `before`: the
/// number before it.
pub(super) fn timeouts(before: u32, output: &Output) -> u32 {
    let timed_out = output
        .extra
        .get("exception_type")
        .is_some_and(|it| it == "TimeoutExpired");
    match timed_out {
        true => before.saturating_add(1),
        false => 0,
    }
}

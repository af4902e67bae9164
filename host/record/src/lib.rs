//! The record of a run: its journal as a file (`journal`), and the trajectory in mini-swe-agent's format, which
//! is written and read (`trajectory`). Both are the same stream of events; what a run amounts to is a fold over
//! it, in `mswea-run`.
//!
//! The events themselves are in `mswea-core`, because the roles below the loop record some of them.

pub mod journal;
pub mod trajectory;

mod account;

pub use account::{Account, Ending, plausible_cost};

//! The record of a run: its journal as a file (`journal`), the trajectory in mini-swe-agent's format, which
//! is written and read (`trajectory`), the paths of these files, and the runs of this user (`index`).
//! Journal and trajectory are the same stream of events; what a run amounts to is a fold over it, in
//! `mswea-run`.
//!
//! The events themselves are in `mswea-core`, because the roles below the loop record some of them.

pub mod index;
pub mod journal;
pub mod trajectory;

mod account;
mod files;

pub use account::{Account, Ending, plausible_cost};
pub use files::{
    RunFiles, is_device, journal_beside, put_aside, runs_folder, trajectory_beside, trajectory_of,
};

//! Runs actions in a container of docker, podman or a compatible program.
//!
//! `start` makes a container, `executor` runs actions in it, in one of two ways:
//!
//! 1. by a helper that stays inside and starts each action as a new process (`fast`), which costs
//!    little more than a process on this machine;
//! 2. by one exec of the engine for each action, if the image can't run the helper.
//!
//! Both keep the contract of the local executor. `running` is a container that is ready for
//! actions, and kills what an action started there; `trouble` finds out what happened to a container
//! that does not answer, and `leftovers` removes the containers of killed hosts, by their records
//! (`record`).

mod action;
mod api;
mod attend;
mod body;
mod clear;
mod client;
mod connect;
mod create;
mod daemon;
mod engine;
mod errors;
mod executor;
mod fast;
mod leftovers;
mod mounts;
mod pull;
mod pulls;
mod record;
mod registry;
mod run_args;
mod running;
mod settings;
mod start;
mod stream;
#[cfg(test)]
mod tests;
mod transfer;
mod trouble;
mod turn;

pub use connect::{Transport, is_here};
pub use executor::ContainerExecutor;
pub(crate) use fast::HELPER;
pub use leftovers::remove_leftovers;
pub use pulls::limit_pulls;
pub use record::{engines_of_run, is_awaited};
pub use settings::ContainerSettings;

/// Checks for `doctor` whether the engine can be used: returns its name and version, and how it is
/// reached.
///
/// # Errors
/// [`ExecutorError`](mswea_core::ExecutorError) if neither the engine's daemon nor its program can
/// be used, or does not answer.
pub async fn probe(
    executable: &str,
    transport: Transport,
) -> Result<String, mswea_core::ExecutorError> {
    let engine = connect::connect(executable, transport).await?;
    Ok(engine.describe().await?)
}

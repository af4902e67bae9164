//! Runs actions in a container: docker, podman, and what is called like them.
//!
//! `start` makes a container, `executor` runs actions in it, one of three ways:
//!
//! 1. by a helper that stays inside and starts each action as a fresh process (`fast`): hardly
//!    dearer than a process on this machine;
//! 2. by one exec of the engine for each action, in which the helper runs that one;
//! 3. by a plain exec, where the image does not take the helper.
//!
//! All three keep the contract of the local executor. `kill` ends what an action left running,
//! `trouble` finds out what happened to a container that does not answer, `leftovers` removes
//! what killed hosts left behind, by what they have written down of it (`record`).

mod action;
mod api;
mod attend;
mod body;
mod clear;
mod client;
mod connect;
mod daemon;
mod engine;
mod errors;
mod executor;
mod fast;
mod helper;
mod kill;
mod leftovers;
mod process;
mod pull;
mod pulls;
mod record;
mod registry;
mod run_args;
mod settings;
mod start;
mod stream;
#[cfg(test)]
mod tests;
mod transfer;
mod trouble;

pub use connect::{Transport, is_here};
pub use executor::ContainerExecutor;
pub use leftovers::{Leftover, remove_leftovers};
pub use record::is_awaited;
pub use settings::ContainerSettings;

/// Whether the engine can be used, for `doctor`: its name and version, and how it is reached;
/// or why not, and what to do.
///
/// # Errors
/// When it can't be used.
pub async fn probe(
    executable: &str,
    transport: Transport,
) -> Result<String, crate::roles::ExecutorError> {
    let asked = async {
        connect::connect(executable, transport)
            .await?
            .describe()
            .await
    };
    asked.await.map_err(|error| crate::roles::ExecutorError {
        message: error.message,
    })
}

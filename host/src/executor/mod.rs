//! Where actions run: one module per kind of environment, behind [`Executor`].
//!
//! `local` runs them on this machine. What every kind needs is beside it: `capture` (bounded
//! output), `environment` (which variables pass), `spawn`, `processes`, `orphans` and `guard`
//! (so that nothing is left behind), and `secrecy` (the host's own environment).

mod capture;
mod container;
mod environment;
mod failure;
mod files;
pub mod guard;
mod local;
mod orphans;
mod owner;
mod processes;
pub mod secrecy;
mod spawn;
#[cfg(test)]
mod tests;

use crate::roles::{Executor, ExecutorError};

pub use environment::DEFAULT_ENV_ALLOW;
pub use local::{LocalExecutor, LocalSettings};
pub use owner::{Life, Owner};
pub use orphans::adopt as adopt_orphans;
pub use processes::{ACTION_VARIABLE, RUN_VARIABLE};

/// The kinds of environment that this version has, by their names in the config.
pub const CLASSES: &[&str] = &["local"];

/// What an environment is made from.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Settings {
    /// This machine.
    Local(LocalSettings),
}

/// Runs actions on this machine.
pub fn local(settings: LocalSettings) -> Box<dyn Executor> {
    Box::new(LocalExecutor::new(settings))
}

/// The executor that `settings` describe.
pub fn create(settings: Settings) -> Box<dyn Executor> {
    match settings {
        Settings::Local(settings) => local(settings),
    }
}

/// Checks the name of a class before its settings are read.
///
/// # Errors
/// When this version has no such class.
pub fn check_class(class: &str) -> Result<(), ExecutorError> {
    if CLASSES.contains(&class) {
        return Ok(());
    }
    let known = CLASSES.join("`, `");
    Err(ExecutorError {
        message: format!(
            "the environment class `{class}` is not in this version, which has `{known}`: set \
             `environment.environment_class`, or pass `--environment-class {known}`"
        ),
    })
}

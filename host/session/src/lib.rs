//! Makes a run and its record from a resolved config: loads and configures plugins, makes the
//! provider layer and the executor, and passes all parts to the loop.
//!
//! [`Runtime`] has the parts that all runs of a process share; [`run()`] is one run, from its
//! [`Job`] to its end.

mod digests;
mod earlier;
mod entries;
mod environment;
mod error;
mod job;
mod keys;
mod leftovers;
mod origins;
pub mod outside;
pub mod pins;
mod plugins;
mod prepare;
mod questions;
mod record;
mod record_error;
mod replay;
mod replayed;
mod run;
mod shadows;
mod shell;
mod sweep;
mod toolset;
mod wiring;

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};

pub use digests::{has_made, note_made};
pub use earlier::{Earlier, EarlierError, UntrustedRecord};
use environment::EnvironmentPlan;
pub use error::SetupError;
pub use job::Job;
use record::{RunRecord, Writers};
pub use record_error::{OutputError, Unwritten};
pub use replay::{Difference, DifferencePlace, Replay, ReplayUse, replay};
pub use run::{Done, RunOutcome, Unwatched, run};
use sweep::Sweep;
pub use wiring::prices;
pub use wiring::seconds;

use mswea_config::{Config, Layers};
use mswea_core::{Executor, Object};
use mswea_executor::StartupCommand;
use mswea_plugin_host::{Cache, Loader};
use mswea_provider::Http;
use mswea_run::{GlobalAccount, GlobalLimits, LimitError};
use mswea_secrecy as secrecy;
use mswea_template::Templates;

/// The parts that all runs of a process share: loaded plugins, connections, the common limits.
pub struct Runtime {
    loader: Loader,
    http: Http,
    templates: Arc<Templates>,
    global: Result<Arc<GlobalAccount>, LimitError>,
    /// The threads that write trajectories.
    writers: Arc<Writers>,
    /// The records of the current runs.
    living: Mutex<Vec<Arc<RunRecord>>>,
    /// Removes the leftovers of killed hosts.
    sweep: Option<Sweep>,
}

/// The lock files of the current folder and of the config's folders.
fn locks(layers: Option<&Layers>) -> Result<pins::Locks, SetupError> {
    let folders = layers.into_iter().flat_map(Layers::folders);
    Ok(pins::Locks::of(
        std::iter::once(Path::new(".")).chain(folders),
    )?)
}

impl Runtime {
    /// A runtime; compiled plugins are kept in `cache`.
    pub fn new(cache: Option<Cache>) -> Self {
        mswea_executor::reserve_low_descriptors();
        Self {
            templates: Arc::new(mswea_plugin_host::templates(cache.clone())),
            loader: Loader::new(cache),
            http: Http::new(mswea_provider::process_environment()),
            global: GlobalLimits::of_variables(secrecy::var)
                .map(|limits| Arc::new(GlobalAccount::new(limits))),
            writers: Writers::new(),
            living: Mutex::default(),
            sweep: None,
        }
    }

    /// Makes the first run remove the processes and folders that killed hosts of this user have
    /// left on this machine, on a thread of its own.
    #[must_use]
    pub fn sweeping(self) -> Self {
        Self {
            sweep: Some(Sweep::new()),
            ..self
        }
    }

    /// Loads plugins.
    pub fn loader(&self) -> &Loader {
        &self.loader
    }
}

/// The executor of a config, without a run around it; `startup_commands` are rendered already.
///
/// # Errors
/// [`SetupError`] if the environment can't be made.
pub fn executor(
    config: &Config,
    run_id: &str,
    guard_program: Option<PathBuf>,
    startup_commands: Vec<StartupCommand>,
) -> Result<Box<dyn Executor>, SetupError> {
    let wanted = EnvironmentPlan {
        config,
        run_id,
        journal_id: run_id,
        guard_program,
        secret_names: Vec::new(),
        startup_commands,
        tools: None,
    };
    wanted.executor()
}

/// A run id, made of the time, the process id and a random number, so that it is unique and sorts
/// by time.
pub fn new_run_id() -> String {
    /// The number of ids so far, so that this process makes no id twice.
    static COUNT: AtomicU32 = AtomicU32::new(0);
    let count = COUNT.fetch_add(1, Ordering::Relaxed);
    let now = std::time::SystemTime::now()
        .duration_since(std::time::UNIX_EPOCH)
        .unwrap_or_default();
    format!(
        "{:x}-{:x}-{:06x}",
        now.as_millis(),
        std::process::id(),
        (fastrand::u32(..1 << 8) << 16) | (count & 0xffff)
    )
}

/// An empty object, for configs without keys.
fn nothing() -> Object {
    Object::new()
}

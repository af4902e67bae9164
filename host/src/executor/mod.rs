//! Where actions run: one module per kind of environment, behind [`Executor`](crate::roles::Executor).
//!
//! `local` runs them on this machine, `landlock` keeps them in there; `bubblewrap` and
//! `singularity` are `local` with another program in front; `container` is docker, podman and
//! what is called like them; `workspace` stands around any of them. What every kind needs is beside it: `capture` (bounded
//! output), `environment` (which variables pass), `spawn`, `processes`, `orphans` and `guard`
//! (so that nothing is left behind), `owner`, `folders`, `state` and `leftovers` (so that what is
//! left behind all the same is found), `secrecy` (the host's own environment), and `probe` (what works
//! on this machine).

mod bubblewrap;
mod capture;
pub mod container;
mod environment;
mod failure;
mod files;
mod folders;
pub mod guard;
pub mod landlock;
pub mod leftovers;
mod local;
mod machine;
mod orphans;
mod owner;
pub mod probe;
mod processes;
pub mod secrecy;
mod singularity;
mod spawn;
mod state;
#[cfg(test)]
mod tests;
mod userns;
mod workspace;

pub use bubblewrap::{BubblewrapExecutor, BubblewrapSettings, DEFAULT_WRAPPER_ARGS};
pub use container::{ContainerExecutor, ContainerSettings, Transport};
pub use environment::DEFAULT_ENV_ALLOW;
pub use folders::{LeftFolder, remove_leftover_folders};
pub use landlock::{Sandbox, SandboxKind};
pub use local::{LocalExecutor, LocalSettings};
pub use orphans::adopt as adopt_orphans;
pub use owner::{Life, Owner};
pub use processes::{ACTION_VARIABLE, RUN_VARIABLE};
pub use singularity::{SingularityExecutor, SingularitySettings};
pub use state::state_folder;
pub use workspace::{StartupCommand, WorkspaceExecutor, WorkspaceSettings};

//! Where actions run: one module per kind of environment, behind
//! [`Executor`](mswea_core::Executor).
//!
//! `local` runs them on this machine, `landlock` confines them there; `bubblewrap` and
//! `singularity` are `local` with another program in front; `container` is docker, podman and
//! compatible programs; `remote` is another machine's runtime, `command` a place that a program
//! reaches (both are a `stream` with a helper behind it); `swerex` is a server of SWE-ReX;
//! `workspace` wraps any of them. Shared modules: `capture` (bounded output), `environment` (which
//! variables pass), `spawn`, `orphans` and `guard` (they end the processes of a run), `owner`,
//! `folders` and `leftovers` (they find and remove what a killed host left behind), and
//! `probe` (what works on this machine).

mod archives;
mod aside;
mod bubblewrap;
mod capture;
pub mod command;
pub mod container;
mod environment;
mod failure;
mod files;
mod folders;
pub mod guard;
mod handle;
mod hanging;
mod helper;
mod interactive;
pub mod landlock;
pub mod leftovers;
mod local;
mod low_descriptors;
mod machine;
mod orphans;
mod owner;
mod placed;
pub mod probe;
mod process;
mod programs;
pub mod remote;
mod sandbox;
mod shell;
mod singularity;
mod spawn;
mod starters;
mod stream;
pub mod swerex;
#[cfg(test)]
mod tests;
mod userns;
mod workspace;
mod wrap;

/// The most bytes of a command's output that are kept, unless settings say otherwise; that of the config has the same
/// value.
pub const CAPTURE_BYTES: usize = 1 << 20;

pub use aside::{AsideWork, aside, begin_aside};
pub use bubblewrap::{
    BubblewrapExecutor, BubblewrapSettings, DEFAULT_WRAPPER_ARGS, IMAGE_WRAPPER_ARGS, SandboxImage,
};
pub use container::{ContainerExecutor, ContainerSettings, Transport, limit_pulls};
pub use environment::DEFAULT_ENV_ALLOW;
pub use folders::{TempFolder, remove_leftover_folders, remove_tree};
pub use interactive::decoded;
pub use local::{
    HELPER_PROTOCOL, LocalExecutor, LocalSettings, ServedCommand, ServedError, ServedHelper,
    ServedOutput, ServedPlace, ServedShell, ServedTask, ShellAnswer, ShellAnswerEnd, ShellError,
    ShellInterruption, ShellLine,
};
pub use low_descriptors::reserve_low_descriptors;
pub use mswea_helper::processes::{ACTION_VARIABLE, RUN_VARIABLE};
pub use orphans::adopt as adopt_orphans;
pub use owner::{Life, Owner};
pub use sandbox::{Sandbox, SandboxKind};
pub use singularity::{SingularityExecutor, SingularitySettings};
pub use stream::StreamSettings;
pub use workspace::{
    StartupCommand, WorkspaceExecutor, WorkspaceSettings, folder_of_handle, without_claim,
};

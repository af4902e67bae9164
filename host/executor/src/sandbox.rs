//! The settings of the sandbox of a local environment.

use std::path::PathBuf;

/// The sandbox of a local environment's commands.
#[derive(Clone, Debug)]
pub struct Sandbox {
    /// The kind of sandbox.
    pub kind: SandboxKind,
    /// Files and folders that commands may write to, in addition to the working directory and
    /// temporary folders.
    pub writable: Vec<PathBuf>,
    /// Whether commands may use the network.
    pub network: bool,
    /// Whether commands may use UNIX sockets, including those of services outside.
    pub sockets: bool,
}

impl Default for Sandbox {
    fn default() -> Self {
        Self {
            kind: SandboxKind::None,
            writable: Vec::new(),
            network: true,
            sockets: false,
        }
    }
}

/// Kinds of sandboxes for local commands.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SandboxKind {
    /// None.
    #[default]
    None,
    /// The kernel's landlock.
    Landlock,
}

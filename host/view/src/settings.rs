//! The settings of the server, and its error.

use std::path::{Path, PathBuf};

use crate::sent::SentRequest;
use mswea_export::SecretValues;

/// The settings of the server.
pub struct ViewSettings {
    /// The address to listen on: `127.0.0.1:8080`; port 0 means any free port.
    pub listen: String,
    /// The places where runs are looked for.
    pub roots: ViewRoots,
    /// The secrets that are blanked in everything that is shown.
    pub secrets: SecretValues,
    /// Reads further secrets, when a run is found that names a file of secrets.
    pub in_file: SecretsIn,
    /// Reconstructs the request of the query that has this number in a journal.
    pub sent: SentOf,
}

/// Reads the secrets in a file that a run's config names (`model.secrets_file`).
pub type SecretsIn = fn(PathBuf) -> Vec<String>;

/// Reconstructs a request from a journal, or returns the reason why it can't.
pub type SentOf = fn(&Path, u64) -> Result<SentRequest, String>;

/// The places where runs are looked for.
#[derive(Clone, Debug)]
pub enum ViewRoots {
    /// The runs of this user: the function returns their journals.
    Own(fn() -> Vec<PathBuf>),
    /// Files of runs, and folders with such files in them or below.
    Paths(Vec<PathBuf>),
}

/// The reason why the server can't be started.
#[derive(Debug, thiserror::Error)]
pub enum ViewError {
    /// The address is invalid or can't be bound.
    #[error("can't listen on `{address}`: {reason}")]
    Listen {
        /// The address as the user gave it.
        address: String,
        /// The reason.
        reason: String,
    },
    /// No token could be made.
    #[error("the token can't be made: {0}")]
    Token(String),
}

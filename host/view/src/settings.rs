//! The settings of the server, and why it can't be started.

use std::path::{Path, PathBuf};

use crate::sent::SentRequest;
use mswea_export::SecretValues;

/// The settings of the server.
pub struct ViewSettings {
    /// Where it listens: `127.0.0.1:8080`; port 0 is any free one.
    pub listen: String,
    /// Where runs are looked for.
    pub roots: ViewRoots,
    /// What is blanked in everything that is shown.
    pub secrets: SecretValues,
    /// Reads what is blanked besides, when a run is found that names such a file.
    pub in_file: SecretsIn,
    /// Makes the request anew of the query that a journal has under this number.
    pub sent: SentOf,
}

/// Reads the secrets in a file that a run's config names (`model.secrets_file`).
pub type SecretsIn = fn(PathBuf) -> Vec<String>;

/// Makes a request anew from a journal, or says why it can't.
pub type SentOf = fn(&Path, u64) -> Result<SentRequest, String>;

/// Where runs are looked for.
#[derive(Clone, Debug)]
pub enum ViewRoots {
    /// The runs of this user: the function returns their journals.
    Own(fn() -> Vec<PathBuf>),
    /// Files of runs, and folders with such files in them or below.
    Paths(Vec<PathBuf>),
}

/// Why the server can't be started.
#[derive(Debug, thiserror::Error)]
pub enum ViewError {
    /// The address can't be understood or used.
    #[error("can't listen on `{address}`: {reason}")]
    Listen {
        /// As it was given.
        address: String,
        /// The reason.
        reason: String,
    },
    /// No token could be made.
    #[error("the token can't be made: {0}")]
    Token(String),
}

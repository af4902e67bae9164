//! The errors of a batch.

use std::io;
use std::path::{Path, PathBuf};

/// Why a batch can't be opened, or can't go on.
#[derive(Debug, thiserror::Error)]
pub enum BatchError {
    /// A file of the batch can't be read or written.
    #[error("can't {doing} `{}`: {error}", path.display())]
    Io {
        /// What was to be done.
        doing: &'static str,
        /// The file.
        path: PathBuf,
        /// Why not.
        error: io::Error,
    },
    /// The instances, the flags or the directory can't be used; the text names the place and the remedy.
    #[error("{0}")]
    Refused(String),
    /// The config is wrong.
    #[error(transparent)]
    Config(#[from] mswea_config::ConfigError),
    /// A run with this config can't be made.
    #[error(transparent)]
    Setup(#[from] mswea_session::SetupError),
}

impl BatchError {
    pub(crate) fn io(doing: &'static str, path: &Path) -> impl FnOnce(io::Error) -> Self {
        let path = path.to_owned();
        move |error| Self::Io { doing, path, error }
    }
}

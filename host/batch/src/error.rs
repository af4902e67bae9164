//! The errors of a batch.

use std::io;
use std::path::{Path, PathBuf};

/// Why a batch can't be opened or continued.
#[derive(Debug, thiserror::Error)]
pub enum BatchError {
    /// A file of the batch can't be read or written.
    #[error("can't {doing} `{}`: {error}", path.display())]
    Io {
        /// The operation, for the message.
        doing: &'static str,
        /// The file.
        path: PathBuf,
        /// The reason.
        error: io::Error,
    },
    /// The disk of the batch is full.
    #[error(
        "can't {doing} `{}`: {error}: free some space there, or use a directory on another disk; what there is stays as it is, and the same command goes on",
        path.display()
    )]
    Full {
        /// The operation, for the message.
        doing: &'static str,
        /// The file.
        path: PathBuf,
        /// The system's error.
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
        move |error| match is_full(&error) {
            true => Self::Full { doing, path, error },
            false => Self::Io { doing, path, error },
        }
    }
}

/// Whether the error means that the disk is full.
pub(crate) fn is_full(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded
    )
}

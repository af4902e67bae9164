//! The errors of data sets.

use std::io;
use std::path::{Path, PathBuf};

/// Why instances can't be read.
#[derive(Debug, thiserror::Error)]
pub enum DatasetError {
    /// A file can't be read or written.
    #[error("can't {doing} `{}`: {error}", path.display())]
    Io {
        /// The operation, for the message.
        doing: &'static str,
        /// The file.
        path: PathBuf,
        /// The reason.
        error: io::Error,
    },
    /// The disk of the cache is full.
    #[error(
        "can't write `{}`: {error}: free some space, or name a folder on another disk with `MSWEA_DATASET_CACHE`; what there is of the file is kept, and the same command goes on",
        path.display()
    )]
    Full {
        /// The file.
        path: PathBuf,
        /// The system's error.
        error: io::Error,
    },
    /// The file or the data set can't be used; the text names the place and the remedy.
    #[error("{0}")]
    Refused(String),
    /// The Hub does not answer, or its answer is invalid; the text names it and the remedy.
    #[error("{0}")]
    Unreachable(String),
}

impl DatasetError {
    pub(crate) fn io(doing: &'static str, path: &Path) -> impl FnOnce(io::Error) -> Self {
        let path = path.to_owned();
        move |error| match error.kind() {
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => Self::Full { path, error },
            _ => Self::Io { doing, path, error },
        }
    }
}

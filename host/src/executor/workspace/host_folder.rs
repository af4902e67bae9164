//! The folder of a repository on the host's own disk, which must not stay behind half filled.

use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::fail;
use crate::roles::ExecutorError;

/// How often it is tried to remove a folder that something still writes into.
const PATIENCE: usize = 50;

/// The folder of a repository on the host's own disk, and what it was like before.
pub(super) struct HostFolder {
    path: PathBuf,
    was_empty: bool,
    /// The uppermost folder that had to be made for it.
    made: Option<PathBuf>,
}

impl HostFolder {
    /// Makes the folder `path`.
    ///
    /// # Errors
    /// When it can't be made.
    pub(super) fn make(path: &str) -> Result<Self, ExecutorError> {
        let path = PathBuf::from(path);
        let made = path
            .ancestors()
            .take_while(|folder| folder.symlink_metadata().is_err())
            .last()
            .map(Path::to_owned);
        let was_empty = std::fs::create_dir_all(&path)
            .and_then(|()| path.read_dir())
            .map(|mut entries| entries.next().is_none());
        match was_empty {
            Ok(was_empty) => Ok(Self {
                path,
                was_empty,
                made,
            }),
            Err(error) => fail(format!(
                "the folder `{}` can't be made: {error}; set `workspace.path` to one that can",
                path.display()
            )),
        }
    }

    fn remove(&self) -> io::Result<()> {
        if let Some(made) = &self.made {
            return std::fs::remove_dir_all(made);
        }
        for entry in self.path.read_dir()? {
            let path = entry?.path();
            if path.is_dir() && !path.is_symlink() {
                std::fs::remove_dir_all(path)?;
            } else {
                std::fs::remove_file(path)?;
            }
        }
        Ok(())
    }

    /// Takes away what the set-up has put there, and nothing else.
    pub(super) async fn undo(self) {
        if !self.was_empty {
            return;
        }
        let undone = tokio::task::spawn_blocking(move || {
            // A copy that was given up ends with the file that it is at.
            for _ in 0..PATIENCE {
                match self.remove() {
                    Err(error) if error.kind() == io::ErrorKind::DirectoryNotEmpty => {
                        std::thread::sleep(Duration::from_millis(10));
                    }
                    done => return done,
                }
            }
            self.remove()
        });
        let undone = undone
            .await
            .unwrap_or_else(|error| Err(io::Error::other(error)));
        if let Err(error) = undone {
            tracing::warn!(%error, "a repository that was set up in part can't be removed: do so by hand");
        }
    }
}

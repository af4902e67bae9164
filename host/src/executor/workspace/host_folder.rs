//! The folder of a repository on the host's own disk, which must not stay behind half filled, and
//! which is one run's alone.

use std::fs::{self, File};
use std::io::{self, Write};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::fs::FlockOperation;

use crate::executor::state::state_folder;
use crate::roles::ExecutorError;

/// How often it is tried to remove a folder that something still writes into.
const PATIENCE: usize = 50;
/// How often it is looked who has a folder.
const WRITING: usize = 50;

/// The folder of a repository on the host's own disk, and what it was like before.
pub(super) struct HostFolder {
    path: PathBuf,
    was_empty: bool,
    /// The uppermost folder that had to be made for it.
    made: Option<PathBuf>,
    hold: Hold,
}

/// Keeps other runs out of a folder for as long as this lives, or its process.
pub(super) struct Hold {
    /// The folder itself, locked: whatever its path, and also for other users.
    _folder: File,
    /// Says which run it is; for messages.
    note: PathBuf,
}

impl Drop for Hold {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.note);
    }
}

impl Hold {
    /// Takes `path`; none if it has gone meanwhile, or become another folder.
    fn take(path: &Path, run: &str) -> io::Result<Option<Self>> {
        let folder = File::open(path)?;
        let found = folder.metadata()?;
        let note = state_folder("workspaces").join(format!("{}-{}", found.dev(), found.ino()));
        match rustix::fs::flock(&folder, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => {}
            Err(rustix::io::Errno::WOULDBLOCK) => {
                let other = who(&note);
                return Err(io::Error::new(
                    io::ErrorKind::WouldBlock,
                    format!("{other} is working in it"),
                ));
            }
            // A file system without locks: then only the set-up itself looks after it.
            Err(error) => tracing::debug!(%error, "a workspace can't be locked"),
        }
        let is_same = fs::metadata(path)
            .is_ok_and(|now| (now.dev(), now.ino()) == (found.dev(), found.ino()));
        if !is_same {
            return Ok(None);
        }
        let write = || {
            fs::create_dir_all(state_folder("workspaces"))?;
            let text = format!("`{run}` (process {})\n", std::process::id());
            File::create(&note)?.write_all(text.as_bytes())
        };
        if let Err(error) = write() {
            tracing::debug!(%error, "which run has the workspace can't be written down");
        }
        Ok(Some(Self {
            _folder: folder,
            note,
        }))
    }
}

/// Which run a note names. The other one may be about to write it.
fn who(note: &Path) -> String {
    for _ in 0..WRITING {
        if let Ok(text) = fs::read_to_string(note)
            && let Some(other) = text.strip_suffix('\n')
        {
            return format!("the run {other}");
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    "another run".to_owned()
}

impl HostFolder {
    /// Makes the folder `path` and takes it for the run `run`.
    ///
    /// # Errors
    /// When it can't be made, or another run has it.
    pub(super) fn make(path: &str, run: &str) -> Result<Self, ExecutorError> {
        let path = PathBuf::from(path);
        let made = path
            .ancestors()
            .take_while(|folder| folder.symlink_metadata().is_err())
            .last()
            .map(Path::to_owned);
        let failed = |error: io::Error| match error.kind() {
            io::ErrorKind::WouldBlock => ExecutorError {
                message: format!(
                    "the folder `{}` is taken: {error}; wait for its end, or set `workspace.path` to another folder",
                    path.display()
                ),
            },
            _ => ExecutorError {
                message: format!(
                    "the folder `{}` can't be made: {error}; set `workspace.path` to one that can",
                    path.display()
                ),
            },
        };
        // Another run that gives up may just be taking it away.
        let hold = loop {
            fs::create_dir_all(&path).map_err(failed)?;
            match Hold::take(&path, run) {
                Ok(Some(hold)) => break hold,
                Ok(None) => {}
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                Err(error) => return Err(failed(error)),
            }
        };
        let was_empty = path
            .read_dir()
            .map_err(failed)
            .map(|mut entries| entries.next().is_none())?;
        Ok(Self {
            was_empty,
            made,
            hold,
            path,
        })
    }

    /// The set-up has been done: what keeps others out, to the end of the run.
    pub(super) fn keep(self) -> Hold {
        self.hold
    }

    fn remove(&self) -> io::Result<()> {
        for entry in self.path.read_dir()? {
            let path = entry?.path();
            if path.is_dir() && !path.is_symlink() {
                fs::remove_dir_all(path)?;
            } else {
                fs::remove_file(path)?;
            }
        }
        let Some(made) = &self.made else {
            return Ok(());
        };
        // Only what is empty: another run may have begun to use one of those above.
        for folder in self.path.ancestors().take_while(|it| it.starts_with(made)) {
            match fs::remove_dir(folder) {
                Err(_) if folder != self.path => break,
                removed => removed?,
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

//! The folder of a repository on the host's own disk. A set-up that fails empties it again, and
//! only one run may use it.

use std::fs::{self, File};
use std::io::{self, Write};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::fs::{AtFlags, FlockOperation, StatxFlags, statx};
use serde::{Deserialize, Serialize};

use mswea_core::{ExecutorError, Stop};
use mswea_files::{made_state_folder, state_folder};

/// The number of attempts to remove a folder into which another process still writes.
const ATTEMPTS: usize = 50;
/// How many attempts are made to read which run uses a folder.
const WRITING: usize = 50;

/// A folder that was empty when a run took it for its set-up. As long as the folder's note names
/// this run, all files in it are from that set-up.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct TakenFolder {
    /// The run's name in the note.
    run: String,
    /// When the folder was made, in nanoseconds since 1970, if the file system records that: a new
    /// folder may get the inode number of one that was removed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    born: Option<i64>,
}

/// When the folder was made.
fn born(folder: &File) -> Option<i64> {
    let found = statx(folder, "", AtFlags::EMPTY_PATH, StatxFlags::BTIME).ok()?;
    let is_known = found.stx_mask & StatxFlags::BTIME.bits() != 0;
    let time = found.stx_btime;
    let seconds = time.tv_sec.checked_mul(1_000_000_000)?;
    is_known.then_some(seconds + i64::from(time.tv_nsec))
}

/// The folder of a repository on the host's own disk, and its earlier state.
pub(super) struct HostFolder {
    path: PathBuf,
    was_empty: bool,
    /// The uppermost folder that had to be made for it.
    made: Option<PathBuf>,
    hold: Hold,
}

/// Keeps other runs out of a folder while this value or its process exists.
pub(super) struct Hold {
    /// The folder itself, locked, which works for any path and also for other users.
    folder: File,
    /// A file with the run's name. It stays if the host is killed.
    note: PathBuf,
    keeps_note: bool,
    taken: TakenFolder,
    /// Whether an earlier process of this run has taken the folder, and no other run since.
    is_taken_again: bool,
}

impl Drop for Hold {
    fn drop(&mut self) {
        if !self.keeps_note {
            let _ = fs::remove_file(&self.note);
        }
    }
}

impl Hold {
    /// Takes `path` for a run; none if the folder was removed or replaced meanwhile. `before`: how
    /// an earlier process of the run had taken it.
    fn take(path: &Path, run: &str, before: Option<&TakenFolder>) -> io::Result<Option<Self>> {
        let folder = File::open(path)?;
        let found = folder.metadata()?;
        let note = state_folder("workspaces").join(format!("{}-{}", found.dev(), found.ino()));
        let mut is_locked = false;
        match rustix::fs::flock(&folder, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => is_locked = true,
            Err(rustix::io::Errno::WOULDBLOCK) => {
                let other = who(&note);
                return Err(io::Error::new(
                    io::ErrorKind::WouldBlock,
                    format!("{other} is working in it"),
                ));
            }
            // On a file system without locks, other runs are not kept out of the folder.
            Err(error) => tracing::debug!(%error, "a workspace can't be locked"),
        }
        let is_same = fs::metadata(path)
            .is_ok_and(|now| (now.dev(), now.ino()) == (found.dev(), found.ino()));
        if !is_same {
            return Ok(None);
        }
        let born = born(&folder);
        let again = before.filter(|it| is_locked && it.born == born && names(&note, &it.run));
        let taken = TakenFolder {
            // If this host is killed before it has recorded anything, the note of the earlier
            // process is still there.
            run: again.map_or_else(|| run.to_owned(), |it| it.run.clone()),
            born,
        };
        let write = || {
            made_state_folder("workspaces")?;
            let text = format!("`{}` (process {})\n", taken.run, std::process::id());
            File::create(&note)?.write_all(text.as_bytes())
        };
        if let Err(error) = write() {
            tracing::debug!(%error, "the run that uses the workspace can't be recorded");
        }
        Ok(Some(Self {
            folder,
            keeps_note: false,
            is_taken_again: again.is_some(),
            taken,
            note,
        }))
    }
}

/// Whether a note names this run.
fn names(note: &Path, run: &str) -> bool {
    fs::read_to_string(note).is_ok_and(|text| text.starts_with(&format!("`{run}` (")))
}

/// The run that a note names. Waits a moment for a note, because that run may be about to write it.
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
    /// Makes the folder `path`, and takes it for the run `run`. `before`: how an earlier process of
    /// the run had taken it for a set-up that did not end.
    ///
    /// # Errors
    /// [`ExecutorError`] if the folder can't be made, or another run has it.
    pub(super) async fn make(
        path: &str,
        run: &str,
        before: Option<&TakenFolder>,
    ) -> Result<Self, ExecutorError> {
        let (path, run, before) = (PathBuf::from(path), run.to_owned(), before.cloned());
        // Blocking, because it may have to wait for the note of another run.
        let made = tokio::task::spawn_blocking(move || Self::make_now(path, &run, before.as_ref()));
        made.await
            .unwrap_or_else(|error| Err(ExecutorError::from(error.to_string())))
    }

    /// As [`Self::make`]; blocks.
    fn make_now(
        path: PathBuf,
        run: &str,
        before: Option<&TakenFolder>,
    ) -> Result<Self, ExecutorError> {
        let made = path
            .ancestors()
            .take_while(|folder| folder.symlink_metadata().is_err())
            .last()
            .map(Path::to_owned);
        let failed = |error: io::Error| match error.kind() {
            io::ErrorKind::WouldBlock => ExecutorError::from(format!(
                "the folder `{}` is taken: {error}; wait for its end, or set `workspace.path` to another folder",
                path.display()
            )),
            _ => ExecutorError::from(format!(
                "the folder `{}` can't be made: {error}; set `workspace.path` to another folder",
                path.display()
            )),
        };
        // Another run may be removing the folder at this moment.
        let hold = loop {
            fs::create_dir_all(&path).map_err(failed)?;
            match Hold::take(&path, run, before) {
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

    /// Ends the set-up; the result keeps other runs out until the end of the run.
    pub(super) fn keep(self) -> Hold {
        self.hold
    }

    /// Whether the folder was empty before the set-up.
    pub(super) fn was_empty(&self) -> bool {
        self.was_empty
    }

    /// The record of an empty folder that the set-up is about to fill; none if the folder was not
    /// empty.
    pub(super) fn taken(&self) -> Option<&TakenFolder> {
        self.was_empty.then_some(&self.hold.taken)
    }

    /// Whether all files in the folder are from a set-up of this run that did not end.
    pub(super) fn is_left_over(&self) -> bool {
        !self.was_empty && self.hold.is_taken_again
    }

    /// Removes the files of a set-up of this run that did not end. If the run is stopped, this no
    /// longer waits for the removal.
    ///
    /// # Errors
    /// [`ExecutorError`] if a file can't be removed, or the run is stopped.
    pub(super) async fn clear(&mut self, stop: &Stop) -> Result<(), ExecutorError> {
        let path = self.path.clone();
        let locked = self.hold.folder.try_clone();
        let emptying = patiently(move || {
            let _locked = &locked;
            empty(&path)
        });
        // The next attempt removes the files that are not removed now.
        self.hold.keeps_note = true;
        let emptied = tokio::select! {
            biased;
            emptied = emptying => emptied,
            () = stop.stopped() => Err(io::Error::other("the run was stopped")),
        };
        emptied.map_err(|error| ExecutorError::from(format!(
                "the folder `{}` has a part of this run's repository in it, whose set-up was cut short, and can't be emptied: {error}; empty it, or set `workspace.path` to another folder",
                self.path.display()
            )))?;
        self.hold.keeps_note = false;
        self.was_empty = true;
        Ok(())
    }

    fn remove(&self) -> io::Result<()> {
        empty(&self.path)?;
        let Some(made) = &self.made else {
            return Ok(());
        };
        // Only empty folders are removed: another run may have begun to use a folder above this
        // one.
        for folder in self.path.ancestors().take_while(|it| it.starts_with(made)) {
            match fs::remove_dir(folder) {
                Err(_) if folder != self.path => break,
                removed => removed?,
            }
        }
        Ok(())
    }

    /// Removes the files of the set-up, and no others.
    pub(super) async fn undo(self) {
        if !self.was_empty {
            return;
        }
        if let Err(error) = patiently(move || self.remove()).await {
            tracing::warn!(%error, "a repository that was set up in part can't be removed: do so by hand");
        }
    }
}

fn empty(folder: &Path) -> io::Result<()> {
    for entry in folder.read_dir()? {
        let path = entry?.path();
        if path.is_dir() && !path.is_symlink() {
            crate::folders::remove_tree(&path)?;
        } else {
            fs::remove_file(path)?;
        }
    }
    Ok(())
}

/// Removes files on another thread, repeatedly while others are added: a cancelled copy ends only
/// after its current file.
async fn patiently(remove: impl Fn() -> io::Result<()> + Send + 'static) -> io::Result<()> {
    let removed = tokio::task::spawn_blocking(move || {
        for _ in 0..ATTEMPTS {
            match remove() {
                Err(error) if error.kind() == io::ErrorKind::DirectoryNotEmpty => {
                    std::thread::sleep(Duration::from_millis(10));
                }
                done => return done,
            }
        }
        remove()
    });
    removed
        .await
        .unwrap_or_else(|error| Err(io::Error::other(error)))
}

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use super::*;

    /// Another program has locked the folder and writes no note, so the host waits for the note
    /// until the end of its time limit.
    #[tokio::test]
    async fn other_tasks_go_on_while_the_note_of_another_run_is_waited_for() {
        let folder = tempfile::tempdir().unwrap();
        let other = File::open(folder.path()).unwrap();
        rustix::fs::flock(&other, FlockOperation::NonBlockingLockExclusive).unwrap();
        let path = folder.path().to_str().unwrap();
        let began = Instant::now();
        let mut longest = Duration::ZERO;
        let beats = async {
            loop {
                let before = Instant::now();
                tokio::time::sleep(Duration::from_millis(1)).await;
                longest = longest.max(before.elapsed());
            }
        };
        let refused = tokio::select! {
            made = HostFolder::make(path, "r", None) => made.err().unwrap(),
            () = beats => return,
        };
        assert!(refused.message.contains("another run"), "{refused}");
        assert!(began.elapsed() > longest * 2, "{longest:?}");
        assert_ne!(longest, Duration::ZERO);
    }
}

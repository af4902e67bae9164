//! Finds journals that are not below the state folder (`-o`).
//!
//! For such a run, the state folder has a link with the run's id to its journal. A link needs no
//! file format, can hold any path, and is made atomically.

use std::fs::{File, OpenOptions, TryLockError};
use std::io;
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use mswea_files::make_private;
use rustix::fs::OFlags;

use crate::files::{runs_folder, trajectory_beside};

/// The suffix of a link's name.
const LINK: &str = ".run";

/// The suffix of the name of a file that is locked while its id is held.
const HELD: &str = ".held";

/// Makes the link of a run, or has it lead to this journal from now on. If this fails, the run is only missing in lists, so the error is
/// ignored.
pub fn note(run_id: &str, journal: &Path) {
    if let Err(error) = try_note(&runs_folder(), run_id, journal) {
        tracing::debug!(%error, "the run will not be listed by `runs list`");
    }
}

fn try_note(folder: &Path, run_id: &str, journal: &Path) -> io::Result<()> {
    let Some(link) = link(folder, run_id) else {
        return Ok(());
    };
    let journal = std::path::absolute(journal)?;
    if journal.parent() == Some(folder) {
        return Ok(());
    }
    make_private(folder)?;
    match std::os::unix::fs::symlink(&journal, &link) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => match read(&link) {
            Some((_, noted)) if noted != journal => {
                let new = folder.join(format!("{run_id}{LINK}.{}", std::process::id()));
                std::os::unix::fs::symlink(&journal, &new)?;
                std::fs::rename(&new, &link)
            }
            _ => Ok(()),
        },
        done => done,
    }
}

/// Removes the link of a run, and the digests of its record.
pub fn forget(folder: &Path, run_id: &str) {
    if let Some(link) = link(folder, run_id)
        && std::fs::symlink_metadata(&link).is_ok_and(|it| it.is_symlink())
    {
        let _ = std::fs::remove_file(link);
    }
    if let Some(digests) = digests_of(folder, run_id) {
        let _ = std::fs::remove_file(digests);
    }
}

/// The run and the journal of a link in the state folder.
fn read(file: &Path) -> Option<(String, PathBuf)> {
    let run_id = file.file_name()?.to_str()?.strip_suffix(LINK)?;
    let journal = std::fs::read_link(file)
        .ok()
        .filter(|it| it.is_absolute())?;
    Some((run_id.to_owned(), journal))
}

/// The journals below this folder, and those to which its links lead, each with the run's id if a link names it.
pub fn entries(folder: &Path) -> impl Iterator<Item = (PathBuf, Option<String>)> + use<> {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    entries.filter_map(|entry| {
        let path = entry.path();
        match read(&path) {
            Some((run_id, journal)) => Some((journal, Some(run_id))),
            None => trajectory_beside(&path).map(|_| (path, None)),
        }
    })
}

/// The journal of a run that has a link or its files in this folder, if there is one.
pub fn journal_of(folder: &Path, run_id: &str) -> Option<PathBuf> {
    journals_of(folder, run_id).next()
}

/// All of them: a copy of a journal in the folder may have gone on elsewhere.
pub fn journals_of(folder: &Path, run_id: &str) -> impl Iterator<Item = PathBuf> + use<> {
    let noted = link(folder, run_id).and_then(|link| read(&link));
    let own = is_plain(run_id).then(|| folder.join(format!("{run_id}.events.jsonl")));
    let noted = noted.map(|(_, journal)| journal);
    own.into_iter()
        .chain(noted)
        .filter(|journal| journal.exists())
}

/// The id of a run that no other process can choose while this value exists.
#[derive(Debug)]
pub struct HeldRunId {
    path: PathBuf,
    file: File,
}

impl HeldRunId {
    /// Reserves an id, by a locked file in this folder, which is made if it is missing.
    ///
    /// # Errors
    /// [`io::ErrorKind::WouldBlock`] if another process has reserved it; the system's error if the
    /// file can't be made or locked.
    pub fn hold(folder: &Path, run_id: &str) -> io::Result<Self> {
        if !is_plain(run_id) {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        make_private(folder)?;
        let path = folder.join(format!("{run_id}{HELD}"));
        loop {
            let file = OpenOptions::new()
                .append(true)
                .create(true)
                .custom_flags((OFlags::NOFOLLOW | OFlags::NONBLOCK).bits().cast_signed())
                .open(&path)?;
            file.try_lock().map_err(|error| match error {
                TryLockError::WouldBlock => io::ErrorKind::WouldBlock.into(),
                TryLockError::Error(error) => error,
            })?;
            let locked = file.metadata()?;
            let is_same =
                |now: &std::fs::Metadata| (now.dev(), now.ino()) == (locked.dev(), locked.ino());
            // Otherwise its owner has removed it before this process had the lock.
            if std::fs::symlink_metadata(&path).is_ok_and(|now| is_same(&now)) {
                return Ok(Self { path, file });
            }
        }
    }
}

impl Drop for HeldRunId {
    fn drop(&mut self) {
        // Removed before the lock is released.
        let _ = std::fs::remove_file(&self.path);
        let _ = self.file.unlock();
    }
}

/// The file with the digests of a run.
pub fn digests_of(folder: &Path, run_id: &str) -> Option<PathBuf> {
    is_plain(run_id).then(|| folder.join(format!("{run_id}.digests")))
}

fn link(folder: &Path, run_id: &str) -> Option<PathBuf> {
    is_plain(run_id).then(|| folder.join(format!("{run_id}{LINK}")))
}

/// Whether an id can be part of a file's name; an id in a file may have any characters.
pub fn is_plain(run_id: &str) -> bool {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.');
    !run_id.is_empty()
        && run_id.len() <= 200
        && !run_id.starts_with('.')
        && run_id.bytes().all(plain)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_note_leads_to_a_journal_elsewhere() {
        let folder = tempfile::tempdir().unwrap();
        let (state, other) = (folder.path().join("state"), folder.path().join("o.jsonl"));
        try_note(&state, "r-1", &state.join("r-1.events.jsonl")).unwrap();
        assert!(!state.exists(), "a run in the state folder needs no link");
        try_note(&state, "r-1", &other).unwrap();
        try_note(&state, "r-1", &other).unwrap();
        let found = read(&state.join("r-1.run"));
        assert_eq!(found, Some(("r-1".to_owned(), other)));
        let moved = folder.path().join("moved.jsonl");
        try_note(&state, "r-1", &moved).unwrap();
        let found = read(&state.join("r-1.run"));
        assert_eq!(found, Some(("r-1".to_owned(), moved)));
        forget(&state, "r-1");
        assert_eq!(std::fs::read_dir(&state).unwrap().count(), 0);
        // Other files in the folder are left alone.
        std::fs::write(state.join("r-2.run"), "").unwrap();
        forget(&state, "r-2");
        assert_eq!(std::fs::read_dir(&state).unwrap().count(), 1);
    }

    #[test]
    fn an_id_is_held_once() {
        let folder = tempfile::tempdir().unwrap();
        let state = folder.path().join("state");
        let held = HeldRunId::hold(&state, "r-1").unwrap();
        let again = HeldRunId::hold(&state, "r-1").unwrap_err();
        assert_eq!(again.kind(), io::ErrorKind::WouldBlock);
        drop(HeldRunId::hold(&state, "r-2").unwrap());
        drop(held);
        assert_eq!(std::fs::read_dir(&state).unwrap().count(), 0);
        // The file of a killed host does not prevent this.
        std::fs::write(state.join("r-1.held"), "").unwrap();
        HeldRunId::hold(&state, "r-1").unwrap();
    }

    #[test]
    fn an_id_never_leads_out_of_the_folder() {
        for id in ["", ".", "..", "../x", "a/b", ".hidden", "a\nb", "a\0", "é"] {
            assert!(!is_plain(id), "{id:?}");
        }
        assert!(!is_plain(&"a".repeat(300)));
        assert!(is_plain("19a7b2c-1f-00ff00"));
    }
}

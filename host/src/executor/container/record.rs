//! What a run writes down, on this machine's disk, of the container that it makes.
//!
//! Labels don't tell whose a container is: an image that somebody makes of one (`docker commit`)
//! has them too, and so has every container of that image. So whoever removes a container that it
//! has not made itself goes by these records: by the id that the engine gave it, and by a random
//! key among its labels. Until the id is known, while the engine is making the container, its
//! name stands for it.
//!
//! A record is there before its container, and goes after it.

use std::collections::BTreeSet;
use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::engine::Listed;
use crate::executor::owner::Owner;
use crate::executor::state::state_folder;

/// The label with the record's key.
pub(super) const KEY: &str = "mswea.key";

/// How long an engine may take to make a container for a host that is gone. After that, there
/// will be none.
const UNBORN: Duration = Duration::from_secs(600);
/// How old a file has to be that nothing stands in: whoever made it died before writing.
const EMPTY: Duration = Duration::from_secs(60);
/// No record is longer.
const BYTES: u64 = 64 * 1024;
/// Where a client finds its daemon, beside its own config.
const PLACES: [&str; 3] = ["DOCKER_HOST", "DOCKER_CONTEXT", "CONTAINER_HOST"];

/// What is known of a container before it is made: the first line of the file. Behind it stands
/// the container's id, once it is known.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Entry {
    pub(super) run: String,
    /// The host process, as [`Owner`] writes it.
    pub(super) owner: String,
    pub(super) key: String,
    pub(super) name: String,
    /// Whether it is to outlive its run.
    pub(super) kept: bool,
    /// The engine's program.
    pub(super) executable: String,
    /// Where that finds its daemon.
    pub(super) place: Vec<String>,
}

/// A record on disk.
#[derive(Clone, Debug)]
pub(super) struct Record {
    file: PathBuf,
    pub(super) entry: Entry,
    id: Option<String>,
}

/// A key that no other container has.
pub(super) fn fresh_key() -> String {
    format!("{:032x}", fastrand::u128(..))
}

/// Where the daemon of this process's engine is, as far as variables tell.
pub(super) fn place() -> Vec<String> {
    PLACES
        .iter()
        .map(|name| std::env::var(name).unwrap_or_default())
        .collect()
}

impl Entry {
    /// A container of this process, with a fresh key.
    pub(super) fn new(run: &str, name: &str, kept: bool, executable: &str) -> Self {
        Self {
            run: run.to_owned(),
            owner: Owner::current().to_string(),
            key: fresh_key(),
            name: name.to_owned(),
            kept,
            executable: executable.to_owned(),
            place: place(),
        }
    }

    /// Writes it down.
    ///
    /// # Errors
    /// When there is no place for it that is this user's alone.
    pub(super) fn write(self) -> io::Result<Record> {
        let mut failure = None;
        for folder in folders() {
            match self.write_in(&folder) {
                Ok(file) => {
                    return Ok(Record {
                        file,
                        entry: self,
                        id: None,
                    });
                }
                Err(error) => {
                    let text = format!("`{}`: {error}", folder.display());
                    failure.get_or_insert(io::Error::new(error.kind(), text));
                }
            }
        }
        Err(failure.unwrap_or_else(|| io::ErrorKind::NotFound.into()))
    }

    fn write_in(&self, folder: &Path) -> io::Result<PathBuf> {
        DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(folder)?;
        if !is_own(&fs::symlink_metadata(folder)?) {
            return Err(io::Error::other("others may write there"));
        }
        let path = folder.join(&self.key);
        let mut line = serde_json::to_vec(self)?;
        line.push(b'\n');
        let mut file = OpenOptions::new()
            .write(true)
            .create_new(true)
            .mode(0o600)
            .open(&path)?;
        // In one piece: a host may be killed at any moment.
        if let Err(error) = file.write_all(&line) {
            let _ = fs::remove_file(&path);
            return Err(error);
        }
        Ok(path)
    }
}

impl Record {
    /// Adds the container's id.
    pub(super) fn found(&mut self, id: &str) {
        self.id = Some(id.to_owned());
        let file = OpenOptions::new().append(true).open(&self.file);
        let line = format!("{id}\n");
        if let Err(error) = file.and_then(|mut file| file.write_all(line.as_bytes())) {
            tracing::debug!(%error, "a container's id is not written down: its name stands for it");
        }
    }

    /// Its container is gone, or there never was one.
    pub(super) fn forget(&self) {
        match fs::remove_file(&self.file) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                tracing::warn!(file = %self.file.display(), %error, "a container's record is left");
            }
            _ => {}
        }
    }

    /// Whether `container` is the one that this is about.
    pub(super) fn is_of(&self, container: &Listed) -> bool {
        let same = match &self.id {
            Some(id) => *id == container.id,
            None => self.entry.name == container.name,
        };
        same && container.labels.get(KEY) == Some(&self.entry.key)
    }

    /// Whether nothing can come any more of the container that this is about, as the engine that
    /// `executable` names has none like it.
    pub(super) fn is_over(&self, executable: &str) -> bool {
        let asked = self.entry.executable == executable && self.entry.place == place();
        asked && (self.id.is_some() || is_older(&self.file, UNBORN))
    }

    /// One that is on no disk.
    #[cfg(test)]
    pub(super) fn in_memory(entry: Entry) -> Self {
        Self {
            file: PathBuf::new(),
            entry,
            id: None,
        }
    }

    fn read(path: &Path) -> Option<Self> {
        // Somebody may have put anything there.
        let file = OpenOptions::new()
            .read(true)
            .custom_flags(libc::O_NOFOLLOW | libc::O_NONBLOCK)
            .open(path)
            .ok()?;
        let found = file.metadata().ok()?;
        if !found.is_file() || !is_own(&found) {
            return None;
        }
        let mut text = String::new();
        File::take(file, BYTES).read_to_string(&mut text).ok()?;
        let (first, rest) = text.split_once('\n')?;
        let id = rest.split_once('\n').map(|(id, _)| id.to_owned());
        Some(Self {
            file: path.to_owned(),
            entry: serde_json::from_str(first).ok()?,
            id,
        })
    }
}

/// All records of this user.
pub(super) fn all() -> Vec<Record> {
    files()
        .iter()
        .filter_map(|file| Record::read(file))
        .collect()
}

/// Removes files that a host has begun and not written.
pub(super) fn tidy() {
    for file in files() {
        let is_empty = fs::symlink_metadata(&file)
            .is_ok_and(|found| found.is_file() && is_own(&found) && found.len() == 0);
        if is_empty && is_older(&file, EMPTY) {
            let _ = fs::remove_file(&file);
        }
    }
}

/// Whether one of these runs has, or may still get, a container that is to be removed.
pub fn is_awaited(runs: &BTreeSet<String>) -> bool {
    all()
        .iter()
        .any(|record| !record.entry.kept && runs.contains(&record.entry.run))
}

fn files() -> Vec<PathBuf> {
    let folders = folders();
    let entries = folders
        .iter()
        .filter_map(|folder| fs::read_dir(folder).ok());
    entries
        .flatten()
        .flatten()
        .map(|entry| entry.path())
        .collect()
}

/// Where records are, the best place first: a home may be read-only.
fn folders() -> [PathBuf; 2] {
    let user = rustix::process::geteuid().as_raw();
    let other = std::env::temp_dir().join(format!("mswea-containers-{user}"));
    [state_folder("containers"), other]
}

/// Whether it is this user's, and nobody else may write to it.
fn is_own(found: &fs::Metadata) -> bool {
    found.uid() == rustix::process::geteuid().as_raw() && found.permissions().mode() & 0o022 == 0
}

fn is_older(file: &Path, than: Duration) -> bool {
    let age = fs::symlink_metadata(file)
        .and_then(|found| found.modified())
        .map(|time| time.elapsed().unwrap_or_default());
    age.is_ok_and(|age| age > than)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    #[test]
    fn a_record_knows_its_container_and_no_other() {
        let folder = tempfile::tempdir().unwrap();
        let entry = Entry::new("r", "n", false, "docker");
        let key = entry.key.clone();
        let file = entry.write_in(folder.path()).unwrap();
        let listed = |id: &str, name: &str, key: &str| Listed {
            id: id.to_owned(),
            name: name.to_owned(),
            labels: BTreeMap::from([(KEY.to_owned(), key.to_owned())]),
        };
        let mut record = Record::read(&file).unwrap();
        assert_eq!((record.entry.run.as_str(), &record.id), ("r", &None));
        // What an image of it was run as has its labels and another name.
        assert!(record.is_of(&listed("1", "n", &key)));
        assert!(!record.is_of(&listed("1", "copy", &key)));
        assert!(!record.is_of(&listed("1", "n", "other")));
        assert!(!record.is_over("docker"), "it may still be made");
        record.found("1");
        let record = Record::read(&file).unwrap();
        assert!(record.is_of(&listed("1", "renamed", &key)));
        assert!(!record.is_of(&listed("2", "n", &key)));
        assert!(!record.is_of(&listed("1", "n", "other")));
        assert!(record.is_over("docker") && !record.is_over("podman"));
        record.forget();
        record.forget();
        assert!(Record::read(&file).is_none());
    }

    #[test]
    fn what_others_may_have_written_is_no_record() {
        let folder = tempfile::tempdir().unwrap();
        let write = || {
            let entry = Entry::new("r", "n", false, "docker");
            entry.write_in(folder.path()).unwrap()
        };
        let open = write();
        fs::set_permissions(&open, fs::Permissions::from_mode(0o666)).unwrap();
        assert!(Record::read(&open).is_none());
        let link = folder.path().join("link");
        std::os::unix::fs::symlink(write(), &link).unwrap();
        assert!(Record::read(&link).is_none());
        let half = write();
        let text = fs::read(&half).unwrap();
        fs::write(&half, &text[..text.len() - 1]).unwrap();
        assert!(Record::read(&half).is_none());
        fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o777)).unwrap();
        let entry = Entry::new("r", "n", false, "docker");
        assert!(entry.write_in(folder.path()).is_err());
    }
}

//! A run's record, on this machine's disk, of the container that it makes.
//!
//! Labels do not prove whose a container is: an image made from one (`docker commit`) has the same
//! labels, and so has every container of that image. So a process removes another process's
//! container only by these records: by the id that the engine gave it, and by a random key among
//! its labels. Until the id is known, while the engine is making the container, its name is used.
//!
//! A record is made before its container, and removed after it.

use std::collections::BTreeSet;
use std::fs::{self, DirBuilder, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::ContainerSettings;
use super::engine::{KEY, ListedContainer};
use crate::folders::{in_name, own_file};
use crate::owner::{Life, Owner};
use mswea_files::state_folder;

/// How long an engine may take to make a container for a host that is gone. A container that has
/// not appeared by then is not expected any more.
const UNBORN: Duration = Duration::from_secs(600);
/// The age of a record from which a container of a killed host is not waited for.
const TURNING_UP: Duration = Duration::from_secs(5);
/// The age from which an empty file counts as abandoned: its host died before writing it.
const EMPTY: Duration = Duration::from_secs(60);
/// The most bytes of a record.
const BYTES: u64 = 64 * 1024;
/// Variables by which a client finds its daemon, besides its own config.
const PLACES: [&str; 3] = ["DOCKER_HOST", "DOCKER_CONTEXT", "CONTAINER_HOST"];

/// The data of a container before it is made: the first line of the file. The container's id
/// follows when it is known.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct ContainerEntry {
    /// The mark of the processes of the run's host.
    pub(super) run: String,
    /// The id of the run, as in the container's label.
    pub(super) label: String,
    pub(super) image: String,
    /// The host process, as [`Owner`] writes it.
    pub(super) owner: String,
    pub(super) key: String,
    pub(super) name: String,
    /// Whether it is kept after its run.
    pub(super) kept: bool,
    /// The engine's program.
    pub(super) executable: String,
    /// The variables with which that program finds its daemon (see [`place`]).
    pub(super) place: Vec<String>,
}

/// A record on disk.
#[derive(Clone, Debug)]
pub(super) struct ContainerRecord {
    file: PathBuf,
    pub(super) entry: ContainerEntry,
    id: Option<String>,
}

/// A key that no other container has.
pub(super) fn fresh_key() -> String {
    format!("{:032x}", fastrand::u128(..))
}

/// The values of [`PLACES`] in this process.
pub(super) fn place() -> Vec<String> {
    PLACES
        .iter()
        .map(|name| std::env::var(name).unwrap_or_default())
        .collect()
}

impl ContainerEntry {
    /// The entry for a container of this process, with a new key.
    pub(super) fn new(settings: &ContainerSettings, name: &str) -> Self {
        Self {
            run: settings.run_id.clone(),
            label: settings.label().to_owned(),
            image: settings.image.clone(),
            owner: Owner::current().to_string(),
            key: fresh_key(),
            name: name.to_owned(),
            kept: settings.keep,
            executable: settings.executable.clone(),
            place: place(),
        }
    }

    /// Writes the record.
    ///
    /// # Errors
    /// [`io::Error`] if neither folder for records can be made, is this user's own, and can be
    /// written to.
    pub(super) fn write(self) -> io::Result<ContainerRecord> {
        let mut failure = None;
        for folder in folders() {
            match self.write_in(&folder) {
                Ok(file) => {
                    return Ok(ContainerRecord {
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
        let path = folder.join(format!("{}.{}", in_name(&self.label), self.key));
        let mut line = serde_json::to_vec(self)?;
        line.push(b'\n');
        let mut file = OpenOptions::new()
            .write(true)
            .create_new(true)
            .mode(0o600)
            .open(&path)?;
        // In one write, because a host may be killed at any moment.
        if let Err(error) = file.write_all(&line) {
            let _ = fs::remove_file(&path);
            return Err(error);
        }
        Ok(path)
    }
}

impl ContainerRecord {
    /// Adds the container's id.
    pub(super) fn found(&mut self, id: &str) {
        self.id = Some(id.to_owned());
        let file = OpenOptions::new().append(true).open(&self.file);
        let line = format!("{id}\n");
        if let Err(error) = file.and_then(|mut file| file.write_all(line.as_bytes())) {
            tracing::debug!(%error, "a container's id can't be recorded: it is found by its name");
        }
    }

    /// Replaces the entry on disk by `entry`, which is of the same container.
    ///
    /// # Errors
    /// [`io::Error`] if the new file can't be written; the old one is then unchanged.
    pub(super) fn replace(self, entry: ContainerEntry) -> io::Result<Self> {
        let mut text = serde_json::to_string(&entry)?;
        text.push('\n');
        if let Some(id) = &self.id {
            text.push_str(&format!("{id}\n"));
        }
        let folder = self.file.parent().unwrap_or(Path::new("/"));
        let mut file = tempfile::NamedTempFile::new_in(folder)?;
        file.write_all(text.as_bytes())?;
        file.persist(&self.file).map_err(|error| error.error)?;
        Ok(Self { entry, ..self })
    }

    /// The host process; none if it can't be read.
    pub(super) fn owner(&self) -> Option<Owner> {
        self.entry.owner.parse().ok()
    }

    /// Whether that process is running.
    pub(super) fn life(&self) -> Life {
        self.owner().map_or(Life::Unknown, |owner| owner.life())
    }

    /// Whether another process has taken the container over since this was read.
    pub(super) fn is_taken_over(&self) -> bool {
        Self::read(&self.file).is_some_and(|now| now.entry.owner != self.entry.owner)
    }

    /// Removes the record, when the container is gone or was never made.
    pub(super) fn forget(&self) {
        match fs::remove_file(&self.file) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                tracing::warn!(file = %self.file.display(), %error, "a container's record is left");
            }
            _ => {}
        }
    }

    /// Whether `container` is the one of this record.
    pub(super) fn is_of(&self, container: &ListedContainer) -> bool {
        let same = match &self.id {
            Some(id) => *id == container.id,
            None => self.entry.name == container.name,
        };
        same && container.labels.get(KEY) == Some(&self.entry.key)
    }

    /// Whether the record's container can't appear any more; called if the engine that `executable`
    /// names does not list it.
    pub(super) fn is_over(&self, executable: &str) -> bool {
        let asked = self.entry.executable == executable && self.entry.place == place();
        asked && (self.id.is_some() || is_older(&self.file, UNBORN))
    }

    /// Whether the container may still be on its way: the engine was asked for it only just now, and
    /// has not answered.
    pub(super) fn is_young(&self) -> bool {
        self.id.is_none() && !is_older(&self.file, TURNING_UP)
    }

    /// Whether it is of a run's container that is to be removed.
    pub(super) fn is_awaited(&self, run: &str) -> bool {
        !self.entry.kept && self.entry.run == run
    }

    /// A record that is not on disk.
    #[cfg(test)]
    pub(super) fn in_memory(entry: ContainerEntry) -> Self {
        Self {
            file: PathBuf::new(),
            entry,
            id: None,
        }
    }

    fn read(path: &Path) -> Option<Self> {
        let (found, text) = own_file(path, BYTES)?;
        if !is_own(&found) {
            return None;
        }
        let text = String::from_utf8(text).ok()?;
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
pub(super) fn all() -> Vec<ContainerRecord> {
    files()
        .iter()
        .filter_map(|file| ContainerRecord::read(file))
        .collect()
}

/// Records among which are all of the run with this label. Most others are not read, so that
/// hundreds of runs in one process do not read each other's.
pub(super) fn near(label: &str) -> Vec<ContainerRecord> {
    let prefix = format!("{}.", in_name(label));
    let is_near = |file: &PathBuf| {
        let name = file.file_name().unwrap_or_default().to_string_lossy();
        name.starts_with(&prefix)
    };
    let near = files().into_iter().filter(is_near);
    near.filter_map(|file| ContainerRecord::read(&file))
        .collect()
}

/// Removes files that a host has created and not written.
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
    let is_of = |record: &ContainerRecord| runs.iter().any(|run| record.is_awaited(run));
    all().iter().any(is_of)
}

/// The programs of the engines that have, or may still make, containers of a run.
pub fn engines_of_run(run: &str) -> BTreeSet<String> {
    let records = near(run).into_iter().map(|record| record.entry);
    records
        .filter(|entry| entry.label == run)
        .map(|entry| entry.executable)
        .collect()
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

/// The folders for records, the best first: a home may be read-only.
fn folders() -> [PathBuf; 2] {
    let user = rustix::process::geteuid().as_raw();
    let other = std::env::temp_dir().join(format!("mswea-containers-{user}"));
    [state_folder("containers"), other]
}

/// Whether it belongs to this user, and others can't write to it.
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

    fn entry() -> ContainerEntry {
        let settings = ContainerSettings {
            run_id: "r".into(),
            ..ContainerSettings::default()
        };
        ContainerEntry::new(&settings, "n")
    }

    #[test]
    fn a_record_knows_its_container_and_no_other() {
        let folder = tempfile::tempdir().unwrap();
        let entry = entry();
        let key = entry.key.clone();
        let file = entry.write_in(folder.path()).unwrap();
        let listed = |id: &str, name: &str, key: &str| ListedContainer {
            id: id.to_owned(),
            name: name.to_owned(),
            labels: BTreeMap::from([(KEY.to_owned(), key.to_owned())]),
        };
        let mut record = ContainerRecord::read(&file).unwrap();
        assert_eq!((record.entry.run.as_str(), &record.id), ("r", &None));
        // A container of an image made from it has its labels and another name.
        assert!(record.is_of(&listed("1", "n", &key)));
        assert!(!record.is_of(&listed("1", "copy", &key)));
        assert!(!record.is_of(&listed("1", "n", "other")));
        assert!(!record.is_over("docker"), "it may still be made");
        record.found("1");
        let record = ContainerRecord::read(&file).unwrap();
        assert!(record.is_of(&listed("1", "renamed", &key)));
        assert!(!record.is_of(&listed("2", "n", &key)));
        assert!(!record.is_of(&listed("1", "n", "other")));
        assert!(record.is_over("docker") && !record.is_over("podman"));
        record.forget();
        record.forget();
        assert!(ContainerRecord::read(&file).is_none());
    }

    #[test]
    fn files_that_others_may_have_written_are_no_records() {
        let folder = tempfile::tempdir().unwrap();
        let write = || {
            let entry = entry();
            entry.write_in(folder.path()).unwrap()
        };
        let open = write();
        fs::set_permissions(&open, fs::Permissions::from_mode(0o666)).unwrap();
        assert!(ContainerRecord::read(&open).is_none());
        let link = folder.path().join("link");
        std::os::unix::fs::symlink(write(), &link).unwrap();
        assert!(ContainerRecord::read(&link).is_none());
        let half = write();
        let text = fs::read(&half).unwrap();
        fs::write(&half, &text[..text.len() - 1]).unwrap();
        assert!(ContainerRecord::read(&half).is_none());
        fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o777)).unwrap();
        let entry = entry();
        assert!(entry.write_in(folder.path()).is_err());
    }
}

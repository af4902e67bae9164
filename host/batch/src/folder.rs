//! The directory of a batch. One process at a time works in it, and holds a lock until it ends.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::fs::{self, File};
use std::path::{Path, PathBuf};

use crate::claims::{ClaimsOf, attempt_folder, claimed_by};
use crate::error::BatchError;
use crate::frozen::FrozenBatch;
use crate::hold::{check_kind, check_links, check_rename, lock, shared_lock, worker};
use crate::manifest::{self, BatchInstance};
use crate::outcome::BatchResult;

const MANIFEST: &str = "manifest.jsonl";
const FROZEN: &str = "batch.json";
/// The folder for the folders of instances that are run again.
const REDONE: &str = ".redone";

/// A batch directory that this process has locked.
#[derive(Debug)]
pub struct BatchFolder {
    path: PathBuf,
    instances: Vec<BatchInstance>,
    /// Locked.
    _lock: File,
}

/// Which instances with a result are run again.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Redo {
    /// All of them.
    pub existing: bool,
    /// The instances that ended with an error.
    pub failed: bool,
    /// The instances whose environment could not be made.
    pub not_begun: bool,
    /// The instances with one of these exit statuses.
    pub statuses: Vec<String>,
    /// The instances with one of these ids.
    pub ids: Vec<String>,
}

impl Redo {
    fn is_for(&self, result: &BatchResult) -> bool {
        let is = |status: &String| status.eq_ignore_ascii_case(&result.exit_status);
        self.existing
            || self.failed && result.has_failed()
            || self.not_begun && !result.has_begun()
            || self.statuses.iter().any(is)
            || self.ids.contains(&result.instance_id)
    }
}

/// A batch as a process that only looks sees it.
#[derive(Debug, Default)]
pub struct FolderState {
    /// The instances of the manifest.
    pub instances: Vec<BatchInstance>,
    /// The results that there are.
    pub results: Vec<BatchResult>,
    /// The worker that works on the instance, if any.
    pub worker: Option<String>,
    /// The ids of the instances that were begun and have no result.
    pub begun: Vec<String>,
    /// Instances that workers have claimed and not given up, by machine.
    pub claimed: BTreeMap<String, usize>,
    /// The model of the batch.
    pub model: String,
    /// Why results can't be read.
    pub broken: Vec<String>,
}

impl BatchFolder {
    /// Makes the directory, or opens one that is there, and locks it. Nothing of a batch in it is changed.
    ///
    /// # Errors
    /// [`BatchError`] if it is no directory of a batch, can't be written, or is held by another process.
    pub fn open(path: &Path) -> Result<Self, BatchError> {
        fs::create_dir_all(path).map_err(BatchError::io("make", path))?;
        check_kind(path)?;
        let lock = lock(path)?;
        check_rename(path)?;
        Ok(Self {
            path: path.to_owned(),
            instances: manifest::read(&path.join(MANIFEST))?,
            _lock: lock,
        })
    }

    /// Opens the directory of a batch for one of many workers, of this machine or others, that claim its
    /// instances. Nothing in it is changed but what workers write.
    ///
    /// # Errors
    /// [`BatchError`] if it is no directory of a batch, has another config, can't be written, or is held by
    /// `batch run`.
    pub fn join(path: &Path, now: &FrozenBatch) -> Result<Self, BatchError> {
        let Some(before) = FrozenBatch::read(&path.join(FROZEN))? else {
            return Err(BatchError::Refused(format!(
                "`{}` is not the directory of a batch yet: `mswea-host batch submit` makes one with its instances and its config (`--engine none` if no engine is to start the workers)",
                path.display()
            )));
        };
        let lock = shared_lock(path)?;
        check_links(path)?;
        let folder = Self {
            path: path.to_owned(),
            instances: manifest::read(&path.join(MANIFEST))?,
            _lock: lock,
        };
        let differences = before.differences(now);
        match differences.is_empty() {
            true => Ok(folder),
            false => Err(folder.other_config(&differences)),
        }
    }

    fn other_config(&self, differences: &[String]) -> BatchError {
        BatchError::Refused(format!(
            "`{}` has begun with another config, and its results could not be compared with new ones:\n  {}\nuse another directory, give the config as it was, or add `--config-changed` to go on with this one",
            self.path.display(),
            differences.join("\n  ")
        ))
    }

    /// Whether many workers can share the directory.
    ///
    /// # Errors
    /// [`BatchError`] if its file system has no hard links, or can't be written.
    pub fn check_shared(&self) -> Result<(), BatchError> {
        check_links(&self.path)
    }

    /// The directory.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// All instances of the batch.
    pub fn instances(&self) -> &[BatchInstance] {
        &self.instances
    }

    /// Adds instances that are not in the manifest yet.
    ///
    /// # Errors
    /// [`BatchError`] if one of them has the id of another one, or if the manifest can't be written.
    pub fn add(&mut self, instances: &[BatchInstance]) -> Result<(), BatchError> {
        let before = self.instances.len();
        let all = manifest::joined(self.instances.clone(), instances)?;
        if all.len() > before {
            manifest::write(&self.path.join(MANIFEST), &all)?;
        }
        self.instances = all;
        Ok(())
    }

    /// Compares the config with the batch's, or freezes it if the batch is new. `accepts`: another config
    /// takes its place.
    ///
    /// # Errors
    /// [`BatchError::Refused`] if the config is another one, with what differs.
    pub fn freeze(&self, now: &FrozenBatch, accepts: bool) -> Result<(), BatchError> {
        let path = self.path.join(FROZEN);
        let Some(before) = FrozenBatch::read(&path)? else {
            return now.write(&path);
        };
        let differences = before.differences(now);
        if differences.is_empty() {
            return Ok(());
        }
        if accepts {
            return now.write(&path);
        }
        Err(self.other_config(&differences))
    }

    /// The folder of an instance.
    pub(crate) fn of(&self, id: &str) -> PathBuf {
        self.path.join(id)
    }

    /// The results that there are.
    ///
    /// # Errors
    /// [`BatchError`] if one can't be read.
    pub fn results(&self) -> Result<Vec<BatchResult>, BatchError> {
        results(&self.path, &self.instances)
    }

    /// The instances of these ids that are to be run, in the order of the ids: those without a result, and
    /// those that `redo` names, whose folders are put aside.
    ///
    /// # Errors
    /// [`BatchError`] if a result can't be read, or a folder can't be put aside.
    pub fn to_do(&self, ids: &[String], redo: &Redo) -> Result<Vec<BatchInstance>, BatchError> {
        let by_id: HashMap<&str, &BatchInstance> = self
            .instances
            .iter()
            .map(|instance| (instance.id.as_str(), instance))
            .collect();
        let (mut left, mut again, mut claimed) = (Vec::new(), Vec::new(), 0);
        for instance in ids.iter().filter_map(|id| by_id.get(id.as_str())) {
            match BatchResult::read(&result_file(&self.path, &instance.id))? {
                Some(result) if redo.is_for(&result) => {
                    again.push(&instance.id);
                    left.push((*instance).clone());
                }
                Some(_) => {}
                None => {
                    let folder = self.of(&instance.id);
                    let claims = ClaimsOf::read(&folder);
                    let claims = claims.map_err(BatchError::io("read", &folder))?;
                    claimed += usize::from(claims.is_taken());
                    left.push((*instance).clone());
                }
            }
        }
        if claimed > 0 {
            return Err(BatchError::Refused(format!(
                "workers have claimed {claimed} instances of `{}`, and may still run on other machines: `mswea-host batch worker` goes on with them, also with those of workers that were killed",
                self.path.display()
            )));
        }
        // Nothing is moved before all is checked.
        for id in again {
            self.put_aside(id)?;
        }
        Ok(left)
    }

    /// How many instances have no result.
    pub fn missing(&self) -> usize {
        let without = |it: &&BatchInstance| !result_file(&self.path, &it.id).exists();
        self.instances.iter().filter(without).count()
    }

    fn put_aside(&self, id: &str) -> Result<(), BatchError> {
        let redone = self.path.join(REDONE);
        fs::create_dir_all(&redone).map_err(BatchError::io("make", &redone))?;
        let free = (1..).map(|number| redone.join(format!("{id}.{number}")));
        let Some(free) = free.into_iter().find(|path| !path.exists()) else {
            return Ok(());
        };
        let folder = self.of(id);
        fs::rename(&folder, &free).map_err(BatchError::io("put aside", &folder))
    }
}

impl FolderState {
    /// The journal of an instance that runs: that of its last attempt.
    pub fn journal(dir: &Path, id: &str) -> Option<PathBuf> {
        let folder = dir.join(id);
        let claims = ClaimsOf::read(&folder).ok()?;
        Some(match claims.last {
            0 => journal(dir, id),
            last => attempt_folder(&folder, last).join(journal_name(id)),
        })
    }

    /// Looks at a batch, whoever works on it.
    ///
    /// # Errors
    /// [`BatchError`] if it is no directory of a batch, or can't be read.
    pub fn read(path: &Path) -> Result<Self, BatchError> {
        if !path.join(MANIFEST).is_file() {
            return Err(BatchError::Refused(format!(
                "`{}` is not the directory of a batch: there is no `{MANIFEST}` in it; `mswea-host batch run DIR --instances FILE` makes one",
                path.display()
            )));
        }
        let instances = manifest::read(&path.join(MANIFEST))?;
        let (mut results, mut broken) = (Vec::new(), Vec::new());
        for instance in &instances {
            match BatchResult::read(&result_file(path, &instance.id)) {
                Ok(result) => results.extend(result),
                // The others can be shown all the same.
                Err(error) => broken.push(error.to_string()),
            }
        }
        let done: HashSet<&str> = results.iter().map(|it| it.instance_id.as_str()).collect();
        let mut claimed = BTreeMap::new();
        let mut begun = Vec::new();
        for instance in &instances {
            let (id, folder) = (&instance.id, path.join(&instance.id));
            if done.contains(id.as_str()) {
                continue;
            }
            let claims = ClaimsOf::read(&folder).unwrap_or_default();
            if claims.is_taken() {
                let by = claimed_by(&folder, claims.last).unwrap_or_default();
                *claimed.entry(by.machine().to_owned()).or_default() += 1;
            }
            if claims.last > 0 || journal(path, id).exists() {
                begun.push(id.clone());
            }
        }
        let frozen = FrozenBatch::read(&path.join(FROZEN))?;
        Ok(Self {
            begun,
            claimed,
            model: frozen.map_or_else(String::new, |it| it.model().to_owned()),
            worker: worker(path),
            broken,
            instances,
            results,
        })
    }
}

/// The file of an instance's result.
pub(crate) fn result_file(path: &Path, id: &str) -> PathBuf {
    path.join(id).join("result.json")
}

/// The journal of an instance.
pub(crate) fn journal(path: &Path, id: &str) -> PathBuf {
    path.join(id).join(journal_name(id))
}

/// The name of an instance's journal.
pub(crate) fn journal_name(id: &str) -> String {
    format!("{id}.events.jsonl")
}

/// The name of an instance's trajectory.
pub(crate) fn trajectory_name(id: &str) -> String {
    format!("{id}.traj.json")
}

fn results(path: &Path, instances: &[BatchInstance]) -> Result<Vec<BatchResult>, BatchError> {
    let results = instances
        .iter()
        .map(|instance| BatchResult::read(&result_file(path, &instance.id)));
    results.filter_map(Result::transpose).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn instance(id: &str) -> BatchInstance {
        BatchInstance {
            id: id.to_owned(),
            task: "t".to_owned(),
            ..BatchInstance::default()
        }
    }

    fn result(id: &str, status: &str) -> BatchResult {
        BatchResult {
            instance_id: id.to_owned(),
            exit_status: status.to_owned(),
            ..BatchResult::default()
        }
    }

    #[test]
    fn one_process_at_a_time() {
        let root = tempfile::tempdir().unwrap();
        let path = root.path().join("a/batch");
        let held = BatchFolder::open(&path).unwrap();
        let error = BatchFolder::open(&path).unwrap_err().to_string();
        let me = format!("(process {})", std::process::id());
        assert!(error.contains("another process works on"), "{error}");
        assert!(error.contains(&me), "{error}");
        drop(held);
        BatchFolder::open(&path).unwrap();
    }

    #[test]
    fn other_directories_are_refused() {
        let root = tempfile::tempdir().unwrap();
        fs::write(root.path().join("notes.txt"), "").unwrap();
        let error = BatchFolder::open(root.path()).unwrap_err().to_string();
        assert!(error.contains("is not the directory of a batch"), "{error}");
        assert!(FolderState::read(root.path()).is_err());
        assert_eq!(fs::read_dir(root.path()).unwrap().count(), 1);
        assert!(BatchFolder::open(&root.path().join("notes.txt")).is_err());
    }

    #[test]
    fn what_is_left_to_do() {
        let root = tempfile::tempdir().unwrap();
        let path = root.path().join("batch");
        let mut batch = BatchFolder::open(&path).unwrap();
        let ids = ["a", "b", "c", "d"].map(str::to_owned);
        batch.add(&ids.clone().map(|id| instance(&id))).unwrap();
        for (id, status) in [
            ("a", "Submitted"),
            ("b", "PluginError"),
            ("c", "LimitsExceeded"),
        ] {
            fs::create_dir(batch.of(id)).unwrap();
            result(id, status).write(&result_file(&path, id)).unwrap();
        }
        fs::create_dir(batch.of("d")).unwrap();
        fs::write(journal(&path, "d"), "").unwrap();
        let left = |redo: &Redo| {
            let left = batch.to_do(&ids, redo).unwrap();
            left.into_iter()
                .map(|it| it.id)
                .collect::<Vec<_>>()
                .concat()
        };
        assert_eq!(left(&Redo::default()), "d");
        // A result that was changed does not hide the others.
        let hurt = result_file(&path, "b");
        let whole = fs::read(&hurt).unwrap();
        fs::write(&hurt, "{").unwrap();
        let seen = FolderState::read(&path).unwrap();
        assert_eq!((seen.results.len(), seen.broken.len()), (2, 1));
        fs::write(&hurt, whole).unwrap();
        let state = FolderState::read(&path).unwrap();
        assert_eq!(state.begun, ["d"]);
        assert_eq!((state.instances.len(), state.results.len()), (4, 3));
        assert!(state.worker.is_some());
        let failed = Redo {
            failed: true,
            ..Redo::default()
        };
        assert_eq!(left(&failed), "bd");
        assert!(path.join(".redone/b.1/result.json").exists());
        assert_eq!(left(&Redo::default()), "bd");
        let status = Redo {
            statuses: vec!["limitsexceeded".to_owned()],
            ..Redo::default()
        };
        assert_eq!(left(&status), "bcd");
        let all = Redo {
            existing: true,
            ..Redo::default()
        };
        assert_eq!(left(&all), "abcd");
        drop(batch);
        let again = BatchFolder::open(&path).unwrap();
        assert_eq!(again.instances().len(), 4);
        assert_eq!(again.results().unwrap(), []);
    }
}

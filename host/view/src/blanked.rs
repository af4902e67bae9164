//! The secrets in the files that the configs of runs name. They are blanked in everything that is
//! shown.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use mswea_export::SecretValues;
use serde_json::Value;

use crate::card::FileStamp;
use crate::settings::SecretsIn;

/// The known files of secrets. Clones share them.
#[derive(Clone)]
pub(crate) struct SecretsFiles {
    /// The set to which the secrets are added.
    secrets: SecretValues,
    in_file: SecretsIn,
    /// The files that were read, each with its stamp at that time.
    read: Arc<Mutex<BTreeMap<PathBuf, Option<FileStamp>>>>,
}

impl SecretsFiles {
    pub(crate) fn new(secrets: SecretValues, in_file: SecretsIn) -> Self {
        Self {
            secrets,
            in_file,
            read: Arc::default(),
        }
    }

    /// Reads the file that this config of a run names, unless it is known and unchanged.
    pub(crate) fn of_config(&self, config: &Value) {
        if let Some(path) = config["model"]["secrets_file"].as_str() {
            self.note(Path::new(path));
        }
    }

    /// Reads this file, unless it is known and unchanged.
    pub(crate) fn note(&self, path: &Path) {
        let stamp = FileStamp::of(path).ok();
        // Held until the secrets are added: another reader of this file must not show them
        // meanwhile.
        let mut read = self.read.lock().unwrap_or_else(PoisonError::into_inner);
        if read.get(path) != Some(&stamp) {
            self.secrets.add((self.in_file)(path.to_owned()));
            read.insert(path.to_owned(), stamp);
        }
    }

    /// Reads the known files that have changed.
    pub(crate) fn renew(&self) {
        let read = self.read.lock().unwrap_or_else(PoisonError::into_inner);
        let paths: Vec<PathBuf> = read.keys().cloned().collect();
        drop(read);
        paths.iter().for_each(|path| self.note(path));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;
    use std::sync::atomic::{AtomicBool, Ordering};
    use std::time::Duration;

    #[test]
    fn a_file_that_is_being_read_is_waited_for() {
        static IS_READING: AtomicBool = AtomicBool::new(false);
        let secrets = SecretValues::new([]);
        let files = SecretsFiles::new(secrets.clone(), |_| {
            IS_READING.store(true, Ordering::SeqCst);
            std::thread::sleep(Duration::from_millis(100));
            vec!["only-secret".to_owned()]
        });
        let first = files.clone();
        let reader = std::thread::spawn(move || first.note(Path::new("/missing")));
        while !IS_READING.load(Ordering::SeqCst) {
            std::thread::yield_now();
        }
        files.note(Path::new("/missing"));
        let mut text = "only-secret".to_owned();
        secrets.remove_from_text(&mut text);
        assert!(!text.contains("only-secret"));
        reader.join().unwrap();
    }

    #[test]
    fn a_file_that_changes_is_read_again() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("keys");
        let secrets = SecretValues::new([]);
        let lines = |path: PathBuf| {
            let text = std::fs::read_to_string(path).unwrap_or_default();
            text.lines().map(str::to_owned).collect()
        };
        let files = SecretsFiles::new(secrets.clone(), lines);
        let cleaned = || {
            let mut text = "first-secret second-secret third-secret".to_owned();
            secrets.remove_from_text(&mut text);
            ["first", "second", "third"].map(|it| text.contains(it))
        };
        files.of_config(&json!({"model": {}}));
        files.of_config(&json!({"model": {"secrets_file": path}}));
        assert_eq!(cleaned(), [true, true, true]);
        std::fs::write(&path, "first-secret\n").unwrap();
        files.of_config(&json!({"model": {"secrets_file": path}}));
        assert_eq!(cleaned(), [false, true, true]);
        std::fs::write(&path, "first-secret\nsecond-secret\n").unwrap();
        files.renew();
        assert_eq!(cleaned(), [false, false, true]);
    }
}

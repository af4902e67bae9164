//! The instances of a batch that have not begun: those of its manifest that have no folder yet.
//! Other modules only know runs.

use std::fs;
use std::io::{BufRead as _, BufReader, Read as _};
use std::path::{Path, PathBuf};

use mswea_text::one_line;
use serde::{Deserialize, Serialize};

use crate::settings::ViewRoots;

const MANIFEST: &str = "manifest.jsonl";
/// The largest manifest that is opened.
const LIMIT: u64 = 1 << 30;
/// How many bytes of manifests are read for one answer. Of what is after that nothing is known.
const READ: u64 = 256 << 20;
/// The longest line that is read.
const LINE: u64 = 4 << 20;
/// The number of instances that are named.
const NAMED: usize = 500;

/// The instances of batches, and those that have not begun.
#[derive(Debug, Default, PartialEq, Eq, Serialize)]
pub(crate) struct WaitingInstances {
    /// The number of instances in the manifests.
    instances: usize,
    /// The number of instances that have not begun.
    count: usize,
    /// The ids of the first of them.
    named: Vec<String>,
    /// Whether there are more instances than were read.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    more: bool,
}

#[derive(Deserialize)]
struct ManifestLine {
    id: String,
}

/// The waiting instances of the batch in this folder, by the folder's name in the list; of all
/// batches if the name is empty.
pub(crate) fn waiting(roots: &ViewRoots, folder: &str) -> WaitingInstances {
    let (mut found, mut left) = (WaitingInstances::default(), READ);
    let ViewRoots::Paths(paths) = roots else {
        return found;
    };
    for root in paths {
        if folder.is_empty() {
            look(root, &mut found, &mut left);
        }
        for (name, path) in folders(root) {
            if folder.is_empty() || name == folder {
                look(&path, &mut found, &mut left);
            }
        }
    }
    found
}

/// The subfolders of a folder that the list searches.
fn folders(root: &Path) -> Vec<(String, PathBuf)> {
    let entries = fs::read_dir(root).into_iter().flatten().flatten();
    let folders = entries.filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()));
    let named = folders.map(|entry| {
        let name = entry.file_name().to_string_lossy().into_owned();
        (name, entry.path())
    });
    named.filter(|(name, _)| !name.starts_with('.')).collect()
}

/// Adds the instances of the batch in this folder, if there is one, and takes what was read from `left`.
/// Only one line is in memory at a time.
fn look(batch: &Path, found: &mut WaitingInstances, left: &mut u64) {
    let Ok(file) = mswea_files::open(&batch.join(MANIFEST), LIMIT) else {
        return;
    };
    let mut lines = BufReader::new(file.take(*left));
    let mut line = Vec::new();
    while let Ok(read @ 1..) = (&mut lines).take(LINE).read_until(b'\n', &mut line) {
        let read = read as u64;
        *left = left.saturating_sub(read);
        let Ok(ManifestLine { id }) = serde_json::from_slice(&line) else {
            found.more |= *left == 0 || read == LINE;
            return;
        };
        line.clear();
        found.instances += 1;
        // An id in a modified manifest could lead to another folder.
        let is_name = !id.contains('/') && !matches!(id.as_str(), "" | "." | "..");
        if is_name && batch.join(&id).is_dir() {
            continue;
        }
        found.count += 1;
        if found.named.len() < NAMED {
            found.named.push(one_line(&id));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_without_an_end_is_not_read_whole() {
        let root = tempfile::tempdir().unwrap();
        let begin = "{\"id\":\"i1\"}\n{\"id\":\"";
        let manifest = format!("{begin}{}\"}}\n", "x".repeat(5 << 20));
        fs::write(root.path().join(MANIFEST), manifest).unwrap();
        let (mut found, mut left) = (WaitingInstances::default(), READ);
        look(root.path(), &mut found, &mut left);
        assert!(found.more && found.count == 1, "{found:?}");
        assert!(READ - left <= LINE + begin.len() as u64);
    }

    #[test]
    fn those_without_a_folder_wait() {
        let root = tempfile::tempdir().unwrap();
        let batch = root.path().join("a");
        fs::create_dir_all(batch.join("i1")).unwrap();
        fs::create_dir_all(root.path().join(".hidden")).unwrap();
        let manifest = "{\"id\":\"i1\",\"task\":\"t\"}\n{\"id\":\"i2\"}\n{\"id\":\"../a\"}\n";
        fs::write(batch.join(MANIFEST), manifest).unwrap();
        fs::write(root.path().join(".hidden").join(MANIFEST), manifest).unwrap();
        let expected = WaitingInstances {
            instances: 3,
            count: 2,
            named: vec!["i2".to_owned(), "../a".to_owned()],
            more: false,
        };
        let outer = ViewRoots::Paths(vec![root.path().to_owned()]);
        let inner = ViewRoots::Paths(vec![batch.clone()]);
        for (roots, folder) in [(&outer, "a"), (&outer, ""), (&inner, "")] {
            assert_eq!(waiting(roots, folder), expected, "{folder:?}");
        }
        for folder in ["../a", "b", "i1", ".hidden"] {
            assert_eq!(waiting(&outer, folder), WaitingInstances::default());
        }
    }
}

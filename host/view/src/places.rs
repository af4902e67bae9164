//! Finds the files of runs: journals, and trajectories without a journal beside.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use mswea_record::{journal_beside, trajectory_beside};

use crate::settings::ViewRoots;

/// The depth to which folders are searched.
const DEPTH: usize = 12;
/// The largest number of entries that are examined in all folders together.
const ENTRIES: usize = 2_000_000;

/// A file with a run.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct RunPlace {
    /// The journal, or a trajectory without one.
    pub(crate) path: PathBuf,
    /// The name in the list: the path below the folder that the user named.
    pub(crate) name: String,
    /// Whether it is a journal.
    pub(crate) is_journal: bool,
}

/// All files of runs.
pub(crate) fn all(roots: &ViewRoots) -> Vec<RunPlace> {
    let mut found = BTreeSet::new();
    match roots {
        ViewRoots::Own(journals) => {
            for path in journals() {
                let name = path.file_name().unwrap_or_default();
                let name = name.to_string_lossy().into_owned();
                found.insert((path, name));
            }
        }
        ViewRoots::Paths(paths) => {
            let mut left = ENTRIES;
            for root in paths {
                match root.is_dir() {
                    true => walk(root, root, DEPTH, &mut left, &mut found),
                    false => {
                        let journal = journal_beside(root);
                        let path = match trajectory_beside(root).is_none() && journal.is_file() {
                            true => journal,
                            false => root.clone(),
                        };
                        let name = path.file_name().unwrap_or_default();
                        let name = name.to_string_lossy().into_owned();
                        found.insert((path, name));
                    }
                }
            }
        }
    }
    let named: BTreeSet<PathBuf> = found.iter().map(|(path, _)| path.clone()).collect();
    let places = found.into_iter().filter_map(|(path, name)| {
        let is_journal = trajectory_beside(&path).is_some();
        // The journal has the same data, and more.
        let is_double = !is_journal && named.contains(&journal_beside(&path));
        (!is_double).then_some(RunPlace {
            path,
            name,
            is_journal,
        })
    });
    places.collect()
}

/// Whether a file's name is that of a journal or trajectory.
fn is_of_run(name: &str) -> bool {
    name.ends_with(".traj.json")
        || name.ends_with(".traj")
        || name.ends_with(".atif.json")
        || matches!(name, "traj.json" | "trajectory.json")
        || trajectory_beside(Path::new(name)).is_some()
}

fn walk(
    root: &Path,
    folder: &Path,
    depth: usize,
    left: &mut usize,
    found: &mut BTreeSet<(PathBuf, String)>,
) {
    let Ok(entries) = std::fs::read_dir(folder) else {
        return;
    };
    for entry in entries.flatten() {
        if *left == 0 {
            return;
        }
        *left -= 1;
        let name = entry.file_name();
        let name = name.to_string_lossy();
        // Hidden folders contain files that are being replaced, and those of version control. Links
        // are not followed: a link to a folder may form a loop, a link to a file may point
        // anywhere.
        let is_hidden = name.starts_with('.') || name == "node_modules";
        match entry.file_type() {
            Ok(kind) if kind.is_dir() && !is_hidden && depth > 0 => {
                walk(root, &entry.path(), depth - 1, left, found);
            }
            Ok(kind) if kind.is_file() && !name.starts_with('.') && is_of_run(&name) => {
                let path = entry.path();
                let shown = path.strip_prefix(root).unwrap_or(&path);
                let shown = shown.to_string_lossy().into_owned();
                found.insert((path, shown));
            }
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_of_runs_are_found_once() {
        let folder = tempfile::tempdir().unwrap();
        for name in [
            "a/one.events.jsonl",
            "a/one.traj.json",
            "b/c/two.traj.json",
            "traj.json",
            "trajectory.json",
            "sweagent.traj",
            "old.events.jsonl.1",
            ".hidden/three.traj.json",
            "a/.four.traj.json.mswea-tmp",
            "result.json",
            "preds.json",
        ] {
            let path = folder.path().join(name);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, "").unwrap();
        }
        let link = folder.path().join("link.traj.json");
        std::os::unix::fs::symlink("/etc/passwd", link).unwrap();
        let roots = ViewRoots::Paths(vec![folder.path().to_owned()]);
        let mut found: Vec<(String, bool)> = all(&roots)
            .into_iter()
            .map(|place| (place.name, place.is_journal))
            .collect();
        found.sort();
        let expected = [
            ("a/one.events.jsonl", true),
            ("b/c/two.traj.json", false),
            ("old.events.jsonl.1", true),
            ("sweagent.traj", false),
            ("traj.json", false),
            ("trajectory.json", false),
        ];
        assert_eq!(found, expected.map(|(name, is)| (name.to_owned(), is)));
    }
}

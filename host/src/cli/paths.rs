//! Where a run's files go.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};

/// The trajectory and the journal of a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RunFiles {
    /// The trajectory, `*.traj.json`.
    pub trajectory: PathBuf,
    /// The journal, `*.events.jsonl` beside it; below the state folder if the trajectory goes
    /// to a device.
    pub journal: PathBuf,
}

impl RunFiles {
    /// The files of a run whose trajectory goes to `output`, or to a file named after the run
    /// below the user's state folder (`$XDG_STATE_HOME`, else `~/.local/state`; without a home,
    /// the temporary folder).
    pub fn of(output: Option<&str>, run_id: &str) -> Self {
        let trajectory = match output {
            Some(output) => PathBuf::from(output),
            None => state_folder().join(format!("{run_id}.traj.json")),
        };
        let journal = if is_device(&trajectory) {
            state_folder().join(format!("{run_id}.events.jsonl"))
        } else {
            journal_beside(&trajectory)
        };
        Self {
            trajectory,
            journal,
        }
    }

    /// Makes the folders. What an earlier run of the same name recorded is kept by
    /// [`JournalFile::create`](crate::journal::JournalFile::create), which alone can tell
    /// whether that run still goes on.
    ///
    /// # Errors
    /// When a folder can't be made.
    pub fn make_room(&self) -> std::io::Result<()> {
        let folders = [self.trajectory.parent(), self.journal.parent()];
        for folder in folders.into_iter().flatten() {
            if folder.as_os_str().is_empty() {
                continue;
            }
            match std::fs::create_dir_all(folder) {
                // The system's words for it ("file exists") puzzle more than they tell.
                Err(error) if error.kind() == ErrorKind::AlreadyExists => {
                    let text = format!("`{}` is no folder", folder.display());
                    return Err(std::io::Error::other(text));
                }
                made => made?,
            }
        }
        if self.trajectory.is_dir() {
            return Err(std::io::Error::other("it is a folder"));
        }
        Ok(())
    }

    /// Whether the trajectory goes to a device or a pipe.
    pub fn to_device(&self) -> bool {
        is_device(&self.trajectory)
    }

    /// The journal as the trajectory names it: the name alone if they stand side by side, as
    /// that stays true when both are moved.
    pub fn journal_seen_from_trajectory(&self) -> &Path {
        match self.journal.file_name() {
            Some(name) if self.journal.parent() == self.trajectory.parent() => Path::new(name),
            _ => &self.journal,
        }
    }
}

/// Whether `path` is a device or a pipe, beside which there is no place for a file.
fn is_device(path: &Path) -> bool {
    // `/dev/stdout` may lead to a plain file; the folder is none for files all the same.
    ["/dev", "/proc"]
        .iter()
        .any(|folder| path.starts_with(folder))
        || std::fs::metadata(path).is_ok_and(|meta| !meta.is_file() && !meta.is_dir())
}

fn journal_beside(trajectory: &Path) -> PathBuf {
    let name = trajectory
        .file_name()
        .map(|name| name.to_string_lossy().into_owned())
        .unwrap_or_default();
    let stem = name
        .strip_suffix(".traj.json")
        .or_else(|| name.strip_suffix(".json"))
        .unwrap_or(&name);
    trajectory.with_file_name(format!("{stem}.events.jsonl"))
}

/// The user's own price table; see [`crate::provider::price`].
pub fn price_table() -> Option<PathBuf> {
    crate::provider::price::updated_table(|name| std::env::var_os(name))
}

fn state_folder() -> PathBuf {
    let absolute = |name: &str| {
        std::env::var_os(name)
            .map(PathBuf::from)
            .filter(|path| path.is_absolute())
    };
    absolute("XDG_STATE_HOME")
        .or_else(|| Some(absolute("HOME")?.join(".local/state")))
        .unwrap_or_else(std::env::temp_dir)
        .join("mswea-host/runs")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::journal::JournalFile;

    #[test]
    fn the_journal_stands_beside_the_trajectory() {
        for (trajectory, journal) in [
            ("a/run.traj.json", "a/run.events.jsonl"),
            ("traj.json", "traj.events.jsonl"),
            ("out", "out.events.jsonl"),
        ] {
            assert_eq!(
                RunFiles::of(Some(trajectory), "x").journal,
                Path::new(journal)
            );
        }
    }

    /// Whether to move it is decided under its lock, by the journal.
    #[test]
    fn making_room_leaves_a_journal_where_it_is() {
        let folder = tempfile::tempdir().unwrap();
        let output = folder.path().join("new/t.json");
        let files = RunFiles::of(output.to_str(), "x");
        files.make_room().unwrap();
        let running = JournalFile::create(&files.journal).unwrap();
        files.make_room().unwrap();
        assert!(files.journal.exists());
        let refused = JournalFile::create(&files.journal).unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::WouldBlock);
        drop(running);
    }

    #[test]
    fn beside_a_device_there_is_no_place() {
        let folder = tempfile::tempdir().unwrap();
        let socket = folder.path().join("socket");
        let _listener = std::os::unix::net::UnixListener::bind(&socket).unwrap();
        for device in [
            "/dev/stdout",
            "/dev/null",
            "/dev/fd/1",
            socket.to_str().unwrap(),
        ] {
            let files = RunFiles::of(Some(device), "run-1");
            assert_eq!(files.trajectory, Path::new(device));
            let expected = state_folder().join("run-1.events.jsonl");
            assert_eq!(files.journal, expected, "{device}");
            assert_eq!(files.journal_seen_from_trajectory(), expected);
        }
    }

    #[test]
    fn a_trajectory_names_its_neighbour_by_its_name() {
        for (output, seen) in [
            (Some("a/run.traj.json"), "run.events.jsonl"),
            (Some("run.traj.json"), "run.events.jsonl"),
            (None, "x.events.jsonl"),
        ] {
            let files = RunFiles::of(output, "x");
            assert_eq!(files.journal_seen_from_trajectory(), Path::new(seen));
        }
    }
}

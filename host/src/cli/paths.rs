//! Where a run's files go.

use std::path::{Path, PathBuf};

/// The trajectory and the journal of a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RunFiles {
    /// The trajectory, `*.traj.json`.
    pub trajectory: PathBuf,
    /// The journal, `*.events.jsonl` beside it.
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
        let journal = journal_beside(&trajectory);
        Self {
            trajectory,
            journal,
        }
    }

    /// Makes the folder, and moves the journal of an earlier run out of the way: what was
    /// recorded stays.
    ///
    /// # Errors
    /// When the folder can't be made or written.
    pub fn make_room(&self) -> std::io::Result<()> {
        if let Some(folder) = self.journal.parent()
            && !folder.as_os_str().is_empty()
        {
            std::fs::create_dir_all(folder)?;
        }
        if self.trajectory.is_dir() {
            return Err(std::io::Error::other("it is a folder"));
        }
        if std::fs::symlink_metadata(&self.journal).is_ok_and(|meta| meta.is_file()) {
            let kept = (1..)
                .map(|number| {
                    let mut name = self.journal.clone().into_os_string();
                    name.push(format!(".{number}"));
                    PathBuf::from(name)
                })
                .find(|path| !path.exists());
            if let Some(kept) = kept {
                std::fs::rename(&self.journal, kept)?;
            }
        }
        Ok(())
    }
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

    #[test]
    fn an_earlier_journal_is_kept() {
        let folder = tempfile::tempdir().unwrap();
        let files = RunFiles::of(folder.path().join("t.json").to_str(), "x");
        for text in ["first", "second"] {
            files.make_room().unwrap();
            std::fs::write(&files.journal, text).unwrap();
        }
        let kept = std::fs::read_to_string(folder.path().join("t.events.jsonl.1")).unwrap();
        assert_eq!(kept, "first");
    }
}

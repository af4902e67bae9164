//! The paths of a run's files.

use std::ffi::OsString;
use std::io::ErrorKind;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use serde_json::Value;

/// The trajectory and the journal of a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RunFiles {
    /// The trajectory, `*.traj.json`.
    pub trajectory: PathBuf,
    /// The journal: `*.events.jsonl` beside the trajectory, or below the state folder if the
    /// trajectory goes to a device.
    pub journal: PathBuf,
}

impl RunFiles {
    /// The files of a run whose trajectory goes to `output`, or to a file named after the run
    /// below the user's state folder (`$XDG_STATE_HOME`, else `~/.local/state`; without a home,
    /// the temporary folder).
    pub fn of(output: Option<&str>, run_id: &str) -> Self {
        let trajectory = match output {
            Some(output) => PathBuf::from(output),
            None => runs_folder().join(format!("{run_id}.traj.json")),
        };
        let journal = if is_device(&trajectory) {
            runs_folder().join(format!("{run_id}.events.jsonl"))
        } else {
            journal_beside(&trajectory)
        };
        Self {
            trajectory,
            journal,
        }
    }

    /// Makes the folders. Returns those that are new, the outer ones first. The files of an earlier
    /// run with the same name are kept by [`Claim::begin`](crate::journal::Claim::begin),
    /// because only the journal's lock shows whether that run is still running.
    ///
    /// # Errors
    /// The system's error if a folder can't be made, or if the trajectory's path
    /// is a folder.
    pub fn make_room(&self) -> std::io::Result<Vec<PathBuf>> {
        let other = |text: &str| Err(std::io::Error::other(text));
        let name = self.trajectory.as_os_str().as_encoded_bytes();
        if name.is_empty() {
            return other("its name is empty");
        }
        if name.ends_with(b"/") {
            return other("it is a folder, and a file is needed");
        }
        if self.trajectory.is_dir() {
            return other("it is a folder");
        }
        let real = |path: &Path| std::fs::metadata(path).map(|it| (it.dev(), it.ino()));
        if let (Ok(trajectory), Ok(journal)) = (real(&self.trajectory), real(&self.journal))
            && trajectory == journal
        {
            return other(&format!(
                "it is the run's own journal `{}`",
                self.journal.display()
            ));
        }
        let folders = [self.trajectory.parent(), self.journal.parent()];
        let mut made = Vec::new();
        for folder in folders.into_iter().flatten() {
            if folder.as_os_str().is_empty() {
                continue;
            }
            let missing = folder.ancestors().take_while(|it| !it.exists());
            let mut missing: Vec<_> = missing.map(Path::to_owned).collect();
            let done = match folder == runs_folder() {
                true => mswea_files::make_private(folder),
                false => std::fs::create_dir_all(folder),
            };
            match done {
                // The system's message ("file exists") would be misleading.
                Err(error) if error.kind() == ErrorKind::AlreadyExists => {
                    return other(&format!("`{}` is no folder", folder.display()));
                }
                made => made?,
            }
            missing.retain(|it| !it.as_os_str().is_empty());
            made.extend(missing.into_iter().rev());
        }
        Ok(made)
    }

    /// The names of all files that are written for the run or were for an earlier one of the same
    /// name, as git's glob patterns.
    pub fn own_files(&self) -> Vec<String> {
        let name = |path: &Path| {
            let name = path.file_name().unwrap_or_default().to_string_lossy();
            let mut pattern = String::new();
            for c in name.chars() {
                if matches!(c, '*' | '?' | '[' | '\\') {
                    pattern.push('\\');
                }
                pattern.push(c);
            }
            pattern
        };
        let (trajectory, journal) = (name(&self.trajectory), name(&self.journal));
        vec![
            format!(".{trajectory}.mswea-tmp*"),
            format!(".{journal}.mswea-tmp*"),
            format!("{journal}.[0-9]*"),
            trajectory,
            journal,
        ]
    }

    /// Removes the unfinished files that a killed host has left: those that were to take the place of
    /// the trajectory or of the journal. The caller has the journal's lock.
    pub fn remove_temporary(&self) {
        for path in [&self.trajectory, &self.journal] {
            let name = path.file_name().unwrap_or_default();
            let prefix = [b".", name.as_bytes(), b".mswea-tmp"].concat();
            let folder = match path.parent() {
                Some(folder) if !folder.as_os_str().is_empty() => folder,
                _ => Path::new("."),
            };
            for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
                let name = entry.file_name();
                let rest = name.as_bytes().strip_prefix(&prefix[..]);
                if rest.is_some_and(|rest| rest.is_empty() || rest.starts_with(b"-"))
                    && entry.file_type().is_ok_and(|it| it.is_file())
                {
                    let _ = std::fs::remove_file(entry.path());
                }
            }
        }
    }

    /// The path of the journal for the trajectory: only its name if both are in the same folder, so
    /// that it stays valid when both are moved.
    pub fn journal_seen_from_trajectory(&self) -> &Path {
        match self.journal.file_name() {
            Some(name) if self.journal.parent() == self.trajectory.parent() => Path::new(name),
            _ => &self.journal,
        }
    }
}

/// Whether `path` is a device or a pipe, beside which there is no place for a file.
pub fn is_device(path: &Path) -> bool {
    // `/dev/stdout` may be a link to a plain file, but no file can be made in its folder.
    ["/dev", "/proc"]
        .iter()
        .any(|folder| path.starts_with(folder))
        || std::fs::metadata(path).is_ok_and(|meta| !meta.is_file() && !meta.is_dir())
}

/// The journal of `fix.traj.json` is `fix.events.jsonl`, and that of `traj.json` is
/// `traj.events.jsonl`; other names keep their suffix, so that `fix` and `fix.json` have journals
/// of their own.
pub fn journal_beside(trajectory: &Path) -> PathBuf {
    let name = trajectory.file_name().unwrap_or_default();
    let bytes = name.as_bytes();
    let stem = match bytes.strip_suffix(b"traj.json") {
        Some(b"") => b"traj".to_vec(),
        Some(stem) if stem.ends_with(b".") => stem[..stem.len() - 1].to_vec(),
        _ => [bytes, b".run"].concat(),
    };
    trajectory.with_file_name(OsString::from_vec([&stem[..], JOURNAL].concat()))
}

/// The trajectory that belongs to the journal `journal`, if its name is one that [`journal_beside`]
/// returns. A journal that was renamed for a later run has a number at its end.
pub fn trajectory_beside(journal: &Path) -> Option<PathBuf> {
    let name = journal.file_name()?.as_bytes();
    let (name, number) = match name.iter().rposition(|byte| *byte == b'.') {
        Some(at) if at + 1 < name.len() && name[at + 1..].iter().all(u8::is_ascii_digit) => {
            name.split_at(at)
        }
        _ => (name, &b""[..]),
    };
    let stem = name.strip_suffix(JOURNAL)?;
    let trajectory = match (stem.strip_suffix(b".run"), stem) {
        (Some(whole), _) if !whole.is_empty() => whole.to_vec(),
        (_, b"") => return None,
        (_, b"traj") => b"traj.json".to_vec(),
        (_, stem) => [stem, b".traj.json"].concat(),
    };
    Some(journal.with_file_name(OsString::from_vec([&trajectory[..], number].concat())))
}

/// The path of the trajectory of a run, from its journal's path and its config.
pub fn trajectory_of(journal: &Path, config: &Value) -> PathBuf {
    // The journal has the configured path; it is used only if it still fits the journal's name.
    let output = config.pointer("/agent/output_path").and_then(Value::as_str);
    let named = output
        .and_then(|output| Path::new(output).file_name())
        .map(|name| journal.with_file_name(name))
        .filter(|output| journal_beside(output) == journal);
    named
        .or_else(|| trajectory_beside(journal))
        .unwrap_or_else(|| journal.with_extension("traj.json"))
}

const JOURNAL: &[u8] = b".events.jsonl";

/// The journals of this name that later runs have put aside: `JOURNAL.1`, `JOURNAL.2`, ...
pub fn put_aside(journal: PathBuf) -> impl Iterator<Item = PathBuf> {
    let numbered = (1_u32..).map(move |number| {
        let mut name = journal.clone().into_os_string();
        name.push(format!(".{number}"));
        PathBuf::from(name)
    });
    numbered.take_while(|path| path.symlink_metadata().is_ok())
}

/// The folder of runs without a given file.
pub fn runs_folder() -> PathBuf {
    mswea_files::state_folder("runs")
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
            // Each of these paths names another run.
            ("out.traj.json", "out.events.jsonl"),
            ("out.json", "out.json.run.events.jsonl"),
            ("out", "out.run.events.jsonl"),
            ("outtraj.json", "outtraj.json.run.events.jsonl"),
        ] {
            assert_eq!(
                RunFiles::of(Some(trajectory), "x").journal,
                Path::new(journal)
            );
            let back = trajectory_beside(Path::new(journal));
            assert_eq!(back.as_deref(), Some(Path::new(trajectory)));
            let back = trajectory_beside(Path::new(&format!("{journal}.12")));
            assert_eq!(back, Some(format!("{trajectory}.12").into()));
        }
        for other in [
            "events.jsonl",
            "a.jsonl",
            ".events.jsonl",
            "a.traj.json",
            "",
        ] {
            assert_eq!(trajectory_beside(Path::new(other)), None, "{other}");
        }
    }

    #[test]
    fn new_folders_are_told_and_names_of_folders_refused() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
        let made = RunFiles::of(Some(&at("a/b/t.json")), "x").make_room();
        assert_eq!(made.unwrap(), [at("a"), at("a/b")].map(PathBuf::from));
        let made = RunFiles::of(Some(&at("a/b/t.json")), "x").make_room();
        assert_eq!(made.unwrap(), Vec::<PathBuf>::new());
        for name in [at("new/"), at("a"), at("a/"), String::new()] {
            RunFiles::of(Some(&name), "x").make_room().unwrap_err();
        }
        assert!(!folder.path().join("new").exists());
    }

    /// The journal decides under its lock whether the file is moved.
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
            let expected = runs_folder().join("run-1.events.jsonl");
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

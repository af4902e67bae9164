//! The notes of a person about runs: a label and a text each, in a file beside the runs. This crate
//! writes no other file.

use std::collections::BTreeMap;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use serde::{Deserialize, Serialize};

use crate::places::RunPlace;
use crate::settings::ViewRoots;

/// The file's name.
const NAME: &str = "view-notes.json";
/// The largest label and the largest text, in bytes.
const LABEL: usize = 240;
const NOTE: usize = 80_000;

/// The note about a run.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct RunNote {
    pub(crate) label: String,
    pub(crate) note: String,
}

#[derive(Clone, Debug, Default, Serialize, Deserialize)]
struct NotesFile {
    /// The notes by the run's id, or by the name of a file without an id.
    #[serde(default)]
    runs: BTreeMap<String, RunNote>,
    /// The keys of later versions.
    #[serde(flatten)]
    rest: serde_json::Map<String, serde_json::Value>,
}

/// The notes.
pub(crate) struct RunNotes {
    path: PathBuf,
    /// The notes as last read or written; an error if the file can't be read.
    known: Mutex<Result<NotesFile, String>>,
}

impl RunNotes {
    /// The notes in the file beside these runs.
    pub(crate) fn beside(roots: &ViewRoots) -> Self {
        let folder = match roots {
            ViewRoots::Own(_) => mswea_record::runs_folder(),
            ViewRoots::Paths(paths) => match paths.first() {
                Some(path) if path.is_dir() => path.clone(),
                Some(path) => path.parent().map(Path::to_owned).unwrap_or_default(),
                None => PathBuf::new(),
            },
        };
        let path = folder.join(NAME);
        Self {
            known: Mutex::new(read(&path)),
            path,
        }
    }

    /// The note about a run.
    pub(crate) fn of(&self, key: &str) -> RunNote {
        let known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        let note = known.as_ref().ok().and_then(|file| file.runs.get(key));
        note.cloned().unwrap_or_default()
    }

    /// Saves the note about a run.
    ///
    /// # Errors
    /// A message if the note is too long, or the file can't be read or written.
    pub(crate) fn keep(&self, key: &str, note: RunNote) -> Result<(), String> {
        for (name, text, most) in [("label", &note.label, LABEL), ("note", &note.note, NOTE)] {
            if text.len() > most {
                return Err(format!(
                    "the {name} has more than {most} bytes: make it shorter"
                ));
            }
        }
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        // Another page may have changed the file.
        let mut file = read(&self.path)?;
        match note == RunNote::default() {
            true => file.runs.remove(key),
            false => file.runs.insert(key.to_owned(), note),
        };
        write(&self.path, &file).map_err(|error| format!("can't write `{NAME}`: {error}"))?;
        *known = Ok(file);
        Ok(())
    }
}

/// The key of a run in the notes.
pub(crate) fn key<'r>(place: &'r RunPlace, run_id: &'r str) -> &'r str {
    match place.is_journal && !run_id.is_empty() {
        true => run_id,
        false => &place.name,
    }
}

fn read(path: &Path) -> Result<NotesFile, String> {
    if path.symlink_metadata().is_err() {
        return Ok(NotesFile::default());
    }
    let bytes = mswea_files::read(path, mswea_files::SETTINGS)
        .map_err(|error| format!("can't read `{NAME}`: {error}"))?;
    serde_json::from_slice(&bytes).map_err(|error| {
        format!("`{NAME}` beside the runs is no file of notes ({error}): move it away")
    })
}

fn write(path: &Path, file: &NotesFile) -> std::io::Result<()> {
    let folder = path.parent().unwrap_or(Path::new("."));
    let mut text = serde_json::to_vec_pretty(file).map_err(std::io::Error::other)?;
    text.push(b'\n');
    // A larger file could not be read again.
    if text.len() as u64 > mswea_files::SETTINGS {
        return Err(std::io::Error::other(
            "there are too many notes: remove some, or make them shorter",
        ));
    }
    let mut new = tempfile::Builder::new()
        .prefix(".view-notes")
        .tempfile_in(folder)?;
    new.write_all(&text)?;
    new.persist(path)?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn notes_are_kept_beside_the_runs() {
        let folder = tempfile::tempdir().unwrap();
        let roots = ViewRoots::Paths(vec![folder.path().to_owned()]);
        let note = |label: &str| RunNote {
            label: label.to_owned(),
            note: "n".to_owned(),
        };
        let notes = RunNotes::beside(&roots);
        assert_eq!(notes.of("r"), RunNote::default());
        notes.keep("r", note("one")).unwrap();
        notes.keep("s", note("two")).unwrap();
        assert_eq!(notes.of("r"), note("one"));
        let again = RunNotes::beside(&roots);
        assert_eq!(again.of("s"), note("two"));
        again.keep("s", RunNote::default()).unwrap();
        assert_eq!(RunNotes::beside(&roots).of("s"), RunNote::default());
        let long = note(&"x".repeat(LABEL + 1));
        assert!(notes.keep("r", long).unwrap_err().contains("label"));

        // Notes that could not be read again are not written.
        let runs = (0..220).map(|run| {
            (
                format!("r{run}"),
                RunNote {
                    note: "x".repeat(NOTE),
                    ..note("l")
                },
            )
        });
        let mut many = NotesFile {
            runs: runs.collect(),
            ..NotesFile::default()
        };
        assert!(write(&notes.path, &many).is_err());
        many.runs.retain(|key, _| key.len() < 4);
        write(&notes.path, &many).unwrap();
        notes.keep("r1", note("one")).unwrap();

        // A file with other content is not changed.
        std::fs::write(folder.path().join(NAME), "[]").unwrap();
        let error = notes.keep("r", note("three")).unwrap_err();
        assert!(error.contains("move it away"), "{error}");
        assert_eq!(std::fs::read(folder.path().join(NAME)).unwrap(), b"[]");
    }
}

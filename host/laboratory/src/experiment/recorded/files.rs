//! Finds the files of recorded runs.

use std::collections::HashSet;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};

use super::{RecordedError, RunFileFormat, shown};

/// A file that may hold a run.
#[derive(Debug, PartialEq)]
pub(crate) struct FoundFile {
    pub path: PathBuf,
    /// Its path, relative to the place.
    pub name: String,
    pub form: RunFileFormat,
}

#[derive(Debug, Default)]
pub(crate) struct FoundFiles {
    pub files: Vec<FoundFile>,
    pub warnings: Vec<String>,
}

/// The kind of file by its name. A journal that was renamed to make room for a later one ends with
/// a number.
fn form_of(name: &str) -> Option<RunFileFormat> {
    if name.ends_with(".traj.json") {
        return Some(RunFileFormat::Trajectory);
    }
    let name = match name.rsplit_once('.') {
        Some((stem, number)) if number.bytes().all(|byte| byte.is_ascii_digit()) => stem,
        _ => name,
    };
    let is_journal = name == "events.jsonl" || name.ends_with(".events.jsonl");
    is_journal.then_some(RunFileFormat::Journal)
}

/// All files of the places, each once, sorted by path within each place.
pub(super) fn find(places: &[PathBuf]) -> Result<FoundFiles, RecordedError> {
    let mut found = FoundFiles::default();
    let mut seen = HashSet::new();
    for place in places {
        let io = |source| RecordedError::Io {
            path: shown(place),
            source,
        };
        let is_folder = std::fs::metadata(place).map_err(io)?.is_dir();
        let mut files = if is_folder {
            std::fs::read_dir(place).map_err(io)?;
            walk(place, &mut found.warnings)
        } else {
            // A file that is named itself is read, whatever its name.
            let name = place
                .file_name()
                .unwrap_or(OsStr::new(""))
                .to_string_lossy();
            let is_lines = name.ends_with(".jsonl");
            let form = form_of(&name).unwrap_or(match is_lines {
                true => RunFileFormat::Journal,
                false => RunFileFormat::Trajectory,
            });
            vec![FoundFile {
                path: place.clone(),
                name: name.into_owned(),
                form,
            }]
        };
        files.sort_by(|a, b| a.path.cmp(&b.path));
        for file in files {
            let real = file
                .path
                .canonicalize()
                .unwrap_or_else(|_| file.path.clone());
            if seen.insert(real) {
                found.files.push(file);
            }
        }
    }
    Ok(found)
}

/// The files below a folder. Links to folders are not followed, because they may form loops.
fn walk(root: &Path, warnings: &mut Vec<String>) -> Vec<FoundFile> {
    let mut files = Vec::new();
    let mut folders = vec![root.to_path_buf()];
    while let Some(folder) = folders.pop() {
        let entries = match std::fs::read_dir(&folder) {
            Ok(entries) => entries,
            Err(error) => {
                warnings.push(format!("left out `{}`: {error}", shown(&folder)));
                continue;
            }
        };
        for entry in entries.flatten() {
            let path = entry.path();
            if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                folders.push(path);
                continue;
            }
            let form = form_of(&entry.file_name().to_string_lossy());
            if let Some(form) = form.filter(|_| path.is_file()) {
                let below = path.strip_prefix(root).unwrap_or(&path);
                files.push(FoundFile {
                    name: below.to_string_lossy().into_owned(),
                    path,
                    form,
                });
            }
        }
    }
    files
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names() {
        for (name, form) in [
            ("events.jsonl", Some(RunFileFormat::Journal)),
            ("a.events.jsonl", Some(RunFileFormat::Journal)),
            ("a.events.jsonl.12", Some(RunFileFormat::Journal)),
            ("a.traj.json", Some(RunFileFormat::Trajectory)),
            ("preds.json", None),
            ("a.jsonl", None),
            ("aevents.jsonl", None),
            ("a.events.jsonl.bak", None),
        ] {
            assert_eq!(form_of(name), form, "{name}");
        }
    }
}

//! Finds journals by the id of a run, by the beginning of an id, or by a path.

use std::collections::BTreeMap;
use std::fmt;
use std::path::{Path, PathBuf};

use super::card::head;
use mswea_core::Event;
use mswea_record::journal::glance;
use mswea_record::trajectory;
use mswea_record::{index, journal_beside, put_aside, runs_folder, trajectory_beside};

/// How many runs are named in a message if an id fits several.
const NAMED: usize = 5;

/// A journal that may exist.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct JournalPlace {
    /// The journal.
    pub(super) journal: PathBuf,
    /// The run's id, if it is known from a link.
    pub(super) noted: Option<String>,
}

impl JournalPlace {
    fn run_id(&self) -> Option<String> {
        self.noted.clone().or_else(|| head(&self.journal).ok())
    }
}

/// The runs of this user: those below the state folder, and those with a link there.
pub(super) fn all() -> Vec<JournalPlace> {
    let folder = runs_folder();
    let entries = index::entries(&folder).filter_map(|(journal, noted)| {
        let Some(run_id) = noted else {
            return Some(JournalPlace {
                journal,
                noted: None,
            });
        };
        // A command may have removed the journal, and it was continued beside the link.
        let is_here = folder.join(format!("{run_id}.events.jsonl")).exists();
        (!is_here).then(|| JournalPlace {
            journal: followed(&run_id, journal),
            noted: Some(run_id),
        })
    });
    entries.collect()
}

/// The current path of a linked journal: a later run with the same output may have renamed it.
fn followed(run_id: &str, noted: PathBuf) -> PathBuf {
    let is_it = |path: &Path| head(path).is_ok_and(|found| found == run_id);
    if is_it(&noted) {
        return noted;
    }
    let aside = put_aside(noted.clone()).find(|path| is_it(path));
    aside.unwrap_or(noted)
}

/// The journal of one run, named by its id, by the beginning of its id, or by the path of its
/// journal or trajectory.
///
/// # Errors
/// A message if no journal or more than one matches.
pub(in crate::cli) fn one(named: &Path) -> Result<PathBuf, String> {
    if let Some(id) = named.to_str().filter(|it| index::is_plain(it))
        && let Some(found) = by_id(id)?
    {
        return Ok(found);
    }
    let mut found = journals_of(named).map_err(|error| match named.to_str() {
        Some(id) if index::is_plain(id) && !named.exists() => {
            format!("no run has an id that begins with `{id}`, and {error}: `mswea-host runs list` shows the runs")
        }
        _ => error,
    })?;
    match (found.pop(), found.len()) {
        (Some(journal), 0) => Ok(journal),
        (_, more) => Err(format!(
            "{} journals are in the folder `{}`: name one of them",
            more + 1,
            named.display()
        )),
    }
}

/// # Errors
/// A message if several runs have such an id, or if the run has several journals, which are copies.
fn by_id(id: &str) -> Result<Option<PathBuf>, String> {
    let mut found: BTreeMap<String, Vec<PathBuf>> = BTreeMap::new();
    for place in all() {
        if let Some(run_id) = place.run_id().filter(|run_id| run_id.starts_with(id)) {
            found.entry(run_id).or_default().push(place.journal);
        }
    }
    let whole = found.remove_entry(id);
    let Some((run_id, mut journals)) = whole.or_else(|| found.pop_first()) else {
        return Ok(None);
    };
    if run_id != id && !found.is_empty() {
        let count = found.len() + 1;
        let names = std::iter::once(&run_id).chain(found.keys()).take(NAMED);
        let names: Vec<String> = names.map(|name| format!("`{name}`")).collect();
        let more = if count > NAMED { ", ..." } else { "" };
        return Err(format!(
            "{count} runs have an id that begins with `{id}` ({}{more}): write more of the id",
            names.join(", "),
        ));
    }
    if journals.len() > 1 {
        journals.sort();
        let paths = journals.iter().take(NAMED);
        let paths: Vec<String> = paths.map(|path| format!("`{}`", path.display())).collect();
        let more = if journals.len() > NAMED { ", ..." } else { "" };
        return Err(format!(
            "{} journals are of the run `{run_id}` ({}{more}): name one of them",
            journals.len(),
            paths.join(", "),
        ));
    }
    Ok(journals.pop())
}

/// The journals at a path; if it is a folder, all journals in it.
///
/// # Errors
/// A message if there is none.
pub(super) fn journals_of(path: &Path) -> Result<Vec<PathBuf>, String> {
    let shown = path.display();
    let there = std::fs::metadata(path);
    if there.as_ref().is_ok_and(std::fs::Metadata::is_dir) {
        let entries =
            std::fs::read_dir(path).map_err(|error| format!("can't read `{shown}`: {error}"))?;
        let journals = entries
            .flatten()
            .map(|entry| entry.path())
            .filter(|path| trajectory_beside(path).is_some() && path.is_file());
        let journals: Vec<PathBuf> = journals.collect();
        return match journals.is_empty() {
            true => Err(format!(
                "no journal is in the folder `{shown}`: they are called `*.events.jsonl`"
            )),
            false => Ok(journals),
        };
    }
    if trajectory_beside(path).is_some() {
        return match fault(path) {
            // The reader says so.
            None | Some(PathFault::Missing) => Ok(vec![path.to_owned()]),
            Some(fault) => Err(format!("can't read the journal `{shown}`: it {fault}")),
        };
    }
    // The trajectory itself may be missing.
    let named = named_journal(path).filter(|journal| journal.is_file());
    let journal = named.unwrap_or_else(|| journal_beside(path));
    match fault(&journal) {
        None => Ok(vec![journal]),
        Some(PathFault::Missing) if there.is_err() => Err(format!(
            "there is neither a file `{shown}` nor its journal `{}`",
            journal.display()
        )),
        Some(fault) => Err(format!(
            "`{shown}` is not a journal (`*.events.jsonl`), and it has no journal beside it: `{}` {fault}",
            journal.display()
        )),
    }
}

/// Why a path names no journal.
enum PathFault {
    Missing,
    Dangling,
    Folder,
    NotPlain,
    Unreadable(std::io::Error),
}

impl fmt::Display for PathFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Missing => f.write_str("does not exist"),
            Self::Dangling => f.write_str("is a link that leads nowhere"),
            Self::Folder => f.write_str("is a folder"),
            Self::NotPlain => f.write_str("is no plain file"),
            Self::Unreadable(error) => write!(f, "can't be read: {error}"),
        }
    }
}

/// Why the file is no journal; none for a plain file, and for a link to one.
fn fault(path: &Path) -> Option<PathFault> {
    match std::fs::metadata(path) {
        Ok(file) if file.is_file() => None,
        Ok(file) if file.is_dir() => Some(PathFault::Folder),
        Ok(_) => Some(PathFault::NotPlain),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            let is_link = std::fs::symlink_metadata(path).is_ok();
            Some(if is_link {
                PathFault::Dangling
            } else {
                PathFault::Missing
            })
        }
        Err(error) => Some(PathFault::Unreadable(error)),
    }
}

/// The journal that a trajectory names.
fn named_journal(path: &Path) -> Option<PathBuf> {
    let owner = trajectory::owner(path).ok()?;
    let name = PathBuf::from(owner.journal?);
    // A trajectory from a repository may name any path, so only a journal beside it is used.
    let journal = (name.file_name()? == name.as_os_str()).then(|| path.with_file_name(&name))?;
    // If both files were renamed, another run may have the old name.
    let opened = mswea_files::open(&journal, u64::MAX).ok();
    let of = opened.and_then(|file| Some(glance(&file).ok()?.head.event));
    let is_of_another = match (of, owner.run_id) {
        (Some(Event::RunStarted { run_id, .. }), Some(own)) => run_id != own,
        _ => false,
    };
    (!is_of_another).then_some(journal)
}

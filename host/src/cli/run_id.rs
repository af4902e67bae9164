//! The id of a new run: the one that `--run-id` names, or a new one.

use std::io::ErrorKind;
use std::ops::Deref;

use super::output::Failure;
use mswea_record::index::{self, HeldRunId};
use mswea_record::runs_folder;
use mswea_session::new_run_id;

/// The id of a new run. While this exists, no other process can choose it.
pub(super) struct ChosenRunId {
    id: String,
    _held: Option<HeldRunId>,
}

impl Deref for ChosenRunId {
    type Target = String;

    fn deref(&self) -> &String {
        &self.id
    }
}

/// Chooses the id of a new run.
///
/// # Errors
/// [`Failure`] if the given id is invalid, if a run has it, or if another process is beginning a
/// run with it.
pub(super) fn chosen(given: Option<&str>) -> Result<ChosenRunId, Failure> {
    let Some(id) = given else {
        return Ok(ChosenRunId {
            id: new_run_id(),
            _held: None,
        });
    };
    check(id)?;
    let folder = runs_folder();
    let held = match HeldRunId::hold(&folder, id) {
        Ok(held) => Some(held),
        Err(error) if error.kind() == ErrorKind::WouldBlock => {
            return Err(Failure::usage(format!(
                "`--run-id {id}`: a run of another process has this id; choose another one"
            )));
        }
        // Without a writable state folder, no run has a link there either.
        Err(error) => {
            tracing::debug!(%error, "the id of the run can't be held");
            None
        }
    };
    let journal = index::journal_of(&folder, id);
    if let Some(journal) = journal {
        return Err(Failure::usage(format!(
            "`--run-id {id}`: a run has this id, its journal is `{}`; choose another id, or go on with that run: `mswea-host resume {id}`",
            journal.display()
        )));
    }
    // The files of the run with this id were removed by hand.
    index::forget(&folder, id);
    Ok(ChosenRunId {
        id: id.to_owned(),
        _held: held,
    })
}

/// Checks an id, which becomes a part of file names and labels.
fn check(id: &str) -> Result<(), Failure> {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
    let is_name = id.starts_with(|c: char| c.is_ascii_alphanumeric());
    match is_name && id.len() <= 80 && id.chars().all(is_plain) {
        true => Ok(()),
        false => Err(Failure::usage(format!(
            "`--run-id {}`: an id has letters, digits, `-`, `_` and `.`, at most 80, and begins with a letter or a digit",
            mswea_text::harmless(id)
        ))),
    }
}

//! The id of a new run: the one that `--run-id` names, or a new one.

use super::output::Failure;
use mswea_session::{index, new_run_id, runs_folder};

/// The id of a new run.
///
/// # Errors
/// If the given id can't be one, or a run has it.
pub(super) fn chosen(given: Option<&str>) -> Result<String, Failure> {
    let Some(id) = given else {
        return Ok(new_run_id());
    };
    check(id)?;
    let folder = runs_folder();
    let journal = index::journal_of(&folder, id);
    if let Some(journal) = journal {
        return Err(Failure::usage(format!(
            "`--run-id {id}`: a run has this id, its journal is `{}`; choose another id, or go on with that run: `mswea-host resume {id}`",
            journal.display()
        )));
    }
    // Of a run whose files were removed by hand.
    index::forget(&folder, id);
    Ok(id.to_owned())
}

/// An id is a part of names of files, and of labels.
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

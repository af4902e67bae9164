//! The folder in which commands start.

use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use mswea_core::{ExecutorError, Output};

use super::LocalExecutor;
use crate::aside::look;
use crate::failure::ActionFailure;
use crate::hanging::StartLimit;

/// The path of the host's own folder, in which commands start if no other is configured. With an
/// inherited folder, commands would stay in the old one after a command had removed it and made it
/// again. None if no path leads to it.
pub(super) fn own_folder() -> Result<Option<PathBuf>, ExecutorError> {
    let path = std::env::current_dir().map_err(|error| ExecutorError::from(format!(
            "the current folder can't be used: {error}; go to one that is there, or set `environment.cwd`"
        )))?;
    // The host's own folder may have been removed, so that no path leads to it.
    let is_here = |one: &std::fs::Metadata, other: &std::fs::Metadata| {
        (one.dev(), one.ino()) == (other.dev(), other.ino())
    };
    let found = (path.metadata(), Path::new(".").metadata());
    let leads = matches!(&found, (Ok(there), Ok(here)) if is_here(there, here));
    Ok(leads.then_some(path))
}

impl LocalExecutor {
    /// The output of a command that was not started.
    pub(super) async fn not_started(
        &mut self,
        failure: ActionFailure,
        limit: &StartLimit<'_>,
    ) -> Output {
        let gone = match self.presence {
            Some(_) => self.folder_is_gone(limit).await,
            None => None,
        };
        gone.unwrap_or(failure).output(String::new())
    }

    /// The failure if commands can't start because their folder is gone, which ends the run.
    pub(super) async fn folder_is_gone(&mut self, limit: &StartLimit<'_>) -> Option<ActionFailure> {
        let cwd = self.settings.cwd.clone()?;
        let shown = cwd.display().to_string();
        let found = look(limit.left(), limit.stop(), move || cwd.metadata()).await?;
        let why = match found {
            Ok(found) if found.is_dir() => return None,
            Ok(_) => "something else is in its place".to_owned(),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                "a command has removed it".to_owned()
            }
            Err(error) => error.to_string(),
        };
        Some(ActionFailure::gone(format!(
            "the folder `{shown}`, in which every command starts, is gone: {why}; make it anew and start the run again"
        )))
    }
}

//! The folder in which commands start.

use std::os::unix::fs::MetadataExt;
use std::path::Path;

use mswea_core::ExecutorError;

use super::LocalExecutor;
use crate::failure::ActionFailure;

impl LocalExecutor {
    /// Sets the working directory of commands to the path of the host's own. If commands inherited
    /// the folder, they would stay in it after a command had removed it and made it again.
    pub(super) fn pin_folder(&mut self) -> Result<(), ExecutorError> {
        if self.settings.cwd.is_some() {
            return Ok(());
        }
        let path = std::env::current_dir().map_err(|error| ExecutorError::from(format!(
                "the current folder can't be used: {error}; go to one that is there, or set `environment.cwd`"
            )))?;
        // The host's own folder may be one that was removed, to which no path leads.
        let is_here = |one: &std::fs::Metadata, other: &std::fs::Metadata| {
            (one.dev(), one.ino()) == (other.dev(), other.ino())
        };
        if let (Ok(there), Ok(here)) = (path.metadata(), Path::new(".").metadata())
            && is_here(&there, &here)
        {
            self.settings.cwd = Some(path);
        }
        Ok(())
    }

    /// The failure if commands can't start because their folder is gone, which ends the run.
    pub(super) fn folder_is_gone(&self) -> Option<ActionFailure> {
        let cwd = self.settings.cwd.as_deref()?;
        let why = match cwd.metadata() {
            Ok(found) if found.is_dir() => return None,
            Ok(_) => "something else is in its place".to_owned(),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
                "a command has removed it".to_owned()
            }
            Err(error) => error.to_string(),
        };
        Some(ActionFailure::gone(format!(
            "the folder `{}`, in which every command starts, is gone: {why}; make it anew and start the run again",
            cwd.display()
        )))
    }
}

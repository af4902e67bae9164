//! Copies of a run's files: only one of them may go on, because all of them name the same folder or container.

use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use mswea_core::Event;
use mswea_run::journal::{glance, is_held};

use super::others::with_put_aside;
use super::{Earlier, EarlierError};
use crate::files::runs_folder;
use crate::index;

impl Earlier {
    /// Checks that the run does not go on, and has not gone on, in another copy of this journal: in that one to
    /// which the state folder leads.
    ///
    /// # Errors
    /// [`EarlierError::Copied`] if it does.
    pub(super) fn check_copy(&self) -> Result<(), EarlierError> {
        let Some(noted) = index::journal_of(&runs_folder(), &self.state.run_id) else {
            return Ok(());
        };
        let mut others = with_put_aside(noted).into_iter();
        match others.find_map(|other| self.ahead(&other)) {
            Some((original, is_living)) => Err(EarlierError::Copied {
                journal: self.journal.clone(),
                original,
                is_living,
            }),
            None => Ok(()),
        }
    }

    /// Another journal of the run, if the run goes on there or has gone on there, and which of these.
    fn ahead(&self, other: &Path) -> Option<(PathBuf, bool)> {
        let file = mswea_files::open(other, u64::MAX).ok()?;
        let (there, own) = (file.metadata().ok()?, self.journal.metadata().ok()?);
        if (there.dev(), there.ino()) == (own.dev(), own.ino()) {
            return None;
        }
        let glance = glance(&file).ok()?;
        match glance.head.event {
            Event::RunStarted { run_id, .. } if run_id == self.state.run_id => {}
            _ => return None,
        }
        let is_living = is_held(&file);
        let is_ahead = is_living || glance.last > self.state.last.unwrap_or_default();
        is_ahead.then(|| (other.to_owned(), is_living))
    }
}

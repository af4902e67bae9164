//! Copies of a run's files: only one of them may go on, because all of them name the same folder or container.

use std::io::ErrorKind;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use mswea_core::Event;
use mswea_record::journal::{glance, is_held};

use super::others::with_put_aside;
use super::{Earlier, EarlierError};
use mswea_record::index::{self, HeldRunId};
use mswea_record::runs_folder;

impl Earlier {
    /// Checks that the run does not go on, and has not gone on, in another copy of this journal: in one to which
    /// the state folder leads. From here on no other process goes on with a copy of it.
    ///
    /// # Errors
    /// [`EarlierError::Copied`] if it does, [`EarlierError::CopyInUse`] if another process is beginning to.
    pub(super) fn check_copy(&mut self) -> Result<(), EarlierError> {
        let (folder, run_id) = (runs_folder(), &self.state.run_id);
        self.held_id = match HeldRunId::hold(&folder, run_id) {
            Ok(held) => Some(held),
            Err(error) if error.kind() == ErrorKind::WouldBlock => {
                return Err(EarlierError::CopyInUse {
                    journal: self.journal.clone(),
                });
            }
            // Without a state folder that can be written to, nothing leads to copies either.
            Err(error) => {
                tracing::debug!(%error, "the id of the run can't be held");
                None
            }
        };
        let mut others = index::journals_of(&folder, run_id).flat_map(with_put_aside);
        match others.find_map(|other| self.ahead(&other)) {
            Some((original, is_living)) => Err(EarlierError::Copied {
                journal: self.journal.clone(),
                original,
                is_living,
            }),
            None => Ok(()),
        }
    }

    /// Another journal of the run, if the run goes on there or has gone on there, and which of these. Journals only
    /// grow.
    fn ahead(&self, other: &Path) -> Option<(PathBuf, bool)> {
        let file = mswea_files::open(other, u64::MAX).ok()?;
        let (there, own) = (file.metadata().ok()?, self.journal.metadata().ok()?);
        if (there.dev(), there.ino()) == (own.dev(), own.ino()) {
            return None;
        }
        match glance(&file).ok()?.head.event {
            Event::RunStarted { run_id, .. } if run_id == self.state.run_id => {}
            _ => return None,
        }
        let is_living = is_held(&file);
        let is_ahead = is_living || there.len() > own.len();
        is_ahead.then(|| (other.to_owned(), is_living))
    }
}

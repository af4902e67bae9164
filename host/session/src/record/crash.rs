//! The end of a run that a bug of the host has ended.

use std::sync::TryLockError;
use std::thread;
use std::time::{Duration, Instant};

use mswea_core::{End, Event, Journal as _, Object};
use mswea_run::fold;

use super::RunRecord;

/// How long a process that panics waits for a trajectory that is being written.
const LAST_WAIT: Duration = Duration::from_secs(1);

impl RunRecord {
    /// Called when the process is about to end: writes the trajectory, unless a thread is already
    /// writing it. Returns a text with its path for the user.
    pub(crate) fn save_now(&self) -> String {
        let end = Instant::now() + LAST_WAIT;
        let writing = loop {
            match self.writing.try_lock() {
                Ok(writing) => break Some(writing),
                Err(TryLockError::Poisoned(writing)) => break Some(writing.into_inner()),
                Err(TryLockError::WouldBlock) if Instant::now() > end => break None,
                Err(TryLockError::WouldBlock) => thread::sleep(Duration::from_millis(10)),
            }
        };
        let journal = self.begun().filter(|_| writing.is_some());
        let written = journal.is_some_and(|journal| self.write(&journal, None).is_ok());
        self.said(written)
    }

    fn said(&self, written: bool) -> String {
        let place = match (written, self.journal()) {
            (true, _) => &self.files.trajectory,
            (false, Some(journal)) => &journal.clone(),
            (false, None) => return "nothing was recorded yet".to_owned(),
        };
        format!("what was recorded is in `{}`", place.display())
    }

    /// Records that a bug of the host has ended the run, unless its end is recorded already.
    pub(crate) fn crashed(&self, end: &End) {
        let Some(journal) = self.begun() else {
            return;
        };
        let state = match journal.log() {
            Ok(log) => fold(&log.records),
            Err(error) => return tracing::warn!(%error, "the end of the run is not recorded"),
        };
        if state.ended.is_some() {
            return;
        }
        let mut extra = Object::new();
        extra.insert("message".into(), end.error().unwrap_or_default().into());
        let ended = Event::RunEnded {
            exit_status: end.exit_status().to_owned(),
            submission: state.submitted().to_owned(),
            cost: state.account.known_cost(),
            queries: state.account.queries,
            usage: state.account.usage,
            extra,
            message: None,
        };
        if let Err(error) = journal.record(&ended) {
            tracing::warn!(%error, "the end of the run is not recorded");
        }
    }
}

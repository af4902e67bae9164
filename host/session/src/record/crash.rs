//! The end of a run that a bug of the host has ended.

use mswea_core::{End, Event, Journal as _, Object};
use mswea_run::journal::fold;

use super::RunRecord;

impl RunRecord {
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

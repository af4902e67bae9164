//! `--fsync`: waits for the disk after a reply, an output and the end of a run, so that these survive
//! the death of the machine. Without it, events survive the death of the host only.

use std::io;
use std::sync::atomic::{AtomicBool, Ordering};

use mswea_core::Event;
use mswea_executor::aside;
use mswea_record::journal::JournalFile;

/// Whether and when to wait for the disk.
pub(super) struct DiskSync {
    is_wanted: bool,
    /// Whether an event that has to reach the disk may not be there yet.
    is_due: AtomicBool,
}

impl DiskSync {
    pub(super) fn new(is_wanted: bool) -> Self {
        Self {
            is_wanted,
            is_due: AtomicBool::new(false),
        }
    }

    /// Called after an event was recorded.
    pub(super) fn note(&self, event: &Event) {
        let matters = matches!(
            event,
            Event::Reply { .. } | Event::Output { .. } | Event::RunEnded { .. }
        );
        if self.is_wanted && matters {
            self.is_due.store(true, Ordering::Relaxed);
        }
    }

    /// Waits for the disk if that is due; blocks its thread.
    pub(super) fn now(&self, journal: &JournalFile) -> io::Result<()> {
        match self.is_due.swap(false, Ordering::Relaxed) {
            true => journal.handle()?.sync_data(),
            false => Ok(()),
        }
    }

    /// As `now`, on a thread of its own: it takes milliseconds, or for ever.
    pub(super) async fn later(&self, journal: &JournalFile) -> io::Result<()> {
        if !self.is_due.swap(false, Ordering::Relaxed) {
            return Ok(());
        }
        let file = journal.handle()?;
        let synced = aside(move || file.sync_data()).await;
        synced.unwrap_or(Ok(()))
    }
}

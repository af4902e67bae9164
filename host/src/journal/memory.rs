//! A journal that keeps its records in memory: for tests, and for users of the library who
//! want no files.

use std::io;
use std::sync::{Mutex, PoisonError};

use super::{Event, Record};
use crate::roles::Journal;

/// Keeps every event.
#[derive(Debug, Default)]
pub struct MemoryJournal(Mutex<Vec<Record>>);

impl MemoryJournal {
    /// An empty one.
    pub fn new() -> Self {
        Self::default()
    }

    /// What was recorded so far.
    pub fn records(&self) -> Vec<Record> {
        self.0
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }
}

impl Journal for MemoryJournal {
    fn record(&self, event: &Event) -> io::Result<()> {
        let mut records = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let seq = records.len() as u64 + 1;
        records.push(Record {
            seq,
            t: super::file::now(),
            event: event.clone(),
        });
        Ok(())
    }
}

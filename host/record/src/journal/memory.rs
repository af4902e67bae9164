//! A journal that keeps its records in memory, for tests and for users of the library who want no
//! files.

use std::io;
use std::sync::{Mutex, PoisonError};

use super::{Event, Record};
use mswea_core::{Clock, Journal};

/// Keeps every event.
#[derive(Debug, Default)]
pub struct MemoryJournal(Mutex<Vec<Record>>, Clock);

impl MemoryJournal {
    /// An empty journal.
    pub fn new() -> Self {
        Self::default()
    }

    /// An empty journal with its own clock.
    pub fn with_clock(clock: Clock) -> Self {
        Self(Mutex::default(), clock)
    }

    /// The records so far.
    pub fn records(&self) -> Vec<Record> {
        self.0
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }
}

impl Journal for MemoryJournal {
    fn record(&self, event: &Event) -> io::Result<f64> {
        let mut records = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let seq = records.len() as u64 + 1;
        let t = self.1.now();
        records.push(Record {
            seq,
            t,
            event: event.clone(),
        });
        Ok(t)
    }
}

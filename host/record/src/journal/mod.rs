//! The record of a run: events are appended to `events.jsonl` before they take effect, and
//! everything else (the message list, the trajectory, later resume, replay and fork) is a
//! function of them.
//!
//! This module does not decide which events are recorded; the loop does.

mod file;
mod follow;
mod glance;
mod keep;
mod memory;
mod read;
mod reopen;
mod spot;

pub use file::{Claim, JournalFile, free_name, is_held};
pub use follow::JournalFollower;
pub use glance::{Closing, Glance, first_line, glance, last_lines};
pub use keep::JournalChange;
pub(crate) use keep::temporary;
pub use memory::MemoryJournal;
pub use mswea_core::Event;
pub use read::{
    JournalError, LONGEST_LINE, Log, Record, TornLine, UnknownEvent, each, read, read_bytes,
    read_from,
};
pub use reopen::Reopened;
pub use spot::Spot;

/// The value of `RunStarted.format` in a journal of this version.
pub const FORMAT: &str = "mswea-journal-2";

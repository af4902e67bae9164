//! The record of a run: events are appended to `events.jsonl` before they take effect, and
//! everything else (the message list, the trajectory, later resume, replay and fork) is a
//! function of them.
//!
//! Not here: which events there are to record; that is the loop's part.

mod event;
mod file;
mod keep;
mod memory;
mod read;
pub mod rebuild;
mod spot;
pub mod trajectory;

pub use event::Event;
pub use file::{Claim, JournalFile, free_name};
pub use keep::Change;
pub use memory::MemoryJournal;
pub use read::{
    JournalError, Log, Record, TornLine, UnknownEvent, each, read, read_bytes, read_from,
};
pub use rebuild::accepted_message;
pub use spot::Spot;

/// What `RunStarted.format` of a journal of this version holds.
pub const FORMAT: &str = "mswea-journal-1";

//! Shared by the host and its helper: their protocol, how long commands are passed to a shell, how files
//! are copied, the dialogue with a shell that lives on between commands, and how the processes of an action
//! are started and found.
//!
//! The program is this package's binary; `mswea-helper-bundle` holds it as bytes.

pub mod archive;
pub mod child;
pub mod dialogue;
pub mod files;
pub mod long;
mod process_table;
pub mod processes;
pub mod protocol;
pub mod sys;

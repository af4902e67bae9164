//! Code shared by the host and its helper: their protocol, long commands, copies of files, the
//! protocol with a shell that is kept between commands, and starting and finding the processes of
//! an action.
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

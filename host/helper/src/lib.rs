//! What the host and its helper in a container have in common: the protocol between them, and how
//! long commands are handed to a shell.
//!
//! The program itself is this package's binary; `mswea-helper-bundle` has it as bytes.

pub mod long;
pub mod protocol;

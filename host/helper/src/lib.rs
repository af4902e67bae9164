//! Shared by the host and its helper in a container: their protocol, how long commands are passed
//! to a shell, and the dialogue with a shell that lives on between commands.
//!
//! The program is this package's binary; `mswea-helper-bundle` holds it as bytes.

pub mod dialogue;
pub mod long;
pub mod protocol;

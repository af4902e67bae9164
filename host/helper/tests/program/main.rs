//! Tests of the helper as a program: what it does for a host at the other end of its pipes.
#![cfg(target_os = "linux")]
#![allow(missing_docs, clippy::unwrap_used)]

mod client;
mod kill;
mod session;
mod session_end;
mod shell;
mod terminal;

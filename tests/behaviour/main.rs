//! What the program does, seen from outside: the real binary, a scripted model server, real
//! shells.

// All of it is test code, also what stands outside of `#[test]` functions.
#![allow(clippy::unwrap_used)]

mod addresses;
mod bad_input;
mod bad_servers;
mod config_cli;
mod containers;
mod demo;
mod docs;
mod escapes;
mod happy;
mod host;
mod irregular_files;
mod keys;
mod killed;
mod kills;
mod large;
mod leavings;
mod limits;
mod looks;
mod needs;
mod odd_replies;
mod pages;
mod patience;
mod plugins;
mod processes;
mod readers;
mod record;
mod repair;
mod replays;
mod run;
mod salvage;
mod sandboxes;
mod shell_limits;
mod side_by_side;
mod signals;
mod story;
mod swapped;
mod traps;

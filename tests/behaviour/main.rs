//! Tests of the real binary with a scripted model server and real shells.

// This crate is test code, also outside of `#[test]` functions.
#![allow(clippy::unwrap_used)]

mod addresses;
mod bad_input;
mod bad_servers;
mod command;
mod config_cli;
mod containers;
mod continued;
mod demo;
mod docs;
mod escapes;
mod finished;
mod forks;
mod happy;
mod host;
mod house;
mod interrupts;
mod irregular_files;
mod kept;
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
mod printed;
mod processes;
mod readers;
mod record;
mod remote;
mod repair;
mod replayed;
mod replays;
mod resumed_kills;
mod resumed_places;
mod resumes;
mod run;
mod runs;
mod salvage;
mod sandboxes;
mod sessions;
mod shell_limits;
mod side_by_side;
mod signals;
mod story;
mod swapped;
mod traps;
mod trust;

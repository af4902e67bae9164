//! Runs actions through a server of SWE-ReX (`swerex-remote`), for those who run such servers.
//!
//! `client` is the HTTP API, `executor` the executor, `shell` its session, `copies` the files. What such
//! a server can't do, which our own runtime can, is told at the start ([`LIMITS`]).

mod client;
mod copies;
mod executor;
mod shell;

pub use client::RexClient;
pub use executor::SwerexExecutor;

/// What is told at the start of a run.
const LIMITS: &str = "a server of SWE-ReX can't do all: what a command has started is not ended with it, also when its time is over; output up to then is lost; a background process that holds the output open holds the step; and while one command runs, no other can. `mswea-host runtime serve` there, with `environment_class=remote`, does";

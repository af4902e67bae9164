//! Runs actions through a server of SWE-ReX (`swerex-remote`), for users who have such servers.
//!
//! `client` is the HTTP API, `executor` the executor, `shell` its session, and `copies` copies
//! files. A message at the start tells what such a server can't do and this program's runtime can
//! (`LIMITS`).

mod client;
mod copies;
mod executor;
mod shell;

pub use client::RexClient;
pub use executor::SwerexExecutor;

/// The message at the start of a run.
const LIMITS: &str = "a server of SWE-ReX can't do all: what a command has started is not ended with it, also when its time is over; output up to then is lost; a background process that holds the output open holds the step; and while one command runs, no other can. `mswea-host runtime serve` there, with `environment_class=remote`, does";

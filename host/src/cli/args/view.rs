//! Flags of `view`.

use std::path::PathBuf;

use clap::{Args, ValueHint};

/// The help of `view`.
pub const VIEW: &str = "\
The first line of the output is the address of the page, with a token in it: who has the address can
read the runs. Values of this process's secret variables, and keys of well-known services, are blanked.
Ctrl-C ends it.

Examples:
  mswea-host view
  mswea-host view results/ out.traj.json
  mswea-host view --listen 127.0.0.1:8080        # for `ssh -L 8080:127.0.0.1:8080 HOST`";

/// Flags of `view`.
#[derive(Clone, Debug, Args)]
pub struct ViewArgs {
    /// Folders with runs in them or below (also of batches), journals, trajectories, also of
    /// mini-swe-agent, SWE-agent and in ATIF; without any: the runs of `runs list`
    #[arg(value_name = "DIR|FILE", value_hint = ValueHint::AnyPath)]
    pub paths: Vec<PathBuf>,
    /// Address and port; port 0 is any free one
    #[arg(long, value_name = "ADDRESS:PORT", default_value = "127.0.0.1:0")]
    pub listen: String,
}

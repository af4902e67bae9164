//! Flags of `inspect`.

use std::path::PathBuf;

use clap::{Args, ValueHint};

/// The help of `inspect`.
pub const INSPECT: &str = "\
Takes the whole screen; `?` shows the keys, which are those of mini-swe-agent's inspector and more. It needs
a terminal. Values of this process's secret variables, and keys of well-known services, are blanked.

Examples:
  mswea-host inspect
  mswea-host inspect results/
  mswea-host inspect out.traj.json";

/// Flags of `inspect`.
#[derive(Clone, Debug, Args)]
pub struct InspectArgs {
    /// Folders with runs in them or below, journals, trajectories, also of mini-swe-agent, SWE-agent
    /// and in ATIF; without any: the runs of `runs list`
    #[arg(value_name = "DIR|FILE", value_hint = ValueHint::AnyPath)]
    pub paths: Vec<PathBuf>,
}

//! Flags of the commands that look after recorded runs.

use std::path::PathBuf;

use clap::{Args, Subcommand, ValueHint};

/// What can be done with recorded runs.
#[derive(Clone, Debug, Subcommand)]
pub enum RunsCommand {
    /// Make the trajectory of a killed run from its journal
    #[command(
        after_help = "A run whose host was killed has a journal that is whole and a \
        trajectory that may be up to a few seconds old. Nothing is lost: a file of another run \
        that stands in the way is kept under another name.\n\nExample:\n  \
        mswea-host runs repair out.traj.json"
    )]
    Repair(RepairArgs),
}

/// Flags of `runs repair`.
#[derive(Clone, Debug, Args)]
pub struct RepairArgs {
    /// A journal (`*.events.jsonl`), its trajectory, or a folder of these; repeatable
    #[arg(required = true, value_name = "PATH", value_hint = ValueHint::AnyPath)]
    pub paths: Vec<PathBuf>,
}

//! Flags of the commands that look after recorded runs.

use std::path::PathBuf;

use clap::{Args, Subcommand, ValueHint};

/// The commands about recorded runs.
#[derive(Clone, Debug, Subcommand)]
pub enum RunsCommand {
    /// List runs, the newest first
    #[command(
        after_help = "Without a folder: all runs of this user, also those whose files are \
        elsewhere (`-o`).\n\nThe status is `running`, `killed` (the run has recorded no end, and \
        no process holds its journal), or the exit status."
    )]
    List(ListArgs),
    /// Show one run: its task, how it ended, its files and plugins, its last messages
    Show(ShowArgs),
    /// Remove runs that are over: journal, trajectory, and kept containers
    #[command(
        name = "rm",
        after_help = "A run that still goes on is refused. Only what is of the run itself is \
        removed: its journal, a trajectory that names the run, and its containers. Nothing is asked."
    )]
    Remove(RemoveArgs),
    /// Make the trajectory of a killed run from its journal
    #[command(
        after_help = "A run whose host was killed has a journal that is whole and a \
        trajectory that may be up to a few seconds old. Nothing is lost: a file of another run \
        that stands in the way is kept under another name.\n\nExample:\n  \
        mswea-host runs repair out.traj.json"
    )]
    Repair(RepairArgs),
}

/// Flags of `runs list`.
#[derive(Clone, Debug, Args)]
pub struct ListArgs {
    /// Folders with journals (`*.events.jsonl`), instead of all runs of this user
    #[arg(value_name = "FOLDER", value_hint = ValueHint::DirPath)]
    pub folders: Vec<PathBuf>,
    /// How many at most (0 = all)
    #[arg(short = 'n', long, value_name = "N", default_value_t = 50)]
    pub limit: usize,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

/// Flags of `runs show`.
#[derive(Clone, Debug, Args)]
pub struct ShowArgs {
    /// The run: its id, the beginning of its id, its journal or its trajectory
    #[arg(value_name = "RUN", value_hint = ValueHint::FilePath)]
    pub run: PathBuf,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

/// Flags of `runs rm`.
#[derive(Clone, Debug, Args)]
pub struct RemoveArgs {
    /// The runs: ids, beginnings of ids, journals or trajectories
    #[arg(value_name = "RUN", required_unless_present = "gone", value_hint = ValueHint::FilePath)]
    pub runs: Vec<PathBuf>,
    /// Also forget the runs whose journals are gone
    #[arg(long)]
    pub gone: bool,
}

/// Flags of `runs repair`.
#[derive(Clone, Debug, Args)]
pub struct RepairArgs {
    /// A journal (`*.events.jsonl`), its trajectory, or a folder of these; repeatable
    #[arg(required = true, value_name = "PATH", value_hint = ValueHint::AnyPath)]
    pub paths: Vec<PathBuf>,
}

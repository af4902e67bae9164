//! Flags of `export`.

use std::path::PathBuf;

use clap::{Args, ValueEnum, ValueHint};

/// Flags of `export`.
#[derive(Clone, Debug, Args)]
pub struct ExportArgs {
    /// The run: its id, the beginning of its id, its journal or trajectory, a trajectory of
    /// mini-swe-agent or SWE-agent, or one in ATIF
    #[arg(value_name = "RUN", value_hint = ValueHint::FilePath)]
    pub run: PathBuf,
    /// The format
    #[arg(long, value_enum, value_name = "FORMAT")]
    pub to: ExportFormat,
    /// Write to this file instead of stdout
    #[arg(short = 'o', long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub output: Option<PathBuf>,
    /// In `html`, `md` and `asciinema`: leave out the system prompt and the model's reasoning
    #[arg(long)]
    pub focused: bool,
}

/// What a run is exported to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum ExportFormat {
    /// One page that needs nothing from elsewhere
    Html,
    /// Markdown
    Md,
    /// The trajectory format of Harbor, ATIF-v1.7
    Atif,
    /// The steps as ATIF has them, one JSON object a line
    Jsonl,
    /// A trajectory of SWE-agent, `*.traj`
    SweAgent,
    /// A recording of a terminal, for `asciinema play`
    Asciinema,
}

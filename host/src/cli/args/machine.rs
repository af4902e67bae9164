//! Flags of the commands that look after the machine rather than run a task.

use clap::Args;

/// Flags of `gc`.
#[derive(Clone, Debug, Default, Args)]
pub struct GcArgs {
    /// Only tell what would be removed
    #[arg(long)]
    pub dry_run: bool,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
    /// Only what this run has left behind
    #[arg(long, value_name = "ID")]
    pub run: Option<String>,
    /// Look for containers with this program too, as `environment.executable`; repeatable
    #[arg(long = "docker", value_name = "EXE")]
    pub docker: Vec<String>,
}

/// Flags of `doctor`.
#[derive(Clone, Copy, Debug, Default, Args)]
pub struct DoctorArgs {
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

//! The commands of `sweagent`.

mod attempts;
mod many;
mod many_files;
mod replaying;
mod single;
mod tidying;

use super::args::SweagentCommand;
use super::exit::ExitCode;
use super::output::Failure;
use mswea_sweagent::{SweAgentError, SweAgentProblem};

/// Runs one of the commands.
pub fn run(command: &SweagentCommand) -> Result<ExitCode, Failure> {
    match command {
        SweagentCommand::Run { words } => single::run(words),
        SweagentCommand::RunBatch { words } => many::run(words),
        SweagentCommand::RunReplay { words } => replaying::run(words),
        SweagentCommand::MergePreds {
            directories,
            output,
        } => tidying::merge(directories, output.as_deref()),
        SweagentCommand::ExtractPred { traj_path } => tidying::extract(traj_path),
        SweagentCommand::QuickStats { directory } => tidying::statistics(directory),
        SweagentCommand::CompareRuns { paths, show_same } => tidying::compare(paths, *show_same),
        SweagentCommand::RemoveUnfinished { base_dir, remove } => {
            tidying::remove_unfinished(base_dir, *remove)
        }
        SweagentCommand::TrajToDemo(args) => tidying::demonstrate(args),
    }
}

impl From<SweAgentError> for Failure {
    fn from(error: SweAgentError) -> Self {
        Self::usage(error.to_string())
    }
}

impl From<SweAgentProblem> for Failure {
    fn from(problem: SweAgentProblem) -> Self {
        Self::usage(problem.to_string())
    }
}

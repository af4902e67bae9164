//! The commands of `sweagent`.

mod attempts;
mod many;
mod many_files;
mod pull_request;
mod push_remote;
mod replaying;
mod shell;
mod single;
mod tidying;
mod words;

use std::path::Path;

use super::args::{InspectArgs, SweagentCommand, ViewArgs};
use super::exit::ExitCode;
use super::inspect;
use super::output::{self, Failure};
use super::view::view;
use mswea_sweagent::{SweAgentError, SweAgentProblem};

/// Runs one of the commands.
pub fn run(command: &SweagentCommand) -> Result<ExitCode, Failure> {
    done(command).map_err(|failure| failure.reworded(words::in_their_words))
}

fn done(command: &SweagentCommand) -> Result<ExitCode, Failure> {
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
        SweagentCommand::Inspector {
            directory,
            port,
            data_path,
        } => serve(directory, *port, data_path.is_some()),
        SweagentCommand::Inspect { paths, data_path } => {
            warn_of_data(data_path.is_some());
            inspect::inspect(&InspectArgs {
                paths: paths.clone(),
            })
        }
        SweagentCommand::Shell(args) => shell::run(args),
        SweagentCommand::TrajToDemo(args) => tidying::demonstrate(args),
    }
}

/// Serves the page of `view` at the port of SWE-agent's inspector.
fn serve(directory: &Path, port: u16, has_data: bool) -> Result<ExitCode, Failure> {
    warn_of_data(has_data);
    view(&ViewArgs {
        paths: vec![directory.to_owned()],
        listen: format!("127.0.0.1:{port}"),
    })
}

fn warn_of_data(is_given: bool) {
    if is_given {
        output::warning("`--data_path` has no effect: no gold patches are shown");
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

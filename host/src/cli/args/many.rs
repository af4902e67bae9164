//! The flags of a run for commands with many runs: those that have no meaning there are not shown. They are still
//! read, so that the refusal can say what to use.

use std::ops::Deref;

use clap::{ArgMatches, Args, Command, FromArgMatches};

use super::RunArgs;

/// The ids of the flags that are for a single run.
const SINGLE: &[&str] = &["task", "output", "on_end", "shadow", "atif"];

/// The flags of all runs.
#[derive(Clone, Debug)]
pub struct ManyRunsArgs(RunArgs);

impl Deref for ManyRunsArgs {
    type Target = RunArgs;

    fn deref(&self) -> &RunArgs {
        &self.0
    }
}

fn hidden(command: Command) -> Command {
    SINGLE.iter().fold(command, |command, id| {
        command.mut_arg(*id, |arg| arg.hide(true))
    })
}

impl Args for ManyRunsArgs {
    fn augment_args(command: Command) -> Command {
        hidden(RunArgs::augment_args(command))
    }

    fn augment_args_for_update(command: Command) -> Command {
        hidden(RunArgs::augment_args_for_update(command))
    }
}

impl FromArgMatches for ManyRunsArgs {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        RunArgs::from_arg_matches(matches).map(Self)
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        self.0.update_from_arg_matches(matches)
    }
}

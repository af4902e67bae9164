//! The commands of `sweagent`. The words after `run` are read by `mswea-sweagent`, because their names are
//! the keys of a configuration.

use std::path::PathBuf;

use clap::{Args, Subcommand, ValueHint};

const RUN: &str = "\
Examples:
  mswea-host sweagent run --agent.model.name=gpt-4o --env.repo.path=. --problem_statement.path=task.md
  mswea-host sweagent run --config mine.yaml --env.deployment.type=local --problem_statement.text='fix it'

Without `--config`, the shipped config `default` is used; the others are `default_backticks`, `bash_only` and
`coding_challenge`. A key that can't be done here is refused by name.";

const BATCH: &str = "\
Examples:
  mswea-host sweagent run-batch --agent.model.name=gpt-4o --instances.path=tasks.jsonl --num_workers=4
  mswea-host sweagent run-batch --config mine.yaml --instances.type=swe_bench --instances.path_override=dev.jsonl

The same command again goes on where it stood; instances that have ended are not run again.";

/// The commands of SWE-agent.
#[derive(Clone, Debug, Subcommand)]
pub enum SweagentCommand {
    /// Run the agent on one problem
    #[command(visible_alias = "r", disable_help_flag = true, after_help = RUN)]
    Run {
        /// SWE-agent's flags: `--KEY=VALUE`, `--config FILE` (repeatable), `--print_config`, `--help`
        #[arg(
            value_name = "FLAGS",
            trailing_var_arg = true,
            allow_hyphen_values = true
        )]
        words: Vec<String>,
    },
    /// Run the agent on the problems of a file
    #[command(visible_alias = "b", disable_help_flag = true, after_help = BATCH)]
    RunBatch {
        /// SWE-agent's flags: `--KEY=VALUE`, `--config FILE` (repeatable), `--print_config`, `--help`
        #[arg(
            value_name = "FLAGS",
            trailing_var_arg = true,
            allow_hyphen_values = true
        )]
        words: Vec<String>,
    },
    /// Do the actions of a trajectory again, in a new environment and without a model
    #[command(disable_help_flag = true)]
    RunReplay {
        /// SWE-agent's flags: `--traj_path=FILE`, `--deployment.KEY=VALUE`, `--output_dir`, `--update_config`
        #[arg(
            value_name = "FLAGS",
            trailing_var_arg = true,
            allow_hyphen_values = true
        )]
        words: Vec<String>,
    },
    /// Join the predictions below folders into one file
    MergePreds {
        /// The folders
        #[arg(required = true, value_name = "FOLDER", value_hint = ValueHint::DirPath)]
        directories: Vec<PathBuf>,
        /// The file to write; without it, `preds.json` in the first folder
        #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
        output: Option<PathBuf>,
    },
    /// Write the prediction of a trajectory beside it
    ExtractPred {
        /// The trajectory
        #[arg(value_name = "TRAJ", value_hint = ValueHint::FilePath)]
        traj_path: PathBuf,
    },
    /// Count the exit statuses of the trajectories below a folder
    #[command(visible_alias = "qs")]
    QuickStats {
        /// The folder
        #[arg(default_value = ".", value_name = "FOLDER", value_hint = ValueHint::DirPath)]
        directory: PathBuf,
    },
    /// Compare the results of evaluations
    #[command(visible_alias = "cr")]
    CompareRuns {
        /// Files `results.json`, or folders that have one; the newer run first
        #[arg(required = true, value_name = "PATH", value_hint = ValueHint::AnyPath)]
        paths: Vec<PathBuf>,
        /// Show instances with the same result, too
        #[arg(long)]
        show_same: bool,
    },
    /// List the folders of instances without a submission, or remove them
    #[command(visible_alias = "ru")]
    RemoveUnfinished {
        /// The folder of the run
        #[arg(long = "base_dir", default_value = ".", value_name = "FOLDER", value_hint = ValueHint::DirPath)]
        base_dir: PathBuf,
        /// Remove them
        #[arg(long)]
        remove: bool,
    },
    /// Look at recorded runs at a terminal, as `mswea-host inspect` does
    #[command(visible_alias = "i")]
    Inspect {
        /// Trajectories, or folders with some
        #[arg(value_name = "PATH", value_hint = ValueHint::AnyPath)]
        paths: Vec<PathBuf>,
        /// No effect: SWE-agent takes gold patches from it
        #[arg(short = 'd', long = "data_path", value_name = "FILE", value_hint = ValueHint::FilePath)]
        data_path: Option<PathBuf>,
    },
    /// Show the trajectories below a folder on a page, as `view` does
    #[command(visible_alias = "I")]
    Inspector {
        /// The folder
        #[arg(long, default_value = ".", value_name = "FOLDER", value_hint = ValueHint::DirPath)]
        directory: PathBuf,
        /// The port of the page on this machine; 0 is any free one
        #[arg(long, default_value_t = 8000, value_name = "PORT")]
        port: u16,
        /// No effect: SWE-agent takes gold patches from it
        #[arg(long = "data_path", value_name = "FILE", value_hint = ValueHint::FilePath)]
        data_path: Option<PathBuf>,
    },
    /// Run the agent in a folder of yours, at a terminal: Ctrl-C interrupts it, and you can take over
    #[command(visible_alias = "sh")]
    Shell(ShellArgs),
    /// Write the replies of a trajectory as a demonstration
    TrajToDemo(DemoFileArgs),
}

/// Flags of `shell`.
#[derive(Clone, Debug, Args)]
pub struct ShellArgs {
    /// The repository; it is mounted in the container, so that its files are changed
    #[arg(short = 'r', long, value_name = "FOLDER", value_hint = ValueHint::DirPath)]
    pub repo: Option<PathBuf>,
    /// The problem: a text, or the address of an issue of GitHub
    #[arg(short = 'p', value_name = "TEXT")]
    pub problem: Option<String>,
    /// A config file of SWE-agent (repeatable)
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub config: Vec<PathBuf>,
    /// Flags of `run`: `-- --KEY=VALUE ...`
    #[arg(last = true, value_name = "FLAGS")]
    pub keys: Vec<String>,
}

/// Flags of `traj-to-demo`.
#[derive(Clone, Debug, Args)]
pub struct DemoFileArgs {
    /// The trajectory
    #[arg(value_name = "TRAJ", value_hint = ValueHint::FilePath)]
    pub traj_path: PathBuf,
    /// The folder to write to
    #[arg(long = "output_dir", default_value = "demos", value_name = "FOLDER", value_hint = ValueHint::DirPath)]
    pub output_dir: PathBuf,
    /// What is added to the name of the file's folder
    #[arg(long, default_value = "", value_name = "TEXT")]
    pub suffix: String,
    /// Replace a file that is there
    #[arg(long)]
    pub overwrite: bool,
    /// With the messages of the user and the tools
    #[arg(long = "include_user")]
    pub include_user: bool,
}

//! Flags of the commands with many runs.

use std::path::PathBuf;

use clap::{ArgAction, Args, Subcommand, ValueHint};

use super::many::ManyRunsArgs;
use super::{RunArgs, values};

/// Heading of the flags that say what an instance is.
const INSTANCES: &str = "Instances";
/// Heading of the flags that say which instances with a result are run again.
const AGAIN: &str = "Again";
/// Heading of the flags that say how the batch is worked on.
const WORK: &str = "Work";
/// Heading of the flags that say what an engine is told.
const ENGINE: &str = "Engine";

/// The help of `batch run`.
const RUN: &str = "\
FILE has one instance per row: JSON lines, a JSON list, or CSV with a header. The usual fields are
`instance_id` (or `id`), `problem_statement` (or `task`), `image_name` (or `docker_image`, `image`); the flags
`--*-template` make them of other fields, as Jinja templates: `--task-template '{{ title }}: {{ body }}'`.
With an image an instance runs in a container; without one, in a folder of its own. With `--split NAME` FILE is a
data set of the Hub, as for `mswea-host swebench`, or a folder with files of its splits.

The same command again goes on where it stood, whatever was killed: an instance with a result is not
run again. DIR has `preds.json`, and for each instance `ID/result.json`, `ID/ID.traj.json` and the journal.

An instance is tried again after a fault of the infrastructure: the environment, the network, the
provider's overload or rate limit, a journal that can't be written. Other errors are its result.

Ctrl-C once: no further instance begins, and those that run are finished. Twice, or SIGTERM or SIGUSR1: they
are stopped, and go on next time.

Exit code: 0 if every instance has a result and none was ended by an error · 1 otherwise · 2 usage or
config · 3 a limit of the whole batch · 130 interrupted

Examples:
  mswea-host batch run out --instances tasks.jsonl -m openai/gpt-5 -w 8
  mswea-host batch run out --instances bench.jsonl --swebench-images -c swebench -m openai/gpt-5 -w 32
  mswea-host batch run out --instances verified --split test --swebench-images -c swebench -m openai/gpt-5";

/// The help of `batch worker`.
const WORKER: &str = "\
Any number of workers may share DIR, which `batch submit` has made. Each claims instances, so that every
instance gets exactly one result, whatever is killed. The flags of the runs are those of `batch submit`;
another config is refused.

A worker takes over what a dead one had claimed: at once if the process was one of this machine, else
after `--lease` if the engine does not know its job, or after four times that if no engine answers.

SIGTERM, SIGUSR1 and Ctrl-C stop its runs; what it had claimed is given back, and the exit code is 75.

Exit code: 0 if every instance has a result and this worker has seen no error · 1 otherwise · 2 usage or
config · 75 stopped: start it again

Examples:
  mswea-host batch worker out -m openai/gpt-5 -w 8
  mswea-host batch worker out -m openai/gpt-5 -w 8 --index-env JOB_COMPLETION_INDEX";

/// The help of `batch submit`.
const SUBMIT: &str = "\
Makes DIR with its instances and its config, and submits an array of workers. The same command again
submits workers for what is left. The keys of models have to be in the secrets file: the environment is
not handed to the engine.

Examples:
  mswea-host batch submit out --instances tasks.jsonl -m openai/gpt-5 -w 8 --array 16 --partition cpu
  mswea-host batch submit out --instances tasks.jsonl -m openai/gpt-5 --engine none";

/// The help of `swebench`.
const SWEBENCH: &str = "\
The flags and the files are those of `mini-extra swebench`: `preds.json`, `exit_statuses_TIME.yaml`,
`minisweagent.log` and `ID/ID.traj.json` in the folder of `-o`. An instance in `preds.json` is not run again.
The config is the preset `swebench` unless `-c` names another one.

`--subset` is `lite`, `verified`, `full`, `multimodal`, `multilingual`, `smith`, `rebench`, a data set of the Hub
(`OWNER/NAME`), a file (parquet, JSON lines, JSON, CSV), or a folder with `SPLIT.parquet` or the like.

Examples:
  mswea-host swebench --subset verified --split test -m openai/gpt-5 -w 16 -o results
  mswea-host swebench --subset mine.jsonl -m openai/gpt-5 -w 16 -o results";

/// The commands about batches.
#[derive(Clone, Debug, Subcommand)]
pub enum BatchCommand {
    /// Run every instance of a file, and leave one result for each
    #[command(after_help = RUN)]
    Run(Box<BatchRunArgs>),
    /// Work on a batch together with other workers, of this machine and others
    #[command(after_help = WORKER)]
    Worker(Box<BatchWorkerArgs>),
    /// Have an engine start workers for every instance without a result
    #[command(after_help = SUBMIT)]
    Submit(Box<BatchSubmitArgs>),
    /// Cancel the workers that an engine was given
    Cancel(BatchCancelArgs),
    /// Show how far a batch is, from any terminal
    Status(BatchLookArgs),
    /// Show how far a batch is, drawn anew as it goes, from any terminal
    Watch(BatchWatchArgs),
    /// Show what a batch amounts to: exit statuses, cost, steps, tokens, time
    Report(BatchReportArgs),
    /// Print the predictions as SWE-bench's harness reads them
    Preds(BatchPredsArgs),
    /// Compare two batches instance by instance, with an exact sign test
    Compare(BatchCompareArgs),
    /// Put batches together that have worked on parts of one
    Merge(BatchMergeArgs),
    /// Print the runs as data for training: one JSON line each, with the messages, a mask and usage
    Export(BatchExportArgs),
}

/// Flags of `batch run`.
#[derive(Clone, Debug, Args)]
pub struct BatchRunArgs {
    /// The directory of the batch; it is made if it is not there
    #[arg(value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub dir: PathBuf,
    /// The instances; may be left out to go on with those of the directory
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath, help_heading = INSTANCES)]
    pub instances: Option<PathBuf>,
    /// The instances are this split of a data set: FILE is a name of the Hub (`verified`, `OWNER/NAME`) or a folder
    #[arg(long, value_name = "NAME", requires = "instances", help_heading = INSTANCES)]
    pub split: Option<String>,
    /// Jinja template of an instance's id
    #[arg(long, value_name = "TEXT", help_heading = INSTANCES)]
    pub id_template: Option<String>,
    /// Jinja template of its task
    #[arg(long, value_name = "TEXT", help_heading = INSTANCES)]
    pub task_template: Option<String>,
    /// Jinja template of its image
    #[arg(long, value_name = "TEXT", help_heading = INSTANCES)]
    pub image_template: Option<String>,
    /// Jinja template of its repository (`workspace.repo`)
    #[arg(long, value_name = "TEXT", help_heading = INSTANCES)]
    pub repo_template: Option<String>,
    /// Jinja template of the commit to check out (`workspace.base_commit`)
    #[arg(long, value_name = "TEXT", help_heading = INSTANCES)]
    pub base_commit_template: Option<String>,
    /// Use the image of SWE-bench for an instance that names none
    #[arg(long, help_heading = INSTANCES)]
    pub swebench_images: bool,
    /// Which instances.
    #[command(flatten)]
    pub select: SelectArgs,
    /// Run all of them again
    #[arg(long, help_heading = AGAIN)]
    pub redo_existing: bool,
    /// Run those again that an error has ended
    #[arg(long, help_heading = AGAIN)]
    pub retry_failed: bool,
    /// Run those with this exit status again; repeatable
    #[arg(long, value_name = "STATUS", help_heading = AGAIN)]
    pub redo_status: Vec<String>,
    /// Go on although the config is not the one that the batch has begun with
    #[arg(long, help_heading = AGAIN)]
    pub config_changed: bool,
    /// How it is worked on.
    #[command(flatten)]
    pub work: WorkArgs,
    /// Flags of all runs.
    #[command(flatten)]
    pub run: ManyRunsArgs,
}

/// Flags of `batch worker`.
#[derive(Clone, Debug, Args)]
pub struct BatchWorkerArgs {
    /// The directory of the batch
    #[arg(value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub dir: PathBuf,
    /// The engine that is asked for other workers; without this flag the one that has started this worker
    #[arg(long, value_enum, help_heading = WORK)]
    pub engine: Option<EngineName>,
    /// The number of this worker, which says where in the manifest it begins
    #[arg(long, value_name = "N", conflicts_with = "index_env", help_heading = WORK)]
    pub index: Option<u32>,
    /// The variable that has the number of this worker: `JOB_COMPLETION_INDEX` (Kubernetes),
    /// `AWS_BATCH_JOB_ARRAY_INDEX`, `SGE_TASK_ID`; Slurm's is known
    #[arg(long, value_name = "NAME", help_heading = WORK)]
    pub index_env: Option<String>,
    /// For so many seconds another worker may be silent
    #[arg(long, value_name = "SECONDS", default_value_t = 120, help_heading = WORK,
          value_parser = clap::value_parser!(u32).range(1..))]
    pub lease: u32,
    /// End when there is nothing to claim, instead of waiting for the end of other workers
    #[arg(long, help_heading = WORK)]
    pub no_wait: bool,
    /// How it is worked on.
    #[command(flatten)]
    pub work: WorkArgs,
    /// Flags of all runs.
    #[command(flatten)]
    pub run: ManyRunsArgs,
}

/// What starts workers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum EngineName {
    /// Slurm
    Slurm,
    /// The user, or anything else
    None,
}

/// Flags of `batch submit`.
#[derive(Clone, Debug, Args)]
pub struct BatchSubmitArgs {
    /// What starts the workers
    #[arg(long, value_enum, default_value = "slurm", help_heading = ENGINE)]
    pub engine: EngineName,
    /// How many workers
    #[arg(long, value_name = "N", default_value_t = 4, help_heading = ENGINE,
          value_parser = clap::value_parser!(u32).range(1..))]
    pub array: u32,
    /// How many of them at a time
    #[arg(long, value_name = "N", help_heading = ENGINE)]
    pub at_a_time: Option<u32>,
    /// Seconds before its end at which a worker is told
    #[arg(long, value_name = "SECONDS", default_value_t = 120, help_heading = ENGINE)]
    pub warning: u32,
    /// The partition
    #[arg(long, value_name = "NAME", help_heading = ENGINE)]
    pub partition: Option<String>,
    /// The account
    #[arg(long, value_name = "NAME", help_heading = ENGINE)]
    pub account: Option<String>,
    /// The time of a worker, as the engine reads it: `4:00:00`
    #[arg(long, value_name = "TIME", help_heading = ENGINE)]
    pub time: Option<String>,
    /// The memory of a worker, as the engine reads it: `16G`
    #[arg(long, value_name = "SIZE", help_heading = ENGINE)]
    pub mem: Option<String>,
    /// The processors of a worker
    #[arg(long, value_name = "N", help_heading = ENGINE)]
    pub cpus_per_task: Option<u32>,
    /// Another option of `sbatch`, whole: `--sbatch=--constraint=amd`; repeatable
    #[arg(long, value_name = "OPTION", allow_hyphen_values = true, help_heading = ENGINE)]
    pub sbatch: Vec<String>,
    /// The batch.
    #[command(flatten)]
    pub batch: BatchRunArgs,
}

/// Flags of `batch cancel`.
#[derive(Clone, Debug, Args)]
pub struct BatchCancelArgs {
    /// The directory of the batch
    #[arg(value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub dir: PathBuf,
}

/// Which instances.
#[derive(Clone, Debug, Default, Args)]
pub struct SelectArgs {
    /// Only instances whose id this regular expression matches at its start
    #[arg(long, value_name = "REGEX", default_value = "", hide_default_value = true,
          help_heading = INSTANCES)]
    pub filter: String,
    /// Only these, as a slice of Python: `0:50`, `-10:`, `::2`
    #[arg(long, value_name = "SLICE", default_value = "", hide_default_value = true,
          allow_hyphen_values = true, help_heading = INSTANCES)]
    pub slice: String,
    /// Mix them: the order is mini-swe-agent's (the seed is 42)
    #[arg(long, help_heading = INSTANCES)]
    pub shuffle: bool,
}

/// How a batch is worked on.
#[derive(Clone, Debug, Args)]
pub struct WorkArgs {
    /// How many instances run at a time
    #[arg(short, long, value_name = "N", default_value_t = 1, help_heading = WORK,
          value_parser = clap::value_parser!(u32).range(1..))]
    pub workers: u32,
    /// End the run of an instance after this many seconds (0 = never)
    #[arg(long, value_name = "SECONDS", default_value_t = 0, help_heading = WORK)]
    pub instance_timeout: u32,
    /// How often an instance is tried again after a fault of the infrastructure
    #[arg(long, value_name = "N", default_value_t = 2, help_heading = WORK)]
    pub retries: u32,
    /// Seconds before that; they double each time
    #[arg(long, value_name = "SECONDS", default_value_t = 10, help_heading = WORK)]
    pub retry_wait: u32,
    /// Begin no further instance after this many failures in a row (0 = go on)
    #[arg(long, value_name = "N", default_value_t = 10, help_heading = WORK)]
    pub max_failures: u32,
    /// Stop when all instances of the directory together have cost this many dollars (0 = no limit)
    #[arg(long, value_name = "DOLLARS", default_value = "0", help_heading = WORK,
          value_parser = values::dollars)]
    pub total_cost_limit: f64,
    /// Stop after this many queries of all instances of the directory (0 = no limit)
    #[arg(long, value_name = "N", default_value_t = 0, help_heading = WORK)]
    pub total_call_limit: u64,
    /// Pull at most this many images at a time
    #[arg(long, value_name = "N", default_value_t = 4, help_heading = WORK,
          value_parser = clap::value_parser!(u32).range(1..))]
    pub pulls: u32,
    /// Begin no instance while less than this many MiB of memory are free (0 = begin anyway)
    #[arg(long, value_name = "MIB", default_value_t = 256, help_heading = WORK)]
    pub min_memory: u64,
    /// Begin no instance while less than this many MiB are free on the disk of the directory (0 = begin anyway)
    #[arg(long, value_name = "MIB", default_value_t = 100, help_heading = WORK)]
    pub min_disk: u64,
}

/// Flags of the commands that look at a batch.
#[derive(Clone, Debug, Args)]
pub struct BatchLookArgs {
    /// The directory of the batch
    #[arg(value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub dir: PathBuf,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

/// Flags of `batch watch`.
#[derive(Clone, Debug, Args)]
pub struct BatchWatchArgs {
    /// The directory of the batch
    #[arg(value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub dir: PathBuf,
}

/// Flags of `batch report`.
#[derive(Clone, Debug, Args)]
pub struct BatchReportArgs {
    /// Which batch, and how.
    #[command(flatten)]
    pub look: BatchLookArgs,
    /// The report of an evaluation, with `resolved_ids`, as SWE-bench's harness and `sb-cli` write it
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub resolved: Option<PathBuf>,
    /// Print one page with plots and all instances, which needs nothing from elsewhere
    #[arg(long, conflicts_with = "json")]
    pub html: bool,
}

/// Flags of `batch preds`.
#[derive(Clone, Debug, Args)]
pub struct BatchPredsArgs {
    /// The directory of the batch
    #[arg(value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub dir: PathBuf,
    /// Print one JSON line per instance, instead of one JSON object
    #[arg(long)]
    pub jsonl: bool,
    /// Leave out instances without a patch
    #[arg(long)]
    pub with_patch: bool,
}

/// Flags of `batch compare`.
#[derive(Clone, Debug, Args)]
pub struct BatchCompareArgs {
    /// The directory of the first batch
    #[arg(value_name = "A", value_hint = ValueHint::DirPath)]
    pub first: PathBuf,
    /// The directory of the second batch
    #[arg(value_name = "B", value_hint = ValueHint::DirPath)]
    pub second: PathBuf,
    /// The report of an evaluation of the first batch; without both, what has a submission counts
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub resolved_first: Option<PathBuf>,
    /// The report of an evaluation of the second batch
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub resolved_second: Option<PathBuf>,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

/// Flags of `batch merge`.
#[derive(Clone, Debug, Args)]
pub struct BatchMergeArgs {
    /// The directory to make, or to add to
    #[arg(value_name = "INTO", value_hint = ValueHint::DirPath)]
    pub into: PathBuf,
    /// The directories to put together; they are left as they are
    #[arg(value_name = "DIR", required = true, value_hint = ValueHint::DirPath)]
    pub parts: Vec<PathBuf>,
    /// Put them together although their configs differ
    #[arg(long)]
    pub config_changed: bool,
}

/// Flags of `batch export`.
#[derive(Clone, Debug, Args)]
pub struct BatchExportArgs {
    /// The directory of the batch
    #[arg(value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub dir: PathBuf,
    /// Only runs with this exit status; repeatable
    #[arg(long, value_name = "STATUS")]
    pub status: Vec<String>,
    /// The report of an evaluation: each line says whether the instance is resolved
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub resolved: Option<PathBuf>,
    /// Only runs whose instance is resolved
    #[arg(long)]
    pub only_resolved: bool,
}

/// Flags of `swebench`.
#[derive(Clone, Debug, Args)]
#[command(after_help = SWEBENCH)]
#[command(mut_arg("output", |arg| arg.hide(false).help("The folder of the results [default: swebench-results]")))]
pub struct SwebenchArgs {
    /// The instances: a data set's name, a file or a folder
    #[arg(long, value_name = "NAME|FILE|FOLDER", default_value = "lite", help_heading = INSTANCES)]
    pub subset: String,
    /// Which part of a data set
    #[arg(long, value_name = "NAME", default_value = "dev", help_heading = INSTANCES)]
    pub split: String,
    /// Which instances.
    #[command(flatten)]
    pub select: SelectArgs,
    /// Run instances again that are in `preds.json`
    #[arg(long, action = ArgAction::SetTrue, help_heading = AGAIN)]
    pub redo_existing: bool,
    /// Run those again that an error has ended
    #[arg(long, help_heading = AGAIN)]
    pub retry_failed: bool,
    /// Go on although the config is not the one that the folder was begun with
    #[arg(long, help_heading = AGAIN)]
    pub config_changed: bool,
    /// How it is worked on.
    #[command(flatten)]
    pub work: WorkArgs,
    /// Flags of all runs.
    #[command(flatten)]
    pub run: ManyRunsArgs,
}

/// Flags of `swebench-single`.
#[derive(Clone, Debug, Args)]
#[command(mut_arg("task", |arg| arg.hide(true)))]
pub struct SwebenchSingleArgs {
    /// The instances: a data set's name, a file or a folder
    #[arg(long, value_name = "NAME|FILE|FOLDER", default_value = "lite", help_heading = INSTANCES)]
    pub subset: String,
    /// Which part of a data set
    #[arg(long, value_name = "NAME", default_value = "dev", help_heading = INSTANCES)]
    pub split: String,
    /// The id of the instance, or its place in the sorted ids, from 0
    #[arg(short, long, value_name = "ID", default_value = "0", help_heading = INSTANCES)]
    pub instance: String,
    /// Flags of the run.
    #[command(flatten)]
    pub run: RunArgs,
}

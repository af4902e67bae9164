//! The command line as it was typed: the flags and their help, without their meaning.
//!
//! A flag for a config key becomes an entry of [`RunArgs::overrides`], the last layer of the
//! config. So a flag and its key have the same effect, and `config show --origin` can name the
//! flag. The values are checked when the config is resolved; this module checks only their syntax.

mod again;
mod batch;
mod export;
mod inspect;
mod machine;
mod many;
mod overrides;
mod person;
mod plugin;
mod price;
mod runs;
mod stray;
mod swe;
mod task;
mod values;
mod view;

use std::io::Write;
use std::path::PathBuf;

use clap::{ArgAction, Args, CommandFactory, Parser, Subcommand, ValueHint};
use clap_complete::Shell;
use serde_json::json;

use super::exit::ExitCodes;

pub use again::{ChangeArgs, ContinueArgs, ForkArgs, ReplayArgs, ResumeArgs};
pub use batch::{
    BatchCancelArgs, BatchCommand, BatchCompareArgs, BatchExportArgs, BatchLookArgs,
    BatchMergeArgs, BatchPredsArgs, BatchReportArgs, BatchRunArgs, BatchSubmitArgs, BatchWatchArgs,
    BatchWorkerArgs, EngineName, SelectArgs, SwebenchArgs, SwebenchSingleArgs, WorkArgs,
};
pub use export::{ExportArgs, ExportFormat};
pub use inspect::InspectArgs;
pub use machine::{DoctorArgs, GcArgs, RuntimeCommand, SelfCommand, ServeArgs, SetupArgs};
pub use overrides::Override;
use overrides::Overrides;
pub use person::PersonArgs;
pub use plugin::{
    BenchArgs, BuildArgs, CacheCommand, CallArgs, CheckArgs, DiffArgs, NewArgs, PinArgs,
    PluginCommand,
};
pub use price::{PriceArgument, PriceArgumentError};
pub use runs::{ListArgs, RemoveArgs, RepairArgs, RunsCommand, ShowArgs};
pub use stray::advice;
pub use swe::{DemoFileArgs, ShellArgs, SweagentCommand};
pub use task::{TaskError, read_task};
pub use view::ViewArgs;

/// Name of the program, in help, completions and the manual page.
const PROGRAM: &str = "mswea-host";

/// Heading of the flags that few users need.
const RARE: &str = "Rarely needed";
/// Heading of the flags that end a run early.
const LIMITS: &str = "Limits (0 = none)";
/// Heading of the flags for the output.
const DISPLAY: &str = "Display";

const EXAMPLES: &str = "\
Examples:
  mswea-host demo
      See it work: no key and no network needed.
  mswea-host -m openai/gpt-5 -t \"fix the failing test\"
      Work in the current directory with a hosted model (key in OPENAI_API_KEY).
  mswea-host -m local/qwen --base-url http://127.0.0.1:8000/v1 -t - < task.md
      Any server with an OpenAI-compatible API; the task comes from stdin.
  mswea-host -m openai/gpt-5 -c text --plugin text_regex -t \"...\"
      Swap a part of the agent for another plugin, by name or by file.
  mswea-host -m openai/gpt-5 -l 1.50 -o run.traj.json -t \"...\" > fix.patch
      Stop at $1.50, keep the trajectory, write the submission to a file.

The agent works in the current directory; commands of the model run on this machine.
At a terminal each step waits for Enter (`-y`: none does); elsewhere nothing is asked.
Progress goes to stderr, the submission to stdout.

Exit codes:
  0 submitted · 1 ended otherwise or failed · 2 usage or config · 3 a limit ·
  4 format errors · 5 provider or authentication · 6 environment · 7 plugin ·
  130 interrupted";

/// A coding agent whose parts are WebAssembly plugins
#[derive(Clone, Debug, Parser)]
#[command(
    name = PROGRAM,
    bin_name = PROGRAM,
    version,
    after_help = EXAMPLES,
    args_conflicts_with_subcommands = true,
    args_override_self = true,
    subcommand_help_heading = "Commands (without one: run a task)",
    max_term_width = 100
)]
pub struct Cli {
    /// The commands besides running a task.
    #[command(subcommand)]
    pub command: Option<HostCommand>,
    /// Flags of a run.
    #[command(flatten)]
    pub run: RunArgs,
}

/// The commands besides running a task.
#[derive(Clone, Debug, Subcommand)]
pub enum HostCommand {
    /// Fix a bug in a small repository with a scripted model: no key, no network
    Demo(DemoArgs),
    /// Write, check, compare and look at plugins
    #[command(subcommand)]
    Plugin(PluginCommand),
    /// Look at the configuration
    #[command(subcommand)]
    Config(ConfigCommand),
    /// Look at the prices of models, and bring them up to date
    #[command(subcommand)]
    Prices(PricesCommand),
    /// Go on with a run that was broken off, or that ended without submitting
    #[command(after_help = again::RESUME)]
    Resume(Box<ResumeArgs>),
    /// Begin a new run with the first steps of another one
    #[command(after_help = again::FORK)]
    Fork(Box<ForkArgs>),
    /// Begin a new run with all of another one, and a further message to the model
    #[command(name = "continue", after_help = again::CONTINUE)]
    GoOn(Box<ContinueArgs>),
    /// Do a recorded run once more, without a model and without running a command
    #[command(after_help = again::REPLAY)]
    Replay(Box<ReplayArgs>),
    /// Look after recorded runs
    #[command(subcommand)]
    Runs(RunsCommand),
    /// Write a recorded run as a page, or in the format of another program
    #[command(
        after_help = "Values of this process's secret variables, and keys of well-known services, are \
        blanked.\n\nExamples:\n  mswea-host export out.traj.json --to html -o run.html\n  \
        mswea-host export out.traj.json --to atif -o trajectory.json"
    )]
    Export(ExportArgs),
    /// Show runs on a page in the browser, also while they go on
    #[command(after_help = view::VIEW)]
    View(ViewArgs),
    /// Show runs on the whole screen of a terminal, also while they go on
    #[command(after_help = inspect::INSPECT, aliases = ["i", "inspector"])]
    Inspect(InspectArgs),
    /// Run many instances, and leave exactly one result for each
    #[command(subcommand)]
    Batch(BatchCommand),
    /// Run instances of SWE-bench, with the flags and files of `mini-extra swebench`
    Swebench(Box<SwebenchArgs>),
    /// Run one instance of SWE-bench, as `mini-extra swebench-single`
    SwebenchSingle(Box<SwebenchSingleArgs>),
    /// Run SWE-agent's commands: its flags, its config files, its trajectories
    #[command(subcommand)]
    Sweagent(SweagentCommand),
    /// Tell what works on this machine, and how to get the rest
    Doctor(DoctorArgs),
    /// Look after this installation
    #[command(subcommand, name = "self")]
    Installation(SelfCommand),
    /// Ask for a provider, its key and a model, try them, and keep them
    Setup(SetupArgs),
    /// Remove what killed runs have left behind: processes, folders, containers
    #[command(
        after_help = "Only what is certainly left behind is removed: never anything of a \
        run that goes on. What is left is named with the reason."
    )]
    Gc(GcArgs),
    /// Run commands for runs on other machines
    #[command(subcommand)]
    Runtime(RuntimeCommand),
    /// Print a completion script for a shell
    #[command(after_help = "Example:\n  mswea-host completions bash \
        > ~/.local/share/bash-completion/completions/mswea-host")]
    Completions {
        /// The shell
        shell: Shell,
    },
    /// Print the manual page (roff)
    #[command(after_help = "Example:\n  mswea-host man | man -l -")]
    Man,
    /// Write a copy of this program that carries its plugins as machine code
    ///
    /// The copy starts without compiling anything, also with an empty home directory.
    Ship {
        /// File to write
        #[arg(value_hint = ValueHint::FilePath)]
        output: PathBuf,
        /// Carry the machine code of this plugin's file, too: where there is no cache, it is not
        /// compiled at each start then; repeatable
        #[arg(long = "plugin", value_name = "FILE", value_hint = ValueHint::FilePath)]
        plugins: Vec<PathBuf>,
    },
    /// Ends what a killed host has left behind; started by the host itself
    #[command(name = "__guard", hide = true)]
    Guard {
        /// The run to watch
        run_id: String,
    },
}

/// Flags of a run.
#[derive(Clone, Debug, Default, Args)]
pub struct RunArgs {
    /// The model, as `PROVIDER/NAME` (`openai/gpt-5`, `local/qwen`), or as `ADAPTER/NAME` for a plugin
    #[arg(short, long, value_name = "MODEL")]
    pub model: Option<String>,

    /// What to do; `-` reads it from stdin
    #[arg(short, long, value_name = "TEXT", allow_hyphen_values = true)]
    pub task: Option<String>,

    /// The model class, as `mini` names it: `litellm_textbased` finds commands in the text
    #[arg(long, value_name = "CLASS", help_heading = RARE)]
    pub model_class: Option<String>,

    /// The agent class, as `mini` names it: `default` or `interactive`
    #[arg(long, value_name = "CLASS", help_heading = RARE)]
    pub agent_class: Option<String>,

    /// The environment class, as `mini` names it: where commands run
    #[arg(long, value_name = "CLASS", help_heading = RARE)]
    pub environment_class: Option<String>,

    /// Run commands in a container of this image
    #[arg(long, value_name = "IMAGE")]
    pub image: Option<String>,

    /// A config file (with a `/` or its suffix), a preset's name or `dotted.key=value`;
    /// repeatable, later ones win
    #[arg(short, long = "config", value_name = "SPEC", value_hint = ValueHint::FilePath)]
    pub configs: Vec<String>,

    /// Start from nothing instead of the preset `default`
    #[arg(long)]
    pub no_default_config: bool,

    /// Write the trajectory here
    #[arg(short, long, value_name = "PATH", value_hint = ValueHint::FilePath)]
    pub output: Option<String>,

    /// Work in this directory instead of the current one
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub cwd: Option<String>,

    /// Where the model's API is, for example `http://127.0.0.1:8000/v1`
    #[arg(long, value_name = "URL", value_hint = ValueHint::Url, value_parser = values::base_url)]
    pub base_url: Option<String>,

    /// A plugin to use, by name or file: takes the place of its kind's, or joins the history
    /// processors or policies; repeatable
    #[arg(long = "plugin", value_name = "FILE|NAME", value_hint = ValueHint::FilePath)]
    pub plugins: Vec<String>,

    /// Run this plugin beside the real one of its kind on the same inputs, and record where it
    /// differs; repeatable
    #[arg(long, value_name = "FILE|NAME", value_hint = ValueHint::FilePath)]
    pub shadow: Vec<String>,

    /// Let plugins send requests to this host, as `host` or `host:port`; repeatable
    #[arg(long = "allow-host", value_name = "HOST", value_parser = values::host)]
    pub allow_hosts: Vec<String>,

    /// Stop when this many dollars are spent
    #[arg(short = 'l', long, value_name = "DOLLARS", help_heading = LIMITS,
          allow_negative_numbers = true, value_parser = values::dollars)]
    pub cost_limit: Option<f64>,

    /// Stop after this many queries of the model
    #[arg(long, value_name = "N", help_heading = LIMITS,
          allow_negative_numbers = true, value_parser = values::count)]
    pub step_limit: Option<u32>,

    /// Stop after this many seconds
    #[arg(long, value_name = "SECONDS", help_heading = LIMITS,
          allow_negative_numbers = true, value_parser = values::count)]
    pub time_limit: Option<u32>,

    /// Dollars per million tokens: `in=1.25,out=10`, also `cache_read=`, `cache_write=`
    #[arg(long, value_name = "PRICES", help_heading = LIMITS, allow_hyphen_values = true)]
    pub price: Option<PriceArgument>,

    /// Run this shell command when the run has ended, whatever the ending
    #[arg(long, value_name = "CMD", allow_hyphen_values = true)]
    pub on_end: Option<String>,

    /// At every ending, write the run here in ATIF, the trajectory format of Harbor
    #[arg(long, value_name = "PATH", value_hint = ValueHint::FilePath, help_heading = RARE)]
    pub atif: Option<String>,

    /// The options for what is shown.
    #[command(flatten)]
    pub display: DisplayArgs,

    /// Who decides at a terminal, and is asked.
    #[command(flatten)]
    pub person: PersonArgs,

    /// Send this header with each request to the model, such as `X-Session-ID=s1`
    #[arg(long, value_name = "NAME=VALUE", help_heading = RARE, value_parser = values::header)]
    pub session_header: Option<(String, String)>,

    /// The id of the run: letters, digits, `-`, `_` and `.`; no other run may have it
    #[arg(long, value_name = "ID", help_heading = RARE)]
    pub run_id: Option<String>,

    /// Ask the model for whole answers instead of a stream
    #[arg(long, help_heading = RARE)]
    pub no_stream: bool,

    /// Flush the journal to the disk at every step: survives a crash of the machine
    #[arg(long, help_heading = RARE)]
    pub fsync: bool,

    /// What the exit code tells: `mini` is 0 unless an error ended the run, as mini-swe-agent's
    #[arg(long, value_name = "SCHEME", help_heading = RARE, env = "MSWEA_EXIT_CODES",
          value_enum, default_value_t, hide_possible_values = true, hide_default_value = true)]
    pub exit_codes: ExitCodes,

    /// Neither read nor write compiled plugins on disk
    #[arg(long, help_heading = RARE)]
    pub no_cache: bool,

    /// Build plugins anew for every call: slow, shows up plugins that keep hidden state
    #[arg(long, help_heading = RARE)]
    pub fresh_instances: bool,
}

/// How much is shown, and in which form.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Args)]
pub struct DisplayArgs {
    /// Print one JSON object per event on stdout, for machines
    #[arg(long, help_heading = DISPLAY, conflicts_with_all = ["quiet", "verbose"])]
    pub json: bool,

    /// Show only errors and how it ended; nothing is asked
    #[arg(short, long, help_heading = DISPLAY, conflicts_with = "verbose")]
    pub quiet: bool,

    /// Show more: reasoning and longer output; twice: all messages, unshortened, and logs
    #[arg(short, long, help_heading = DISPLAY, action = ArgAction::Count)]
    pub verbose: u8,

    /// Never write a line anew: for screen readers
    #[arg(long, help_heading = DISPLAY)]
    pub plain: bool,
}

/// Flags of `demo`.
#[derive(Clone, Debug, Default, Args)]
pub struct DemoArgs {
    /// Keep the repository and the trajectory, and say where they are
    #[arg(long)]
    pub keep: bool,
    /// The options for what is shown.
    #[command(flatten)]
    pub display: DisplayArgs,
}

/// The commands about the configuration.
#[derive(Clone, Debug, Subcommand)]
pub enum ConfigCommand {
    /// Print the configuration that a run with these flags would have
    Show {
        /// Say behind each value where it comes from
        #[arg(long)]
        origin: bool,
        /// Flags of a run.
        #[command(flatten)]
        run: Box<RunArgs>,
    },
    /// Print the JSON Schema of the configuration
    Schema,
}

/// The commands about prices.
#[derive(Clone, Debug, Subcommand)]
pub enum PricesCommand {
    /// Show what a model's tokens cost, and where that is from
    Show {
        /// The model, as `PREFIX/NAME`
        model: String,
        /// Print JSON
        #[arg(long)]
        json: bool,
        /// Flags of a run: its config may name a price or a registry.
        #[arg(short, long = "config", value_name = "SPEC")]
        configs: Vec<String>,
    },
    /// Take newer prices from a file on disk, in litellm's JSON format
    #[command(
        after_help = "The file is litellm's `model_prices_and_context_window.json`. What it \
        says comes before the built-in table, and after `--price` and a registry."
    )]
    Update {
        /// The file
        #[arg(value_hint = ValueHint::FilePath)]
        file: PathBuf,
        /// Where the prices are from, as `prices show` will say it
        #[arg(long, value_name = "TEXT")]
        source: Option<String>,
        /// Write the table here instead of the user's config folder
        #[arg(long, value_name = "PATH", value_hint = ValueHint::FilePath)]
        output: Option<PathBuf>,
    },
    /// Go back to the built-in prices
    Reset,
}

impl RunArgs {
    /// The config values of the flags, in the order of the config's sections.
    ///
    /// These flags have no config keys: the task and the specs of `--config`; `--plugin` (its key
    /// depends on the kinds of the component) and `--allow-host` (for the adapter of the run);
    /// settings of this process (`--fresh-instances`, `--fsync`, `--no-cache`, the display).
    pub fn overrides(&self) -> Vec<Override> {
        let mut overrides = Overrides::default();
        overrides.add("model.model_name", "--model", self.model.as_ref());
        overrides.add(
            "model.model_class",
            "--model-class",
            self.model_class.as_ref(),
        );
        overrides.add("model.base_url", "--base-url", self.base_url.as_ref());
        overrides.add(
            "model.stream",
            "--no-stream",
            self.no_stream.then_some(false),
        );
        if let Some(price) = &self.price {
            // All four prices, so that no price of another model remains.
            for (key, dollars) in price.entries() {
                overrides.add(key, "--price", Some(dollars));
            }
        }
        if let Some((name, value)) = &self.session_header {
            let header = json!({ name: value });
            overrides.add("model.session_header", "--session-header", Some(header));
        }
        overrides.add("agent.step_limit", "--step-limit", self.step_limit);
        overrides.add("agent.cost_limit", "--cost-limit", self.cost_limit);
        overrides.add(
            "agent.wall_time_limit_seconds",
            "--time-limit",
            self.time_limit,
        );
        overrides.add("agent.output_path", "--output", self.output.as_ref());
        overrides.add(
            "agent.agent_class",
            "--agent-class",
            self.agent_class.as_ref(),
        );
        self.person.add_to(&mut overrides);
        let class = self.environment_class.as_ref();
        overrides.add(
            "environment.environment_class",
            "--environment-class",
            class,
        );
        overrides.add("environment.image", "--image", self.image.as_ref());
        overrides.add("run.on_end", "--on-end", self.on_end.as_ref());
        overrides.add("run.atif_path", "--atif", self.atif.as_ref());
        overrides.add("environment.cwd", "--cwd", self.cwd.as_ref());
        overrides.0
    }
}

/// Writes the completion script for `shell`.
pub fn write_completions(shell: Shell, out: &mut dyn Write) {
    // clap_complete panics when it can't write, for example to a closed pipe, so it writes to
    // memory.
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut Cli::command(), PROGRAM, &mut script);
    drop(out.write_all(&script));
}

/// Writes the manual page.
///
/// # Errors
/// When `out` can't be written.
pub fn write_man(out: &mut dyn Write) -> std::io::Result<()> {
    clap_mangen::Man::new(Cli::command()).render(out)
}

#[cfg(test)]
mod tests;

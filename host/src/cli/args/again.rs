//! Flags of the commands that go on from a recorded run.

use std::path::PathBuf;

use clap::{Args, ValueHint};

use super::{DisplayArgs, ExitCodes, LIMITS, PersonArgs, PriceArgument, RARE, RunArgs, values};

/// The help of `resume`.
pub(super) const RESUME: &str = "\
The run goes on in its own files, with the config and the plugins that its journal has recorded;
flags change that from here on. It works after kill -9, a limit, an error or a lost network.

A reply that was paid for is used. A command that was running is reported to the model as
interrupted, and is not run again. The workspace is used as it is. A container that still exists
is used again (`-c environment.keep_container=true` keeps it); one that is gone is made anew,
and the model is told.

Examples:
  mswea-host resume out.traj.json
  mswea-host resume 19a7b2c --step-limit 200";

/// The help of `fork`.
pub(super) const FORK: &str = "\
The new run has its own id and its own files, and its journal names the run that it comes from.
Its history and its account begin with the first STEP steps; the recorded run is not changed.

The workspace must be what it was after these steps: before the first step (`--at 0`) that is a
new clone or container; at the end of a run it is made from the patch that the run has recorded
(`workspace`), if the files have no other changes. `--no-workspace` uses it as it is.

Example:
  mswea-host fork out.traj.json --at 12 --no-workspace -m openai/gpt-5 -o other.traj.json";

/// The help of `continue`.
pub(super) const CONTINUE: &str = "\
The new run has its own id and its own files; costs and counts go on from those of the recorded run,
which is not changed. What it has submitted is taken back: for the model that command was not run, and
your message follows. The workspace is used as it is.

Limits hold for all of it: a run that a limit has ended goes on with a higher one (`--step-limit`).

Example:
  mswea-host continue out.traj.json -t 'now write a test for it' -o next.traj.json";

/// The help of `replay`.
pub(super) const REPLAY: &str = "\
Replies and outputs come from the journal; the loop and the plugins work as in a run. With
`--plugin` it shows what another parser, formatter or history processor makes of the same run, up to
the first command that did not run then. Nothing is sent or written.

`--verify` also makes the first messages anew, and compares the end with the events, the journal
with the digests that were noted during the run, and a trajectory with its journal.

Exit code with `--verify`: 0 if all is the same, 1 if something differs.

Examples:
  mswea-host replay --verify out.traj.json
  mswea-host replay --verify out.traj.json --plugin ./my_formatter.wasm";

/// What may differ from the recorded run.
#[derive(Clone, Debug, Default, Args)]
pub struct ChangeArgs {
    /// Another model, as `PROVIDER/NAME`
    #[arg(short, long, value_name = "MODEL")]
    pub model: Option<String>,

    /// Another value of the config: a file, a preset's name or `dotted.key=value`; repeatable,
    /// later ones win
    #[arg(short, long = "config", value_name = "SPEC", value_hint = ValueHint::FilePath)]
    pub configs: Vec<String>,

    /// Where the model's API is now
    #[arg(long, value_name = "URL", value_hint = ValueHint::Url, value_parser = values::base_url)]
    pub base_url: Option<String>,

    /// Another plugin, or one of the run that has changed since; repeatable
    #[arg(long = "plugin", value_name = "FILE|NAME", value_hint = ValueHint::FilePath)]
    pub plugins: Vec<String>,

    /// Go on although a plugin has changed since the run
    #[arg(long, help_heading = RARE)]
    pub accept_changed_plugins: bool,

    /// Let plugins send requests to this host, as `host` or `host:port`; repeatable
    #[arg(long = "allow-host", value_name = "HOST", value_parser = values::host)]
    pub allow_hosts: Vec<String>,

    /// Stop when this many dollars are spent, those of the recorded steps included
    #[arg(short = 'l', long, value_name = "DOLLARS", help_heading = LIMITS,
          allow_negative_numbers = true, value_parser = values::dollars)]
    pub cost_limit: Option<f64>,

    /// Stop after this many queries of the model, those of the recorded steps included
    #[arg(long, value_name = "N", help_heading = LIMITS,
          allow_negative_numbers = true, value_parser = values::count)]
    pub step_limit: Option<u32>,

    /// Stop after this many seconds, those of the recorded steps included
    #[arg(long, value_name = "SECONDS", help_heading = LIMITS,
          allow_negative_numbers = true, value_parser = values::count)]
    pub time_limit: Option<u32>,

    /// Dollars per million tokens: `in=1.25,out=10`, also `cache_read=`, `cache_write=`
    #[arg(long, value_name = "PRICES", help_heading = LIMITS, allow_hyphen_values = true)]
    pub price: Option<PriceArgument>,

    /// Send this header with each request to the model, such as `X-Session-ID=s1`
    #[arg(long, value_name = "NAME=VALUE", help_heading = RARE, value_parser = values::header)]
    pub session_header: Option<(String, String)>,

    /// Who decides at a terminal, and is asked.
    #[command(flatten)]
    pub person: PersonArgs,

    /// What is shown.
    #[command(flatten)]
    pub display: DisplayArgs,

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
}

impl ChangeArgs {
    /// The same as flags of a run.
    pub fn as_run(&self) -> RunArgs {
        RunArgs {
            model: self.model.clone(),
            configs: self.configs.clone(),
            base_url: self.base_url.clone(),
            plugins: self.plugins.clone(),
            allow_hosts: self.allow_hosts.clone(),
            cost_limit: self.cost_limit,
            step_limit: self.step_limit,
            time_limit: self.time_limit,
            price: self.price,
            session_header: self.session_header.clone(),
            person: self.person.clone(),
            display: self.display,
            fsync: self.fsync,
            exit_codes: self.exit_codes,
            no_cache: self.no_cache,
            ..RunArgs::default()
        }
    }
}

/// Flags of `resume`.
#[derive(Clone, Debug, Default, Args)]
pub struct ResumeArgs {
    /// The run: its id, the beginning of its id, its journal or its trajectory
    #[arg(value_name = "RUN", value_hint = ValueHint::FilePath)]
    pub run: PathBuf,
    /// Go on by all that the record says, also where it was changed, or written on another machine
    #[arg(long, help_heading = RARE)]
    pub trust_record: bool,
    /// What differs from now on.
    #[command(flatten)]
    pub change: ChangeArgs,
}

/// Flags of `fork`.
#[derive(Clone, Debug, Default, Args)]
pub struct ForkArgs {
    /// The run: its id, the beginning of its id, its journal or its trajectory
    #[arg(value_name = "RUN", value_hint = ValueHint::FilePath)]
    pub run: PathBuf,
    /// How many of its steps the new run begins with
    #[arg(long, value_name = "STEP", allow_negative_numbers = true, value_parser = values::step)]
    pub at: u32,
    /// Use the workspace as it is, instead of what it was at that step
    #[arg(long)]
    pub no_workspace: bool,
    /// Write the trajectory here
    #[arg(short, long, value_name = "PATH", value_hint = ValueHint::FilePath)]
    pub output: Option<String>,
    /// Go on by all that the record says, also where it was changed, or written on another machine
    #[arg(long, help_heading = RARE)]
    pub trust_record: bool,
    /// What differs from there on.
    #[command(flatten)]
    pub change: ChangeArgs,
}

/// Flags of `continue`.
#[derive(Clone, Debug, Default, Args)]
pub struct ContinueArgs {
    /// The run: its id, the beginning of its id, its journal or its trajectory; or a trajectory of
    /// mini-swe-agent
    #[arg(value_name = "RUN", value_hint = ValueHint::FilePath)]
    pub run: PathBuf,
    /// The message to the model: what to do next
    #[arg(short, long, value_name = "TEXT", allow_hyphen_values = true)]
    pub task: String,
    /// Write the trajectory here
    #[arg(short, long, value_name = "PATH", value_hint = ValueHint::FilePath)]
    pub output: Option<String>,
    /// The id of the new run
    #[arg(long, value_name = "ID", help_heading = RARE)]
    pub run_id: Option<String>,
    /// Go on by all that the record says, also where it was changed, or written on another machine
    #[arg(long, help_heading = RARE)]
    pub trust_record: bool,
    /// What differs from there on.
    #[command(flatten)]
    pub change: ChangeArgs,
}

/// Flags of `replay`.
#[derive(Clone, Debug, Default, Args)]
pub struct ReplayArgs {
    /// The run: its id, the beginning of its id, its journal or its trajectory
    #[arg(value_name = "RUN", value_hint = ValueHint::FilePath)]
    pub run: PathBuf,
    /// Compare every message with the recorded one, and show the first that differs
    #[arg(long)]
    pub verify: bool,
    /// What differs.
    #[command(flatten)]
    pub change: ChangeArgs,
}

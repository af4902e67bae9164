//! The flags of `plugin ...`, for authors of plugins and for users who compare plugins.

use std::path::PathBuf;

use clap::{Args, Subcommand, ValueHint};

/// The commands about plugins.
#[derive(Clone, Debug, Subcommand)]
pub enum PluginCommand {
    /// List the built-in plugins
    List {
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Show a plugin's kinds, contract version, config, imports, digest and the grants it needs
    Inspect {
        /// A component file, or the name of a built-in plugin
        #[arg(value_name = "FILE|NAME", value_hint = ValueHint::FilePath)]
        plugin: String,
        /// Print its interface as WIT instead
        #[arg(long, conflicts_with = "json")]
        wit: bool,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Make a project for a new plugin, which builds and passes its tests at once
    #[command(after_help = "Example:\n  mswea-host plugin new parser --lang python my_parser")]
    New(NewArgs),
    /// Build the plugin of a project that `plugin new` made
    Build(BuildArgs),
    /// Run the conformance kit: whether a plugin keeps every law of its kind
    Check(CheckArgs),
    /// Call one function of a plugin by hand
    #[command(
        after_help = "Fields that are left out are empty; the content of a message may be \
        one text.\n\nExamples:\n  mswea-host plugin call my.wasm describe\n  \
        mswea-host plugin call text_regex parse \
        '{\"message\": {\"role\": \"assistant\", \"content\": \"...\"}}'"
    )]
    Call(CallArgs),
    /// Measure a plugin: latency, memory and size, beside the built-in one of its kind
    Bench(BenchArgs),
    /// Run two plugins over every recorded step, and show where they differ
    #[command(after_help = "Example:\n  \
        mswea-host plugin diff text_regex my.wasm --trajectories runs/ --html report.html")]
    Diff(DiffArgs),
    /// Look after the compiled plugins on disk
    #[command(subcommand)]
    Cache(CacheCommand),
    /// Write digests of plugins into a lock file; a run with another digest is refused
    #[command(
        after_help = "Without a plugin, the pins are listed and checked.\n\nThe lock file \
        is `mswea-plugins.lock` in the current folder. A run checks the lock files in the current \
        folder and in the folders of its config files."
    )]
    Pin(PinArgs),
}

/// Flags of `plugin new`.
#[derive(Clone, Debug, Args)]
pub struct NewArgs {
    /// The kind: `adapter`, `parser`, `formatter`, `processor` or `policy`
    pub kind: String,
    /// The language: `rust`, `python`, `js` or `c`
    #[arg(short, long, value_name = "LANG", default_value = "rust")]
    pub lang: String,
    /// Its name: lower-case letters, digits, `_` and `-`
    pub name: String,
    /// The project's folder; by default one of that name, here
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub path: Option<PathBuf>,
}

/// Flags of `plugin build`.
#[derive(Clone, Debug, Default, Args)]
pub struct BuildArgs {
    /// The project's folder
    #[arg(default_value = ".", value_hint = ValueHint::DirPath)]
    pub folder: PathBuf,
    /// Install the missing parts of the toolchain that need no root
    #[arg(long)]
    pub install: bool,
    /// Make `build/NAME.dev.wasm` instead, which reads `plugin.py` at each start: built once, it
    /// shows every edit at once (`plugin check --source .`); Python only
    #[arg(long)]
    pub dev: bool,
    /// Show the output of the compilers
    #[arg(short, long)]
    pub verbose: bool,
}

/// Flags of `plugin check`.
#[derive(Clone, Debug, Default, Args)]
pub struct CheckArgs {
    /// A component file, or the name of a built-in plugin
    #[arg(value_name = "FILE|NAME", value_hint = ValueHint::FilePath)]
    pub plugin: String,
    /// A config that it has to work with, as JSON or as a file of it; repeatable. Without one,
    /// configs are derived from the schema: its defaults, its `examples`, the values of its enums
    #[arg(short, long = "config", value_name = "JSON|FILE")]
    pub configs: Vec<String>,
    /// Inputs besides the kit's own: a JSON object with any of `replies`, `actions`, `steps`,
    /// `histories`, `responses`, `invalid_configs`
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub samples: Option<PathBuf>,
    /// The project's folder, for a component of `plugin build --dev`: it may read it
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub source: Option<PathBuf>,
    /// Fewer and smaller cases
    #[arg(long)]
    pub quick: bool,
    /// Where the random cases start
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub seed: u64,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

/// Flags of `plugin call`.
#[derive(Clone, Debug, Default, Args)]
pub struct CallArgs {
    /// A component file, or the name of a built-in plugin
    #[arg(value_name = "FILE|NAME", value_hint = ValueHint::FilePath)]
    pub plugin: String,
    /// The function: `parse`, `format`, `apply`, `judge`, `query`, `describe`, ...
    pub function: String,
    /// Its argument as JSON, or an object of them by name; `-` reads it from stdin
    #[arg(value_name = "JSON")]
    pub arguments: Option<String>,
    /// The config, as JSON or as a file of it
    #[arg(short, long, value_name = "JSON|FILE")]
    pub config: Option<String>,
    /// The project's folder, for a component of `plugin build --dev`: it may read it
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub source: Option<PathBuf>,
    /// Call again with these arguments on the same instance; repeatable
    #[arg(long = "then", value_name = "FUNCTION=JSON")]
    pub then: Vec<String>,
}

/// Flags of `plugin bench`.
#[derive(Clone, Debug, Default, Args)]
pub struct BenchArgs {
    /// A component file, or the name of a built-in plugin
    #[arg(value_name = "FILE|NAME", value_hint = ValueHint::FilePath)]
    pub plugin: String,
    /// The config, as JSON or as a file of it
    #[arg(short, long, value_name = "JSON|FILE")]
    pub config: Option<String>,
    /// Measure beside this plugin instead of the built-in one of its kind
    #[arg(long, value_name = "FILE|NAME")]
    pub against: Option<String>,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

/// Flags of `plugin diff`.
#[derive(Clone, Debug, Default, Args)]
pub struct DiffArgs {
    /// A component file, or the name of a built-in plugin
    #[arg(value_name = "OLD", value_hint = ValueHint::FilePath, required_unless_present = "shadowed")]
    pub old: Option<String>,
    /// Another component file, or the name of another built-in plugin
    #[arg(value_name = "NEW", value_hint = ValueHint::FilePath, required_unless_present = "shadowed")]
    pub new: Option<String>,
    /// Recorded runs: trajectories and journals, in this folder and below it, or a file;
    /// repeatable
    #[arg(long, value_name = "DIR", value_hint = ValueHint::AnyPath, required_unless_present = "shadowed")]
    pub trajectories: Vec<PathBuf>,
    /// Report instead what the shadows of runs have found, by the journals in this folder or file;
    /// repeatable
    #[arg(long, value_name = "DIR", value_hint = ValueHint::AnyPath,
          conflicts_with_all = ["old", "new", "trajectories"])]
    pub shadowed: Vec<PathBuf>,
    /// The kind to compare, if both have several
    #[arg(long, value_name = "KIND")]
    pub kind: Option<String>,
    /// The config of both, as JSON or as a file of it
    #[arg(short, long, value_name = "JSON|FILE")]
    pub config: Option<String>,
    /// The config of the first, if it differs
    #[arg(long, value_name = "JSON|FILE")]
    pub old_config: Option<String>,
    /// The config of the second, if it differs
    #[arg(long, value_name = "JSON|FILE")]
    pub new_config: Option<String>,
    /// Show at most this many disagreements
    #[arg(long, value_name = "N", default_value_t = 10)]
    pub max_shown: usize,
    /// End with exit code 1 if they disagree in a result that affects a run
    #[arg(long)]
    pub exit_code: bool,
    /// Write a report with plots, as one file
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub html: Option<PathBuf>,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

/// The commands about the cache.
#[derive(Clone, Debug, Subcommand)]
pub enum CacheCommand {
    /// List the compiled plugins
    List {
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Delete them; they are compiled again when needed
    Clear,
}

/// Flags of `plugin pin`.
#[derive(Clone, Debug, Default, Args)]
pub struct PinArgs {
    /// Component files, or names of built-in plugins
    #[arg(value_name = "FILE|NAME", value_hint = ValueHint::FilePath)]
    pub plugins: Vec<String>,
    /// The lock file
    #[arg(long, value_name = "FILE", default_value = "mswea-plugins.lock", value_hint = ValueHint::FilePath)]
    pub lock: PathBuf,
    /// Remove the pins of these plugins
    #[arg(long)]
    pub remove: bool,
}

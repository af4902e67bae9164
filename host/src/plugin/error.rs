//! Why a plugin can't be loaded or has failed, in words that say what to do.

use std::path::PathBuf;
use std::time::Duration;

use super::kind::{self, Kind};
use super::limits;
use crate::roles::Manner;

/// A plugin can't be used.
#[derive(Debug, thiserror::Error)]
pub enum LoadError {
    /// The file can't be read.
    #[error("can't read plugin `{}`: {source}: name a `.wasm` file, or a built-in plugin (`mswea-host plugin list`)", path.display())]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// Neither a file nor a built-in plugin.
    #[error("there is no plugin `{name}`: it is no file, and the built-in ones are {known}{hint}")]
    Unknown {
        /// What was asked for.
        name: String,
        /// The built-in ones.
        known: String,
        /// A near miss.
        hint: String,
    },
    /// A file of no bytes.
    #[error(
        "plugin `{plugin}` is an empty file: build it again, or copy it again if the copy broke off"
    )]
    Empty {
        /// Name or file.
        plugin: String,
    },
    /// Not WebAssembly.
    #[error(
        "plugin `{plugin}` is not a WebAssembly component: it starts with {found}, not with the magic number `\\0asm`"
    )]
    NotWasm {
        /// Name or file.
        plugin: String,
        /// Its first bytes.
        found: String,
    },
    /// A core module.
    #[error(
        "plugin `{plugin}` is a core WebAssembly module, not a component: build it for `wasm32-wasip2` (Rust), or wrap it with `wasm-tools component new`"
    )]
    CoreModule {
        /// Name or file.
        plugin: String,
    },
    /// wasmtime can't compile it.
    #[error("plugin `{plugin}` can't be compiled, its file is damaged or cut short: {detail}")]
    Damaged {
        /// Name or file.
        plugin: String,
        /// wasmtime's words.
        detail: String,
    },
    /// wasmtime refuses what is in it.
    #[error("plugin `{plugin}` can't be compiled: {detail}: {remedy}")]
    Invalid {
        /// Name or file.
        plugin: String,
        /// wasmtime's words.
        detail: String,
        /// What to do.
        remedy: &'static str,
    },
    /// Compiling it takes too much.
    #[error(
        "plugin `{plugin}` is not compiled: it took {detail}, which is far too much for a file of its size: build it again with one of the SDKs, or do not use it"
    )]
    TooCostly {
        /// Name or file.
        plugin: String,
        /// What was used up.
        detail: String,
    },
    /// A component that has nothing to do with us.
    #[error(
        "`{plugin}` is a component but no plugin: it exports no interface of `mswea:plugin` (it exports {exports})"
    )]
    NoPlugin {
        /// Name or file.
        plugin: String,
        /// What it exports.
        exports: String,
    },
    /// It has a kind but not the interface that every plugin has.
    #[error(
        "plugin `{plugin}` exports {kinds} but not `mswea:plugin/plugin@{wanted}`, which every plugin must export (`describe` and `configure`)"
    )]
    NoDescriptor {
        /// Name or file.
        plugin: String,
        /// The kinds that it has.
        kinds: String,
        /// The version wanted.
        wanted: String,
    },
    /// It exports `plugin` and no kind.
    #[error("plugin `{plugin}` has no kind: it exports `mswea:plugin/plugin` but none of {known}")]
    NoKind {
        /// Name or file.
        plugin: String,
        /// The kinds there are.
        known: String,
    },
    /// Built for a later contract.
    #[error(
        "plugin `{plugin}` is too new for this host: it is built for version {offered} of the contract, this host speaks {wanted}: update mswea-host, or build the plugin with the SDK of {wanted}"
    )]
    HostTooOld {
        /// Name or file.
        plugin: String,
        /// The plugin's version.
        offered: String,
        /// Ours.
        wanted: String,
    },
    /// Built for an earlier contract.
    #[error(
        "plugin `{plugin}` is too old for this host: it is built for version {offered} of the contract, this host speaks {wanted}: build the plugin again with the SDK of {wanted}"
    )]
    PluginTooOld {
        /// Name or file.
        plugin: String,
        /// The plugin's version.
        offered: String,
        /// Ours.
        wanted: String,
    },
    /// It wants something that the host does not offer.
    #[error("plugin `{plugin}` wants `{import}`, which the host does not offer: {remedy}")]
    MissingImport {
        /// Name or file.
        plugin: String,
        /// The import.
        import: String,
        /// What to do.
        remedy: String,
    },
    /// The types of an interface do not match.
    #[error(
        "plugin `{plugin}` does not fit the contract {wanted}: {detail}: build it again with this host's `wit/` or SDK"
    )]
    Mismatch {
        /// Name or file.
        plugin: String,
        /// Ours.
        wanted: String,
        /// wasmtime's words.
        detail: String,
    },
    /// It failed while it was looked at.
    #[error("plugin `{plugin}` failed when it was loaded: {detail}")]
    Failed {
        /// Name or file.
        plugin: String,
        /// What happened.
        detail: String,
    },
    /// It lacks the kind that it was to be used as.
    #[error("plugin `{plugin}` can't be used as {wanted}: it is {found}")]
    WrongKind {
        /// Name or file.
        plugin: String,
        /// The kind wanted.
        wanted: Kind,
        /// The kinds that it has.
        found: String,
    },
    /// The digest is not the pinned one.
    #[error(
        "plugin `{plugin}` is not the pinned one: `plugins.{plugin}.sha256` is {wanted}, the file has {found}"
    )]
    Digest {
        /// Its name.
        plugin: String,
        /// The pin.
        wanted: String,
        /// The file's.
        found: String,
    },
    /// The config does not fit.
    #[error("the config of plugin `{plugin}` is wrong: {detail}")]
    Config {
        /// Its name.
        plugin: String,
        /// JSON pointer into the plugin's config.
        pointer: String,
        /// What is wrong and what to write.
        detail: String,
    },
    /// wasmtime itself.
    #[error("the WebAssembly engine can't start: {0}")]
    Engine(String),
}

/// How wasmtime says that bytes are missing or are none of WebAssembly.
const DAMAGE: [&str; 12] = [
    "unexpected end",
    "unexpected eof",
    "out of bounds",
    "malformed",
    "invalid leading byte",
    "invalid leb128",
    "representation too long",
    "magic header",
    "unknown binary version",
    "section size mismatch",
    "trailing bytes",
    "invalid section",
];

impl LoadError {
    /// The error for a component that wasmtime does not compile, from its words.
    pub fn compiling(plugin: &str, detail: &str) -> Self {
        let (plugin, detail) = (plugin.to_owned(), detail.to_owned());
        let words = detail.to_ascii_lowercase();
        if DAMAGE.iter().any(|damage| words.contains(damage)) {
            return Self::Damaged { plugin, detail };
        }
        let remedy = match words.contains("enabled") || words.contains("support") {
            true => {
                "build it without that feature of WebAssembly, which plugins do not have here \
                 (threads, shared memories and the like)"
            }
            false => "build it again, for example with one of the SDKs",
        };
        Self::Invalid {
            plugin,
            detail,
            remedy,
        }
    }

    /// The error for a plugin of another contract version.
    pub fn version(plugin: &str, offered: Option<(u32, u32, u32)>) -> Self {
        let plugin = plugin.to_owned();
        let wanted = kind::show(kind::VERSION);
        match offered {
            Some(version) if version < kind::VERSION => Self::PluginTooOld {
                plugin,
                offered: kind::show(version),
                wanted,
            },
            Some(version) => Self::HostTooOld {
                plugin,
                offered: kind::show(version),
                wanted,
            },
            None => Self::PluginTooOld {
                plugin,
                offered: "unknown".into(),
                wanted,
            },
        }
    }
}

/// How a call ended that did not return.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Failure {
    /// It ran too long.
    Deadline(Duration),
    /// It asked for more memory than it may have.
    Memory(usize),
    /// It handed over more than it may.
    Output(usize),
    /// It is made of more instances, memories or tables than a plugin may have; the text is
    /// wasmtime's.
    Caps(String),
    /// It recursed too deep.
    Stack,
    /// It trapped; the text is the end of its standard error, or the trap's name.
    Trap(String),
    /// It is not its fault: this process may not have what the engine needs.
    Machine(String),
    /// It answered against the contract.
    Broken(String),
    /// It reported a fault itself.
    Reported {
        /// The plugin's code.
        code: String,
        /// The plugin's words.
        message: String,
    },
}

impl Failure {
    /// In which way the plugin failed.
    pub fn manner(&self) -> Manner {
        match self {
            Self::Reported { .. } => Manner::Reported,
            Self::Broken(_) => Manner::Broke,
            _ => Manner::Crashed,
        }
    }

    /// The message for a person: plugin, call, cause and remedy.
    pub fn describe(&self, plugin: &str, call: &str) -> String {
        let head = format!("plugin `{plugin}` failed in `{call}`");
        match self {
            Self::Deadline(limit) => format!(
                "{head}: it was still running after {} ms and was stopped ({} raises the limit)",
                limit.as_millis(),
                key(plugin, "deadline_ms")
            ),
            Self::Memory(limit) => format!(
                "{head}: it wanted more than {} MiB of memory ({} raises the limit)",
                limit >> 20,
                key(plugin, "memory_mb")
            ),
            Self::Output(limit) => format!(
                "{head}: it returned more than {} MiB ({} raises the limit)",
                limit >> 20,
                key(plugin, "max_output_mb")
            ),
            Self::Caps(text) => format!(
                "{head}: {text}; {}: build it as a plain component, for example with one of the SDKs",
                limits::caps()
            ),
            Self::Stack => format!("{head}: it overflowed its stack (endless recursion?)"),
            Self::Trap(text) | Self::Machine(text) => format!("{head}: {text}"),
            Self::Broken(text) => format!("{head}: it broke the contract: {text}"),
            Self::Reported { code, message } => format!("{head}: {message} ({code})"),
        }
    }
}

/// A limit's key as one writes it. While a file is looked into, it has no name yet but its path.
fn key(plugin: &str, limit: &str) -> String {
    if plugin.contains('/') || plugin.ends_with(".wasm") {
        return format!("`{limit}` in an entry `[plugins.NAME]` with `path = {plugin:?}`");
    }
    format!("`plugins.{plugin}.{limit}`")
}

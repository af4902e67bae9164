//! Why a plugin can't be loaded or has failed, with messages that name the remedy.

use std::path::PathBuf;
use std::time::Duration;

use super::kind::{self, RoleKind};
use super::limits;
use mswea_core::Manner;

/// A plugin can't be used.
#[derive(Debug, thiserror::Error)]
pub enum LoadError {
    /// The file can't be read.
    #[error("can't read plugin `{}`: {source}: name a `.wasm` file, or a built-in plugin (`mswea-host plugin list`)", path.display())]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// The system's error.
        source: std::io::Error,
    },
    /// The name is neither that of a file nor that of a built-in plugin.
    #[error("there is no plugin `{name}`: it is no file, and the built-in ones are {known}{hint}")]
    Unknown {
        /// The given name.
        name: String,
        /// The built-in plugins.
        known: String,
        /// A suggestion, or empty.
        hint: String,
    },
    /// A file of no bytes.
    #[error("plugin `{plugin}` is an empty file: build it again, or copy it again")]
    Empty {
        /// Name or file.
        plugin: String,
    },
    /// The file is not WebAssembly.
    #[error(
        "plugin `{plugin}` is not a WebAssembly component: it starts with {found}, not with the magic number `\\0asm`"
    )]
    NotWasm {
        /// Name or file.
        plugin: String,
        /// The file's first bytes.
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
    #[error("plugin `{plugin}` can't be compiled: its file is damaged or incomplete: {detail}")]
    Damaged {
        /// Name or file.
        plugin: String,
        /// wasmtime's message.
        detail: String,
    },
    /// wasmtime refuses a feature that it uses.
    #[error("plugin `{plugin}` can't be compiled: {detail}: {remedy}")]
    Invalid {
        /// Name or file.
        plugin: String,
        /// wasmtime's message.
        detail: String,
        /// The remedy.
        remedy: &'static str,
    },
    /// Compiling it exceeds a limit.
    #[error(
        "plugin `{plugin}` is not compiled: the compilation took {detail}, which is too much for a file of this size: build the plugin again with one of the SDKs, or do not use it"
    )]
    TooCostly {
        /// Name or file.
        plugin: String,
        /// The limit that was exceeded.
        detail: String,
    },
    /// A component without an interface of the contract.
    #[error(
        "`{plugin}` is a component but not a plugin: it exports no interface of `mswea:plugin` (it exports {exports})"
    )]
    NoPlugin {
        /// Name or file.
        plugin: String,
        /// The component's exports.
        exports: String,
    },
    /// The component exports a kind but not the interface `plugin`.
    #[error(
        "plugin `{plugin}` exports {kinds} but not `mswea:plugin/plugin@{wanted}`, which every plugin must export (`describe` and `configure`)"
    )]
    NoDescriptor {
        /// Name or file.
        plugin: String,
        /// The kinds that it has.
        kinds: String,
        /// The contract's version of this host.
        wanted: String,
    },
    /// The component exports the interface `plugin` and no kind.
    #[error("plugin `{plugin}` has no kind: it exports `mswea:plugin/plugin` but none of {known}")]
    NoKind {
        /// Name or file.
        plugin: String,
        /// The kinds there are.
        known: String,
    },
    /// The plugin was built for a later contract.
    #[error(
        "plugin `{plugin}` is too new for this host: it is built for version {offered} of the contract, and this host has version {wanted}: update mswea-host, or build the plugin with the SDK of {wanted}"
    )]
    HostTooOld {
        /// Name or file.
        plugin: String,
        /// The plugin's version.
        offered: String,
        /// This host's version.
        wanted: String,
    },
    /// The plugin was built for an earlier contract.
    #[error(
        "plugin `{plugin}` is too old for this host: it is built for version {offered} of the contract, and this host has version {wanted}: build the plugin again with the SDK of {wanted}"
    )]
    PluginTooOld {
        /// Name or file.
        plugin: String,
        /// The plugin's version.
        offered: String,
        /// This host's version.
        wanted: String,
    },
    /// The component imports something that the host does not have.
    #[error("plugin `{plugin}` imports `{import}`, which the host does not have: {remedy}")]
    MissingImport {
        /// Name or file.
        plugin: String,
        /// The import.
        import: String,
        /// The remedy.
        remedy: String,
    },
    /// The types of an interface do not match.
    #[error(
        "plugin `{plugin}` does not fit the contract {wanted}: {detail}: build it again with this host's `wit/` or SDK"
    )]
    Mismatch {
        /// Name or file.
        plugin: String,
        /// This host's version.
        wanted: String,
        /// wasmtime's message.
        detail: String,
    },
    /// A call failed while the plugin was loaded.
    #[error("plugin `{plugin}` failed while it was loaded: {detail}")]
    Failed {
        /// Name or file.
        plugin: String,
        /// The cause.
        detail: String,
    },
    /// The plugin does not have the kind for which it is used.
    #[error("plugin `{plugin}` can't be used as {wanted}: it is {found}")]
    WrongKind {
        /// Name or file.
        plugin: String,
        /// The kind wanted.
        wanted: RoleKind,
        /// The kinds that it has.
        found: String,
    },
    /// The file's digest differs from the pin.
    #[error(
        "plugin `{plugin}` is not the pinned one: `plugins.{plugin}.sha256` is {wanted}, and the file has {found}"
    )]
    Digest {
        /// The plugin's name.
        plugin: String,
        /// The pin.
        wanted: String,
        /// The file's.
        found: String,
    },
    /// The config does not fit the schema, or the plugin refused it.
    #[error("the config of plugin `{plugin}` is invalid: {detail}")]
    Config {
        /// The plugin's name.
        plugin: String,
        /// JSON pointer into the plugin's config.
        pointer: String,
        /// The error and its remedy.
        detail: String,
    },
    /// wasmtime failed; the text is its message.
    #[error("the WebAssembly engine can't start: {0}")]
    Engine(String),
}

/// wasmtime's messages for bytes that are missing or are not WebAssembly.
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
    /// The error for a component that wasmtime does not compile, chosen by wasmtime's message.
    pub fn compiling(plugin: &str, detail: &str) -> Self {
        let (plugin, detail) = (plugin.to_owned(), detail.to_owned());
        let words = detail.to_ascii_lowercase();
        if DAMAGE.iter().any(|damage| words.contains(damage)) {
            return Self::Damaged { plugin, detail };
        }
        let remedy = match words.contains("enabled") || words.contains("support") {
            true => {
                "build it without this feature of WebAssembly, which the host does not support \
                 (such as threads and shared memories)"
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

/// Why a call did not return, or its answer can't be used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CallFailure {
    /// The call exceeded its time limit.
    Deadline(Duration),
    /// The call exceeded the memory limit.
    Memory(usize),
    /// The call returned more data than allowed.
    Output(usize),
    /// The component has more instances, memories or tables than allowed; the text is wasmtime's.
    Caps(String),
    /// The stack overflowed.
    Stack,
    /// The guest trapped; the text is the end of its standard error, or the trap's name.
    Trap(String),
    /// The machine's limits on this process are too low for the engine; the plugin is not at fault.
    Machine(String),
    /// The result of the call breaks the contract.
    Broken(String),
    /// The plugin returned an error.
    Reported {
        /// The plugin's code for it.
        code: String,
        /// The plugin's message.
        message: String,
    },
}

impl CallFailure {
    /// The class of the failure.
    pub fn manner(&self) -> Manner {
        match self {
            Self::Reported { .. } => Manner::Reported,
            Self::Broken(_) => Manner::Broke,
            _ => Manner::Crashed,
        }
    }

    /// The message: plugin, call, cause and remedy.
    pub fn describe(&self, plugin: &str, call: &str) -> String {
        let head = format!("plugin `{plugin}` failed in `{call}`");
        match self {
            Self::Deadline(limit) => format!(
                "{head}: it was still running after {} ms and was stopped ({} raises the limit)",
                limit.as_millis(),
                key(plugin, "deadline_ms")
            ),
            Self::Memory(limit) => format!(
                "{head}: it needed more than {} MiB of memory ({} raises the limit)",
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
            Self::Stack => format!("{head}: its stack overflowed (endless recursion?)"),
            Self::Trap(text) | Self::Machine(text) => format!("{head}: {text}"),
            Self::Broken(text) => format!("{head}: it broke the contract: {text}"),
            Self::Reported { code, message } => format!("{head}: {message} ({code})"),
        }
    }
}

/// The config key of a limit. While a file is inspected, its only name is its path, which is no
/// key.
fn key(plugin: &str, limit: &str) -> String {
    if plugin.contains('/') || plugin.ends_with(".wasm") {
        return format!("`{limit}` in an entry `[plugins.NAME]` with `path = {plugin:?}`");
    }
    format!("`plugins.{plugin}.{limit}`")
}

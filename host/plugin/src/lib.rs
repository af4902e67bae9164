//! The plugin host: makes roles of WebAssembly components.
//!
//! `found` finds a plugin, `recognise` detects what a file is, and `load` loads it. `started` makes
//! an instance; `instance` keeps a configured instance, and makes another one after a failure; each
//! kind has a file that makes a role of an instance. The limits are in `limits`, the imports of a
//! guest in `store`. Compiled code comes from the binary itself (`builtin`), from `cache`, or from
//! `compile`. `shortage` recognises failures that the machine causes and not the plugin.

mod adapter;
pub mod bindings;
mod body_pieces;
pub mod builtin;
mod cache;
mod call;
pub mod compile;
mod convert;
mod descriptor;
mod dynamic;
mod engine;
mod error;
mod formatter;
mod found;
mod instance;
mod kind;
mod limits;
mod load;
mod maker;
mod parser;
mod plugin;
mod policy;
mod processor;
mod quoted;
mod recognise;
mod schema;
mod shortage;
mod started;
mod store;
mod template;

pub use adapter::WasmAdapter;
pub use cache::{
    Cache, CacheEntry, CacheUse, VARIABLE as CACHE_VARIABLE, digest, user_cache_folder,
};
pub use cache::{found as cache_use, withdraw as withdraw_key};
pub use descriptor::Descriptor;
pub use dynamic::{ByHand, CallError, Producers, functions, producers, wit};
pub use error::{CallFailure, LoadError};
pub use formatter::WasmFormatter;
pub use found::{FoundPlugin, Source};
pub use instance::Recipe;
pub use kind::RoleKind;
pub use limits::PluginLimits;
pub use load::Loader;
pub use maker::{WasmMaker, descriptor_json};
pub use parser::WasmParser;
pub use plugin::Plugin;
pub use policy::WasmPolicy;
pub use processor::WasmProcessor;
pub use store::Renderer;
pub use template::{bounded_templates, templates};

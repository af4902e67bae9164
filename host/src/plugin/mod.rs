//! The plugin host: wasm components in, roles out.
//!
//! `load` gets a plugin ready and `recognise` says what a file is; `instance` keeps a configured
//! instance and makes it anew when it has failed; one file per kind turns an instance into a
//! role. Limits are in `limits`, what a guest finds around it is in `store`, compiled code comes
//! from inside the binary (`builtin`), from `cache`, or from `compile`. `shortage` tells the machine's
//! failures from the plugin's.

mod adapter;
pub mod bindings;
pub mod builtin;
mod cache;
pub mod compile;
mod convert;
mod dynamic;
mod engine;
mod error;
mod formatter;
mod instance;
mod kind;
mod limits;
mod load;
mod maker;
mod parser;
mod policy;
mod processor;
mod recognise;
mod schema;
mod shortage;
mod store;

pub use adapter::WasmAdapter;
pub use cache::{Cache, Entry as CacheEntry, Use as CacheUse, VARIABLE as CACHE_VARIABLE, digest};
pub use cache::{found as cache_use, withdraw as withdraw_key};
pub use dynamic::{ByHand, CallError, Producers, functions, producers, wit};
pub use error::{Failure, LoadError};
pub use formatter::WasmFormatter;
pub use instance::{Recipe, harmless};
pub use kind::Kind;
pub use limits::Limits;
pub use load::{Descriptor, Found, Loader, Plugin, Source};
pub use maker::{WasmMaker, descriptor_json};
pub use parser::WasmParser;
pub use policy::WasmPolicy;
pub use processor::WasmProcessor;
pub use store::Renderer;

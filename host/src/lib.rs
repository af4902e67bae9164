//! mswea-host: a coding-agent host with a small native loop and WebAssembly plugins.
//!
//! Re-exports the crates of the host. Dependencies go in one direction: [`cli`] → [`session`] →
//! [`run`] (the loop) → [`roles`] (traits) ← [`plugin`], [`provider`], [`executor`]. See
//! `ARCHITECTURE.md`.

pub mod cli;

pub use mswea_batch as batch;
pub use mswea_config as config;
pub use mswea_core as roles;
pub use mswea_dataset as dataset;
pub use mswea_executor as executor;
pub use mswea_files as regular_file;
pub use mswea_laboratory::{conformance, experiment};
pub use mswea_plugin_host as plugin;
pub use mswea_provider as provider;
pub use mswea_record as record;
pub use mswea_record::journal;
pub use mswea_run as run;
pub use mswea_run::history;
pub use mswea_secrecy as secrecy;
pub use mswea_session as session;
pub use mswea_template as template;

/// The process's allocator, because musl's is slow and has one lock.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

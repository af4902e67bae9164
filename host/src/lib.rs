//! mswea-host: a coding-agent host with a small native loop and wasm plugins.
//!
//! Dependencies point one way: [`cli`] → [`session`] → [`run`] (the loop) → [`roles`] (traits)
//! ← [`plugin`], [`provider`], [`executor`]. See `ARCHITECTURE.md`.

pub mod cli;
pub mod config;
pub mod conformance;
pub mod executor;
pub mod experiment;
pub mod history;
pub mod journal;
pub mod plugin;
pub mod provider;
pub mod regular_file;
pub mod roles;
pub mod run;
pub mod session;
pub mod template;

//! What the first-party model adapters share. No plugin: it exports nothing to the host.
//!
//! A [`Format`] says how one wire format writes messages and reads answers; [`Client`] drives it
//! as an adapter; [`Server`] holds what all of them are configured with; [`chat`] and
//! [`responses`] are OpenAI's two formats, which several plugins speak.
#![warn(missing_docs)]
// `ModelError` is a record of the contract: its size is not ours to choose.
#![allow(clippy::result_large_err)]

mod calls;
pub mod chat;
mod client;
mod config;
mod errors;
mod exchange;
mod format;
mod history;
pub mod json;
pub mod marks;
mod models;
mod params;
pub mod responses;

mod server;
#[cfg(not(target_family = "wasm"))]
pub mod testing;

pub use calls::Calls;
pub use client::Client;
pub use config::{Table, invalid};
pub use format::{Assembly, Encoded, Format, Sequential};
pub use history::History;
pub use params::{Report, take_foreign};
pub use server::{Defaults, Server};

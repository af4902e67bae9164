//! Shared by the first-party model adapters. It is a library and no plugin.
//!
//! A [`Format`] defines how one wire format writes messages and parses answers; [`Client`] makes an
//! adapter of it; [`Server`] is the part of the config that all adapters have; [`chat`] and
//! [`responses`] are OpenAI's two formats, which several plugins use.
#![warn(missing_docs)]
// `ModelError` is a record of the contract, so its size is given.
#![allow(clippy::result_large_err)]

mod amends;
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
pub mod pieces;
pub mod repair;
pub mod responses;

mod server;
#[cfg(not(target_family = "wasm"))]
pub mod testing;
mod thinking;

pub use calls::Calls;
pub use client::Client;
pub use config::{Table, invalid};
pub use format::{Assembly, Encoded, Format, Sequential};
pub use history::History;
pub use params::{Report, take_foreign};
pub use server::{Defaults, Server};

//! Write plugins for mswea-host in Rust.
//!
//! Implement [`Plugin`] and the trait of a kind, and [`export!`] the type. A plugin computes values
//! from values: it has no network, no files, no environment variables, no clock and no source of
//! randomness. So it can be unit-tested natively (see `testing`) and has the same results
//! everywhere.
//!
#![doc = include_str!("../README.md")]
#![warn(missing_docs)]
// The README shows a plugin's file with its tests.
#![allow(clippy::test_attr_in_doctest)]

// Only the generated code is unsafe: it converts the values at the boundary.
mod bindings;

pub mod adapter;
pub mod body_pieces;
mod export;
pub mod formatter;
pub mod host;
pub mod http;
pub mod parser;
mod plugin;
pub mod policy;
pub mod processor;
#[cfg(not(target_family = "wasm"))]
pub mod testing;
pub mod types;

pub use adapter::Adapter;
pub use body_pieces::BodyPieces;
pub use formatter::Formatter;
pub use parser::Parser;
pub use plugin::{Descriptor, Plugin, from_config};
pub use policy::Policy;
pub use processor::{Processor, SimpleProcessor};

/// For [`export!`] only; not part of the API.
#[doc(hidden)]
pub mod __private {
    pub use crate::bindings::{adapter, body_pieces, common, formatter, parser, policy, processor};
    pub use crate::plugin::Holder;

    pub const fn is_adapter<T: crate::Adapter>() {}
    pub const fn is_body_pieces<T: crate::BodyPieces>() {}
    pub const fn is_parser<T: crate::Parser>() {}
    pub const fn is_formatter<T: crate::Formatter>() {}
    pub const fn is_processor<T: crate::Processor>() {}
    pub const fn is_simple_processor<T: crate::SimpleProcessor>() {}
    pub const fn is_policy<T: crate::Policy>() {}
}

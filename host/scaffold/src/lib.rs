//! Makes plugin projects and builds them, for `mswea-host plugin new` and `mswea-host plugin
//! build`.
//!
//! A project is complete: it contains the SDK of its language and the contract, from the archive
//! that this crate embeds. So it builds in any place, for the contract that it was made with.

mod build;
mod error;
mod kinds;
mod names;
mod new;
mod project;
mod sources;

pub use build::{Build, BuiltComponent, build, test_command};
pub use error::Error;
pub use kinds::{Language, PluginKind, UnknownKind, UnknownLanguage};
pub use new::{Created, New, new};
pub use project::{MANIFEST, Project};

//! Makes plugin projects, and builds them: what stands behind `mswea-host plugin new` and
//! `mswea-host plugin build`.
//!
//! A project is complete: the SDK of its language and the contract are copied into it, from the
//! archive that this crate embeds. So it builds wherever it goes, and for the contract that it was
//! made with.

mod build;
mod error;
mod kinds;
mod names;
mod new;
mod project;
mod sources;

pub use build::{Build, Built, build, test_command};
pub use error::Error;
pub use kinds::{Kind, Language};
pub use new::{Created, New, new};
pub use project::{MANIFEST, Project};

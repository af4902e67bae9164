//! Bundles of tools for the model, in the layout of SWE-agent 1.1: a folder with `config.yaml`, `bin/`,
//! and, if the bundle needs them, `lib/` and `install.sh`.
//!
//! [`Toolset`] reads the folders and provides the commands for the parser, their documentation for
//! prompts, and the text of the installation. [`ToolsExecutor`] wraps any executor: it uploads the
//! bundles into the environment after the set-up, and reads the state of the tools after each
//! action. So the loop needs no branch for tools: the state and a submission come with the output
//! of the action ([`mswea_core::TOOL_STATE`], [`mswea_core::SUBMISSION`]).

mod bundle;
mod docs;
mod edited;
mod executor;
mod fault;
mod first_party;
mod flag;
mod install;
mod long_outputs;
mod manifest;
mod place;
mod plain;
mod session_spec;
mod sessions;
mod state;
mod toolset;

pub use bundle::Bundle;
pub use docs::DocsError;
pub use executor::ToolsExecutor;
pub use fault::{ManifestFault, ToolsError};
pub use manifest::{BundleCommand, Manifest};
pub use place::{LongOutputs, ToolsPlace};
pub use session_spec::SessionSpec;
pub use toolset::{Toolset, ToolsetSettings};

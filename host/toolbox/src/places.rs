//! Where the tools keep what outlives a call.
//!
//! All of it is in `/root`, as SWE-agent has it; `MSWEA_TOOLS_HOME` names another folder, for users that
//! can't write there.

use std::env;
use std::path::PathBuf;

fn home() -> PathBuf {
    named("MSWEA_TOOLS_HOME").unwrap_or_else(|| PathBuf::from("/root"))
}

fn named(variable: &str) -> Option<PathBuf> {
    let value = env::var_os(variable)?;
    (!value.is_empty()).then(|| PathBuf::from(value))
}

/// The registry: values between calls.
pub fn registry() -> PathBuf {
    named("SWE_AGENT_ENV_FILE").unwrap_or_else(|| home().join(".swe-agent-env"))
}

/// A file beside the registry: its name, a dot, and this.
pub fn beside_registry(end: &str) -> PathBuf {
    let mut name = registry().into_os_string();
    name.push(".");
    name.push(end);
    PathBuf::from(name)
}

/// The contents of files before their edits.
pub fn undo() -> PathBuf {
    beside_registry("undo")
}

/// The state, which the host reads after each action.
pub fn state() -> PathBuf {
    home().join("state.json")
}

/// The submission.
pub fn model_patch() -> PathBuf {
    home().join("model.patch")
}

/// The changes that are not the model's; they are taken back before a submission.
pub fn test_patch() -> PathBuf {
    home().join("test.patch")
}

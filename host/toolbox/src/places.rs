//! Where the tools keep what outlives a call.
//!
//! All of it is in `/root`, as SWE-agent has it. `MSWEA_TOOLS_HOME` names another folder, for users that
//! can't write there; without it, that of a registry with its usual name is taken.

use std::env;
use std::path::PathBuf;

/// The variable that names the registry, and its usual name.
const REGISTRY: (&str, &str) = ("SWE_AGENT_ENV_FILE", ".swe-agent-env");

fn home() -> PathBuf {
    let of_registry = || {
        let registry = named(REGISTRY.0).filter(|path| path.ends_with(REGISTRY.1))?;
        Some(registry.parent()?.to_owned())
    };
    let home = named("MSWEA_TOOLS_HOME").or_else(of_registry);
    home.unwrap_or_else(|| PathBuf::from("/root"))
}

fn named(variable: &str) -> Option<PathBuf> {
    let value = env::var_os(variable)?;
    (!value.is_empty()).then(|| PathBuf::from(value))
}

/// The registry: values between calls.
pub fn registry() -> PathBuf {
    named(REGISTRY.0).unwrap_or_else(|| home().join(REGISTRY.1))
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

//! The paths of files that the tools keep from one call to the next.
//!
//! All of them are in `/root`, as in SWE-agent. `MSWEA_TOOLS_HOME` names another folder, for users
//! that can't write to `/root`; without this variable, the folder of a registry with the usual name
//! is used.

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

/// The registry, with the values that are kept between calls.
pub fn registry() -> PathBuf {
    named(REGISTRY.0).unwrap_or_else(|| home().join(REGISTRY.1))
}

/// A file beside the registry. Its name is that of the registry, a dot, and `end`.
pub fn beside_registry(end: &str) -> PathBuf {
    let mut name = registry().into_os_string();
    name.push(".");
    name.push(end);
    PathBuf::from(name)
}

/// The folder with the contents of files before their edits.
pub fn undo() -> PathBuf {
    beside_registry("undo")
}

/// The state, which the host reads after each action.
pub fn state() -> PathBuf {
    home().join("state.json")
}

/// The file with the submission.
pub fn model_patch() -> PathBuf {
    home().join("model.patch")
}

/// The patch of changes that are not the model's; it is reverted before a submission.
pub fn test_patch() -> PathBuf {
    home().join("test.patch")
}

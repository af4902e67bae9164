//! The handle of an environment whose commands start in a folder of this machine.

use std::path::Path;

use serde_json::{Value, json};

use mswea_core::EnvironmentReady;

/// The member with the folder.
const FOLDER: &str = "folder";

/// The folder of a handle.
pub(crate) fn folder_of(known: Option<&Value>) -> Option<&str> {
    known?.get(FOLDER)?.as_str()
}

/// The environment whose commands start in `now`; `None`: in a temporary folder, which the process
/// that made it removes. `known` is the handle of the environment of an earlier process, if there
/// was one.
pub(crate) fn ready(known: Option<&Value>, now: Option<&Path>) -> EnvironmentReady {
    // The next process may be started in another folder.
    let now = now.and_then(|now| std::path::absolute(now).ok());
    let now = now.as_deref().and_then(Path::to_str);
    let replaced = match (known, folder_of(known), now) {
        (None, ..) => None,
        (_, Some(before), Some(now)) if before == now => None,
        (_, Some(before), Some(now)) => Some(format!(
            "commands start in `{now}` now, before it was `{before}`"
        )),
        (_, _, Some(now)) => Some(format!("commands start in `{now}` now")),
        _ => Some("commands start in a new empty folder; the one before was removed".to_owned()),
    };
    EnvironmentReady {
        handle: json!({ FOLDER: now }),
        replaced,
        is_restored: false,
    }
}

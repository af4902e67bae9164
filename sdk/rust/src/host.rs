//! The host's functions for plugins.
//!
//! In native builds (unit tests) [`log`] writes to stderr and keeps the line for
//! `testing::take_log`, and [`render`] calls the function that `testing::set_render` has set.

use serde::Serialize;

use crate::types::PluginError;

pub use crate::bindings::common::mswea::plugin::host::Level;

/// Writes one line to the host's log, under the plugin's name. Never fails.
pub fn log(level: Level, text: &str) {
    #[cfg(target_family = "wasm")]
    crate::bindings::common::mswea::plugin::host::log(level, text);
    #[cfg(not(target_family = "wasm"))]
    crate::testing::record_log(level, text);
}

/// Renders a Jinja template in the run's environment. `vars` has to serialise as a JSON object, for
/// example a [`serde_json::Value`]; its keys replace variables of the run with the same name (`task`,
/// `cwd`, `n_model_calls`, ...).
///
/// # Errors
///
/// Code `template`, with line and column, if the template can't be rendered. Code `internal` if
/// `vars` can't be serialised.
pub fn render(template: &str, vars: &impl Serialize) -> Result<String, PluginError> {
    let vars =
        serde_json::to_string(vars).map_err(|error| PluginError::internal(error.to_string()))?;
    #[cfg(target_family = "wasm")]
    return crate::bindings::common::mswea::plugin::host::render(template, &vars);
    #[cfg(not(target_family = "wasm"))]
    return crate::testing::call_render(template, &vars);
}

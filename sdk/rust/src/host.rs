//! What the host offers to every plugin.
//!
//! In native builds (your unit tests) [`log`] writes to stderr and is kept for
//! `testing::take_log`, and [`render`] calls what `testing::set_render` was given.

use serde_json::Value;

use crate::types::PluginError;

pub use crate::bindings::common::mswea::plugin::host::Level;

/// Writes one line to the host's log, under the plugin's name. Never fails.
pub fn log(level: Level, text: &str) {
    #[cfg(target_family = "wasm")]
    crate::bindings::common::mswea::plugin::host::log(level, text);
    #[cfg(not(target_family = "wasm"))]
    crate::testing::record_log(level, text);
}

/// Renders a Jinja template in the run's environment. `vars` has to be an object; it is laid
/// over the run's own variables (`task`, `cwd`, `n_model_calls`, ...).
///
/// # Errors
///
/// Code `template`, with line and column, if the template does not render.
pub fn render(template: &str, vars: &Value) -> Result<String, PluginError> {
    let vars = vars.to_string();
    #[cfg(target_family = "wasm")]
    return crate::bindings::common::mswea::plugin::host::render(template, &vars);
    #[cfg(not(target_family = "wasm"))]
    return crate::testing::call_render(template, &vars);
}

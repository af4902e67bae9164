//! The surroundings of plugins that are called outside of a run: by `plugin check`, `bench`, `diff`
//! and `call`.

use std::sync::Arc;

use serde_json::json;

use mswea_core::Object;
use mswea_plugin_host::{Cache, Plugin, PluginLimits, Renderer, WasmMaker, templates};
use mswea_run::Variables;

/// Renders templates with the variables of an example run.
struct OutsideRenderer(Variables);

#[async_trait::async_trait]
impl Renderer for OutsideRenderer {
    async fn render(&self, template: &str, vars: Object) -> Result<String, String> {
        self.0
            .render_for_guest(template, &vars)
            .await
            .map_err(|error| error.to_string())
    }
}

/// A renderer that needs no run. Its variables never change, so that results can be compared.
pub fn renderer() -> Arc<dyn Renderer> {
    let base = json!({
        "task": "Say what is wrong with the tests, and mend it.",
        "cwd": "/work",
        "shell": "bash",
        "shared_shell": false,
        "system": "Linux",
        "release": "6.1.0",
        "version": "#1 SMP",
        "machine": "x86_64",
        "timeout": 30,
        "step_limit": 0,
        "cost_limit": 3.0,
        "n_model_calls": 1,
        "model_cost": 0.0,
        "elapsed_seconds": 1.0,
    });
    let base = base.as_object().cloned().unwrap_or_default();
    Arc::new(OutsideRenderer(Variables::new(
        Arc::new(templates(Cache::of_user())),
        base,
        mswea_config::redacted,
    )))
}

/// Makes instances of a plugin outside of a run.
pub fn maker(plugin: Arc<Plugin>) -> WasmMaker {
    WasmMaker::new(plugin, PluginLimits::STANDARD, Some(renderer()))
}

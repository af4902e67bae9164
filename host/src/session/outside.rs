//! What plugins find around them when they are called outside of a run: checked, measured,
//! compared, called by hand.

use std::sync::Arc;

use serde_json::json;

use crate::plugin::{Limits, Plugin, Renderer, WasmMaker};
use crate::roles::Object;
use crate::run::Variables;
use crate::template::Templates;

/// Renders templates with the variables of a run that never was.
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

/// A renderer that needs no run. What it knows never changes: answers have to be the same.
pub fn renderer() -> Arc<dyn Renderer> {
    let base = json!({
        "task": "Say what is wrong with the tests, and mend it.",
        "cwd": "/work",
        "shell": "bash",
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
        Arc::new(Templates::new()),
        base,
        crate::config::redacted,
    )))
}

/// Makes instances of a plugin outside of a run.
pub fn maker(plugin: Arc<Plugin>) -> WasmMaker {
    WasmMaker::new(plugin, Limits::STANDARD, Some(renderer()))
}

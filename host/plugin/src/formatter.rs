//! `observation-formatter` plugins as [`roles::Formatter`](mswea_core::Formatter).

use async_trait::async_trait;

use super::bindings::formatter::FormatterKind;
use super::convert;
use super::error::LoadError;
use super::instance::{PluginInstance, Recipe};
use mswea_core::{Action, Formatter, Message, Output, PluginFault};

/// An observation formatter in a WebAssembly component.
pub struct WasmFormatter(PluginInstance<FormatterKind>);

impl WasmFormatter {
    /// Makes and configures an instance.
    ///
    /// # Errors
    /// [`LoadError`] if the plugin is no formatter, can't be instantiated, or refuses the config.
    pub async fn start(recipe: Recipe) -> Result<Self, LoadError> {
        let mut instance = PluginInstance::new(recipe);
        instance.warm_up().await?;
        Ok(Self(instance))
    }
}

#[async_trait]
impl Formatter for WasmFormatter {
    fn name(&self) -> &str {
        self.0.name()
    }

    async fn format(
        &mut self,
        actions: &[Action],
        outputs: &[Output],
    ) -> Result<Vec<Message>, PluginFault> {
        let deadline = self.0.deadline();
        let actions: Vec<_> = actions.iter().map(convert::action_out).collect();
        let outputs: Vec<_> = outputs.iter().map(convert::output_out).collect();
        let mut live = self.0.take().await?;
        let result = PluginInstance::<FormatterKind>::bounded(
            deadline,
            live.kind.mswea_plugin_observation_formatter().call_format(
                &mut live.store,
                &actions,
                &outputs,
            ),
        )
        .await;
        match self.0.settle(live, "format", false, result)? {
            Ok(messages) => {
                convert::messages_in(messages).map_err(|broken| self.0.broken(broken, "format"))
            }
            Err(error) => Err(self.0.reported(&error, "format")),
        }
    }
}

//! `history-processor` plugins as [`roles::Processor`](mswea_core::Processor).

use async_trait::async_trait;

use super::bindings::processor::ProcessorKind;
use super::bindings::processor::exports::mswea::plugin::history_processor as wit;
use super::convert;
use super::error::LoadError;
use super::instance::{PluginInstance, Recipe};
use super::quoted::bound;
use mswea_core::{Asker, Change, PluginFault, Processor, QUESTIONS, QUESTIONS_AGAIN, ViewChange};

/// A history processor in a WebAssembly component.
pub struct WasmProcessor(PluginInstance<ProcessorKind>);

impl WasmProcessor {
    /// Makes and configures an instance.
    ///
    /// # Errors
    /// [`LoadError`] if the plugin is no processor, can't be instantiated, or refuses the config.
    pub async fn start(recipe: Recipe) -> Result<Self, LoadError> {
        let mut instance = PluginInstance::new(recipe);
        instance.warm_up().await?;
        // The instance is configured and has no history yet: the first change is the whole history.
        Ok(Self(instance))
    }
}

#[async_trait]
impl Processor for WasmProcessor {
    fn name(&self) -> &str {
        self.0.name()
    }

    fn needs_all(&self) -> bool {
        !self.0.is_live()
    }

    fn discard(&mut self) {
        self.0.discard();
    }

    async fn apply(
        &mut self,
        change: Change,
        asker: &mut dyn Asker,
    ) -> Result<ViewChange, PluginFault> {
        let deadline = self.0.deadline();
        let change = convert::change_out(&change);
        let mut live = self.0.take().await?;
        let mut result = PluginInstance::<ProcessorKind>::bounded(
            deadline,
            live.kind
                .mswea_plugin_history_processor()
                .call_apply(&mut live.store, &change),
        )
        .await;
        let mut call = "apply";
        let (mut asked, mut repeated) = (0, 0);
        loop {
            let asks = matches!(&result, Some(Ok(Ok(wit::Next::Ask(_)))));
            let next = match self.0.settle(live, call, asks, result)? {
                Ok(next) => next,
                Err(error) => {
                    // It has received the change, but its state is unknown after a failure.
                    self.0.discard();
                    return Err(self.0.reported(&error, call));
                }
            };
            let query = match next {
                wit::Next::Done(change) => {
                    return convert::change_in(change)
                        .map_err(|broken| self.0.broken(broken, call));
                }
                wit::Next::Ask(query) => query,
            };
            let messages = convert::messages_in(query.messages)
                .map_err(|broken| self.0.broken(broken, call))?;
            let name = self.0.name().to_owned();
            // Refused before the question is sent, because questions cost money.
            let (count, limit) = match asker.remembers(&name, &messages) {
                true => (&mut repeated, QUESTIONS_AGAIN),
                false => (&mut asked, QUESTIONS),
            };
            if *count == limit {
                let broken = format!("it sent more than {limit} queries in one step");
                return Err(self.0.broken(broken, call));
            }
            *count += 1;
            let reply = match asker.ask(&name, &bound(&query.purpose), messages).await {
                Ok(reply) => convert::reply_out(&reply),
                Err(error) => {
                    self.0.discard();
                    return Err(PluginFault::new(format!(
                        "the query of plugin `{name}` got no reply: {error}"
                    )));
                }
            };
            live = self.0.take().await?;
            call = "resume";
            result = PluginInstance::<ProcessorKind>::bounded(
                deadline,
                live.kind
                    .mswea_plugin_history_processor()
                    .call_resume(&mut live.store, &reply),
            )
            .await;
        }
    }
}

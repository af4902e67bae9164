//! `history-processor` plugins as [`roles::Processor`](crate::roles::Processor).

use async_trait::async_trait;

use super::bindings::processor::ProcessorKind;
use super::bindings::processor::exports::mswea::plugin::history_processor as wit;
use super::convert;
use super::error::LoadError;
use super::instance::{Instance, Recipe, bound};
use crate::roles::{Asker, Change, PluginFault, Processor, QUESTIONS, QUESTIONS_AGAIN, ViewChange};

/// A processor in wasm.
pub struct WasmProcessor(Instance<ProcessorKind>);

impl WasmProcessor {
    /// Makes and configures it.
    ///
    /// # Errors
    /// When the plugin can't be used as a processor with this config.
    pub async fn start(recipe: Recipe) -> Result<Self, LoadError> {
        let mut instance = Instance::new(recipe);
        instance.warm_up().await?;
        // The instance is configured but has seen no history: the first change is whole.
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
        let mut result = Instance::<ProcessorKind>::bounded(
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
                    // It has seen the change, but what it made of it is unknown.
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
            // Refused before it is put: a question is billed.
            let (count, limit) = match asker.remembers(&name, &messages) {
                true => (&mut repeated, QUESTIONS_AGAIN),
                false => (&mut asked, QUESTIONS),
            };
            if *count == limit {
                let broken = format!("it asked more than {limit} questions in one step");
                return Err(self.0.broken(broken, call));
            }
            *count += 1;
            let reply = match asker.ask(&name, &bound(&query.purpose), messages).await {
                Ok(reply) => convert::reply_out(&reply),
                Err(error) => {
                    self.0.discard();
                    return Err(PluginFault::new(format!(
                        "the question of plugin `{name}` was not answered: {error}"
                    )));
                }
            };
            live = self.0.take().await?;
            call = "resume";
            result = Instance::<ProcessorKind>::bounded(
                deadline,
                live.kind
                    .mswea_plugin_history_processor()
                    .call_resume(&mut live.store, &reply),
            )
            .await;
        }
    }
}

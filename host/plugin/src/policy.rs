//! `action-policy` plugins as [`roles::Policy`](mswea_core::Policy).

use async_trait::async_trait;

use super::bindings::policy::PolicyKind;
use super::bindings::policy::exports::mswea::plugin::action_policy as wit;
use super::convert;
use super::error::LoadError;
use super::instance::{PluginInstance, Recipe};
use super::quoted::bound;
use mswea_core::{Action, PluginFault, Policy, Verdict};

/// An action policy in a WebAssembly component.
pub struct WasmPolicy(PluginInstance<PolicyKind>);

impl WasmPolicy {
    /// Makes and configures an instance.
    ///
    /// # Errors
    /// [`LoadError`] if the plugin is no policy, can't be instantiated, or refuses the config.
    pub async fn start(recipe: Recipe) -> Result<Self, LoadError> {
        let mut instance = PluginInstance::new(recipe);
        instance.warm_up().await?;
        Ok(Self(instance))
    }
}

#[async_trait]
impl Policy for WasmPolicy {
    fn name(&self) -> &str {
        self.0.name()
    }

    async fn judge(&mut self, action: &Action) -> Result<Verdict, PluginFault> {
        let deadline = self.0.deadline();
        let action = convert::action_out(action);
        let mut live = self.0.take().await?;
        let result = PluginInstance::<PolicyKind>::bounded(
            deadline,
            live.kind
                .mswea_plugin_action_policy()
                .call_judge(&mut live.store, &action),
        )
        .await;
        match self.0.settle(live, "judge", false, result)? {
            Ok(wit::Verdict::Allow) => Ok(Verdict::Allow),
            Ok(wit::Verdict::Deny(feedback)) => Ok(Verdict::Deny(bound(&feedback.message))),
            Ok(wit::Verdict::Ask(reason)) => Ok(Verdict::Ask(bound(&reason.message))),
            Ok(wit::Verdict::Rewrite(action)) => convert::action_in(action)
                .map(Verdict::Rewrite)
                .map_err(|broken| self.0.broken(broken, "judge")),
            Err(error) => Err(self.0.reported(&error, "judge")),
        }
    }
}

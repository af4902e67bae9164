//! `action-policy` plugins as [`roles::Policy`](crate::roles::Policy).

use async_trait::async_trait;

use super::bindings::policy::PolicyKind;
use super::bindings::policy::exports::mswea::plugin::action_policy as wit;
use super::convert;
use super::error::LoadError;
use super::instance::{Instance, Recipe, bound};
use crate::roles::{Action, PluginFault, Policy, Verdict};

/// A policy in wasm.
pub struct WasmPolicy(Instance<PolicyKind>);

impl WasmPolicy {
    /// Makes and configures it.
    ///
    /// # Errors
    /// When the plugin can't be used as a policy with this config.
    pub async fn start(recipe: Recipe) -> Result<Self, LoadError> {
        let mut instance = Instance::new(recipe);
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
        let result = Instance::<PolicyKind>::bounded(
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

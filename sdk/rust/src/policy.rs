//! Plugins that judge an action before it runs.

use crate::bindings::policy::exports::mswea::plugin::action_policy as wit;
use crate::plugin::{Holder, Plugin};
use crate::types::{Action, PluginError};

pub use wit::Verdict;

/// Judges an action before it runs.
pub trait Policy: Plugin {
    /// Judges one action.
    ///
    /// # Errors
    ///
    /// Whatever keeps the plugin from judging; the host then denies the action.
    fn judge(&mut self, action: Action) -> Result<Verdict, PluginError>;
}

impl<H: Holder> wit::Guest for H
where
    H::Instance: Policy,
{
    fn judge(action: Action) -> Result<Verdict, PluginError> {
        H::with(|policy| policy.judge(action))?
    }
}

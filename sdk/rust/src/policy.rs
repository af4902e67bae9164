//! Plugins that judge an action before it runs.

use crate::bindings::policy::exports::mswea::plugin::action_policy as wit;
use crate::plugin::{Holder, Plugin};
use crate::types::{Action, PluginError};

pub use wit::{Objection, Verdict};

impl Verdict {
    /// Denies the action; the model gets the message.
    pub fn deny(code: &str, message: impl Into<String>) -> Self {
        Self::Deny(Objection::new(code, message))
    }

    /// Has the user asked to confirm the action, for a reason.
    pub fn ask(code: &str, message: impl Into<String>) -> Self {
        Self::Ask(Objection::new(code, message))
    }
}

impl Objection {
    /// An objection with a stable code and a message.
    pub fn new(code: &str, message: impl Into<String>) -> Self {
        Self {
            code: code.to_owned(),
            message: message.into(),
            extra: None,
        }
    }
}

/// Judges an action before it runs.
pub trait Policy: Plugin {
    /// Judges one action.
    ///
    /// # Errors
    ///
    /// If the plugin can't judge; the host then denies the action.
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

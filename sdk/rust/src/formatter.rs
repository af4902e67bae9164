//! Plugins that make messages for the model from outputs.

use crate::bindings::formatter::exports::mswea::plugin::observation_formatter as wit;
use crate::plugin::{Holder, Plugin};
use crate::types::{Action, Message, Output, PluginError};

/// Makes messages from outputs.
pub trait Formatter: Plugin {
    /// `outputs[i]` belongs to `actions[i]`; there may be fewer outputs than actions. Every action
    /// with a `tool_call_id` must be answered by a message of role `tool` with it.
    ///
    /// # Errors
    ///
    /// If the plugin can't format them, for example because a template fails.
    fn format(
        &mut self,
        actions: Vec<Action>,
        outputs: Vec<Output>,
    ) -> Result<Vec<Message>, PluginError>;
}

impl<H: Holder> wit::Guest for H
where
    H::Instance: Formatter,
{
    fn format(actions: Vec<Action>, outputs: Vec<Output>) -> Result<Vec<Message>, PluginError> {
        H::with(|formatter| formatter.format(actions, outputs))?
    }
}

//! Plugins that find the actions in a reply.

use crate::bindings::parser::exports::mswea::plugin::action_parser as wit;
use crate::plugin::{Holder, Plugin};
use crate::types::{Action, PluginError, Reply, Tool};

pub use wit::{Outcome, Problem};

/// Finds the actions in a reply.
pub trait Parser: Plugin {
    /// The tools that are offered to the model; empty for parsers of plain text.
    fn tools(&self) -> Vec<Tool> {
        Vec::new()
    }

    /// Parses one reply. A reply that breaks the rules is an [`Outcome::Malformed`], for the model
    /// to see, not an error.
    ///
    /// # Errors
    ///
    /// Only for faults that the user or the plugin's author has to correct.
    fn parse(&mut self, reply: Reply) -> Result<Outcome, PluginError>;
}

impl Problem {
    /// A problem with a stable code and a message for the model.
    pub fn new(code: &str, message: impl Into<String>) -> Self {
        Self {
            code: code.to_owned(),
            message: message.into(),
            details: None,
            extra: None,
        }
    }

    /// Adds variables for the feedback template; `details` has to be a JSON object.
    #[must_use]
    pub fn details(mut self, details: &serde_json::Value) -> Self {
        self.details = Some(details.to_string());
        self
    }
}

impl Outcome {
    /// The actions, unless the reply is malformed.
    pub fn actions(&self) -> Option<&[Action]> {
        match self {
            Self::Actions(actions) => Some(actions),
            Self::Malformed(_) => None,
        }
    }

    /// The problem, if the reply is malformed.
    pub fn problem(&self) -> Option<&Problem> {
        match self {
            Self::Actions(_) => None,
            Self::Malformed(problem) => Some(problem),
        }
    }
}

impl From<Problem> for Outcome {
    fn from(problem: Problem) -> Self {
        Self::Malformed(problem)
    }
}

impl<H: Holder> wit::Guest for H
where
    H::Instance: Parser,
{
    fn tools() -> Vec<Tool> {
        // There is no way to report an error here; the host configures first.
        H::with(|parser| parser.tools()).unwrap_or_default()
    }

    fn parse(reply: Reply) -> Result<Outcome, PluginError> {
        H::with(|parser| parser.parse(reply))?
    }
}

//! Errors in a reply: a code, a sentence for the model, and the variables that SWE-agent's error
//! templates use.

use mswea_sdk::parser::{Outcome, Problem};
use mswea_sdk::types::{PluginError, Reply};
use serde_json::{Map, Value, json};

/// The codes. They are the same in every version.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Code {
    /// No action in the reply.
    Missing,
    /// More than one action.
    Multiple,
    /// A command that is not in the table.
    InvalidCommand,
    /// Text that should be JSON and is not.
    InvalidJson,
    /// JSON without a required key.
    MissingKey,
    /// A call without a required argument.
    MissingArg,
    /// A call with an argument that the command does not have.
    UnexpectedArg,
    /// An argument with a value that does not fit.
    InvalidArg,
}

impl Code {
    fn word(self) -> &'static str {
        match self {
            Self::Missing => "missing",
            Self::Multiple => "multiple",
            Self::InvalidCommand => "invalid_command",
            Self::InvalidJson => "invalid_json",
            Self::MissingKey => "missing_key",
            Self::MissingArg => "missing_arg",
            Self::UnexpectedArg => "unexpected_arg",
            Self::InvalidArg => "invalid_arg",
        }
    }
}

/// Why there is no action.
#[derive(Debug)]
pub enum Fault {
    /// An error in the reply.
    Reply {
        /// The code.
        code: Code,
        /// The sentence for the model.
        message: String,
        /// More variables.
        details: Map<String, Value>,
    },
    /// An error in the config: a template does not render.
    Plugin(PluginError),
}

impl Fault {
    /// An error in the reply.
    pub fn new(code: Code, message: impl Into<String>) -> Self {
        Self::Reply {
            code,
            message: message.into(),
            details: Map::new(),
        }
    }

    /// Adds a variable.
    #[must_use]
    pub fn with(mut self, name: &str, value: impl Into<Value>) -> Self {
        if let Self::Reply { details, .. } = &mut self {
            details.insert(name.to_owned(), value.into());
        }
        self
    }

    /// The error as the contract's outcome. SWE-agent's templates know only the codes of tool
    /// calls; with `hide_code` they take the same branch as in SWE-agent.
    ///
    /// # Errors
    ///
    /// The error of a template that can't be rendered.
    pub fn outcome(self, reply: &Reply, hide_code: bool) -> Result<Outcome, PluginError> {
        let (code, message, details) = match self {
            Self::Reply {
                code,
                message,
                details,
            } => (code, message, details),
            Self::Plugin(error) => return Err(error),
        };
        let word = code.word();
        let mut all = json!({
            "error_code": if hide_code { "" } else { word },
            // SWE-agent's templates put a period after it.
            "exception_message": message.trim_end_matches('.'),
            "actions": [],
            "has_tool_calls": !reply.message.tool_calls.is_empty(),
            "num_tools": reply.message.tool_calls.len(),
            "finish_reason": reply.finish_reason,
        });
        if let Value::Object(all) = &mut all {
            all.extend(details);
        }
        Ok(Problem::new(word, message).details(&all).into())
    }
}

//! The result of every parser.

/// A thought and the command of an action.
#[derive(Debug, PartialEq)]
pub struct Parsed {
    /// The model's text around the command.
    pub thought: String,
    /// The command line for the shell.
    pub command: String,
    /// The id of the tool call.
    pub call: Option<String>,
}

impl Parsed {
    /// A command from plain text.
    pub fn new(thought: impl Into<String>, command: impl Into<String>) -> Self {
        Self {
            thought: thought.into(),
            command: command.into(),
            call: None,
        }
    }
}

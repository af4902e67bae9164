//! What every parser finds.

/// A thought and the command that came of it.
#[derive(Debug, PartialEq)]
pub struct Parsed {
    /// What the model said besides.
    pub thought: String,
    /// For the shell.
    pub command: String,
    /// The tool call that asked for it.
    pub call: Option<String>,
}

impl Parsed {
    /// Found in a text.
    pub fn new(thought: impl Into<String>, command: impl Into<String>) -> Self {
        Self {
            thought: thought.into(),
            command: command.into(),
            call: None,
        }
    }
}

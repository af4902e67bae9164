//! The result of a tool: a text for the model, or a refusal with its exit code.

use std::fmt;

/// The text that a tool prints, without the last line end.
pub type ToolText = Vec<u8>;

/// The result of a tool.
pub type ToolResult = Result<ToolText, ToolRefusal>;

/// The refusal of a tool, which could not do its task.
#[derive(Debug)]
pub struct ToolRefusal {
    /// The exit code of the program.
    pub code: u8,
    /// The reason, for the model.
    pub text: ToolText,
}

impl ToolRefusal {
    /// A refusal with this exit code.
    pub fn new(code: u8, text: impl Into<ToolText>) -> Self {
        let text = text.into();
        Self { code, text }
    }

    /// A refusal with exit code 1.
    pub fn one(text: impl Into<ToolText>) -> Self {
        Self::new(1, text)
    }

    /// The same refusal with a further line.
    pub fn and(mut self, line: &str) -> Self {
        self.text.push(b'\n');
        self.text.extend_from_slice(line.as_bytes());
        self
    }

    /// The same refusal with another exit code.
    pub fn coded(self, code: u8) -> Self {
        Self { code, ..self }
    }
}

/// Texts of bytes, made of parts.
#[derive(Default)]
pub struct TextParts(ToolText);

impl TextParts {
    /// Adds a line.
    pub fn line(&mut self, line: impl AsRef<[u8]>) -> &mut Self {
        self.0.extend_from_slice(line.as_ref());
        self.0.push(b'\n');
        self
    }

    /// All lines, without the last line end.
    pub fn finish(mut self) -> ToolText {
        self.0.pop();
        self.0
    }
}

/// Bytes in a message; bytes that are not UTF-8 are replaced.
pub struct Readable<'a>(pub &'a [u8]);

impl fmt::Display for Readable<'_> {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        to.write_str(&String::from_utf8_lossy(self.0))
    }
}

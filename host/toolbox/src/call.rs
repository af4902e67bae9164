//! The arguments with which a tool is called.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};

/// The arguments of a tool.
pub struct ToolInput {
    words: Vec<OsString>,
}

impl ToolInput {
    /// The arguments after the tool's name.
    pub fn new(words: Vec<OsString>) -> Self {
        Self { words }
    }

    /// All arguments.
    pub fn words(&self) -> &[OsString] {
        &self.words
    }

    /// All arguments as bytes.
    pub fn bytes(&self) -> Vec<&[u8]> {
        self.words.iter().map(|word| word.as_bytes()).collect()
    }
}

/// Bytes as a string of the operating system.
pub fn os(bytes: &[u8]) -> &OsStr {
    OsStr::from_bytes(bytes)
}

/// Owned bytes as a string of the operating system.
pub fn os_string(bytes: Vec<u8>) -> OsString {
    OsString::from_vec(bytes)
}

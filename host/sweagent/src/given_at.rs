//! The place where a value of a configuration was given.

use std::fmt;

/// The place where a value was given.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum GivenAt {
    /// A file; line and column count from 1.
    File {
        /// The file.
        path: String,
        /// The line.
        line: usize,
        /// The column.
        column: usize,
    },
    /// The configuration in a trajectory.
    Record(String),
    /// A flag.
    Flag(String),
    /// A variable of this process.
    Variable(String),
}

impl fmt::Display for GivenAt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::File { path, line, column } => write!(f, "{path}:{line}:{column}"),
            Self::Record(path) => f.write_str(path),
            Self::Flag(name) => write!(f, "the flag `{name}`"),
            Self::Variable(name) => write!(f, "the variable `{name}`"),
        }
    }
}

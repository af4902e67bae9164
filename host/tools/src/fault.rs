//! Mistakes in bundles: the place, the problem, and the remedy.

use std::fmt;
use std::path::PathBuf;

use mswea_config::yaml::Mark;

/// A mistake at a place of a bundle's file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ManifestFault {
    /// The file.
    pub file: PathBuf,
    /// Line and column, from 1; none if the mistake concerns the whole file.
    pub place: Option<(usize, usize)>,
    /// The mistake.
    pub message: String,
    /// The remedy.
    pub remedy: String,
}

impl ManifestFault {
    /// A mistake in `file` at `mark`.
    pub fn at(
        file: &std::path::Path,
        mark: Mark,
        message: impl Into<String>,
        remedy: impl Into<String>,
    ) -> Self {
        Self {
            file: file.to_owned(),
            place: Some((mark.line + 1, mark.column + 1)),
            message: message.into(),
            remedy: remedy.into(),
        }
    }

    /// A mistake that concerns the whole of `file`.
    pub fn of(
        file: &std::path::Path,
        message: impl Into<String>,
        remedy: impl Into<String>,
    ) -> Self {
        Self {
            file: file.to_owned(),
            place: None,
            message: message.into(),
            remedy: remedy.into(),
        }
    }
}

impl fmt::Display for ManifestFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.file.display())?;
        if let Some((line, column)) = self.place {
            write!(f, ":{line}:{column}")?;
        }
        write!(f, ": {}; {}", self.message, self.remedy)
    }
}

/// The reason why the tools of a config can't be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ToolsError {
    /// A bundle has a mistake.
    #[error("{0}")]
    Manifest(ManifestFault),
    /// A key of `[tools]` does not fit the bundles.
    #[error("`{key}`: {message}")]
    Setting {
        /// The key.
        key: &'static str,
        /// The mistake, and the remedy.
        message: String,
    },
}

impl From<ManifestFault> for ToolsError {
    fn from(fault: ManifestFault) -> Self {
        Self::Manifest(fault)
    }
}

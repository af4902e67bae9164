//! Why a file or a value of SWE-agent's can't be used: the mistake, its place, and the remedy.

use std::fmt;

use crate::given_at::GivenAt;

/// One mistake.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SweAgentProblem {
    at: Option<GivenAt>,
    message: String,
    hint: Option<String>,
}

impl SweAgentProblem {
    /// A mistake without a place.
    pub fn new(message: impl Into<String>) -> Self {
        Self {
            at: None,
            message: message.into(),
            hint: None,
        }
    }

    /// A mistake in a value.
    pub fn at(at: &GivenAt, message: impl Into<String>) -> Self {
        Self {
            at: Some(at.clone()),
            ..Self::new(message)
        }
    }

    /// Adds the remedy.
    #[must_use]
    pub fn hint(self, hint: impl Into<String>) -> Self {
        Self {
            hint: Some(hint.into()),
            ..self
        }
    }
}

impl fmt::Display for SweAgentProblem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(at) = &self.at {
            write!(f, "{at}: ")?;
        }
        f.write_str(&self.message)?;
        match &self.hint {
            Some(hint) => write!(f, "\nhint: {hint}"),
            None => Ok(()),
        }
    }
}

/// All mistakes.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{}", .0.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n"))]
pub struct SweAgentError(pub Vec<SweAgentProblem>);

impl From<SweAgentProblem> for SweAgentError {
    fn from(problem: SweAgentProblem) -> Self {
        Self(vec![problem])
    }
}

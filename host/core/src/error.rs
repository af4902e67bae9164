//! Errors of the roles. Each type says which side is at fault.

use std::fmt;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::values::Usage;

/// The class of a failed query that the adapter reports, for itself or for the provider; the names
/// are the contract's (`model-error.class`). Failures that the host itself detects are a
/// [`ModelFailure`].
#[derive(Clone, Debug, PartialEq, Eq)]
#[allow(missing_docs)] // the words are documented in `wit/model-adapter.wit`
pub enum ErrorClass {
    Authentication,
    Permission,
    NotFound,
    BadRequest,
    ContextWindowExceeded,
    RateLimited,
    Overloaded,
    Timeout,
    Network,
    ContentFiltered,
    MalformedResponse,
    /// A class that this version does not know.
    Other(String),
}

impl ErrorClass {
    const WORDS: [(&'static str, Self); 11] = [
        ("authentication", Self::Authentication),
        ("permission", Self::Permission),
        ("not-found", Self::NotFound),
        ("bad-request", Self::BadRequest),
        ("context-window-exceeded", Self::ContextWindowExceeded),
        ("rate-limited", Self::RateLimited),
        ("overloaded", Self::Overloaded),
        ("timeout", Self::Timeout),
        ("network", Self::Network),
        ("content-filtered", Self::ContentFiltered),
        ("malformed-response", Self::MalformedResponse),
    ];

    /// The class with a name that an adapter reports. If the name is reserved for the host, it gets
    /// a prefix (`reported-interrupted`), so that readers of the journal can tell them apart.
    pub fn reported(word: String) -> Self {
        let known = Self::WORDS.iter().find(|(known, _)| *known == word);
        match known {
            Some((_, class)) => class.clone(),
            None if ModelFailure::OWN_WORDS.iter().any(|(own, _)| *own == word) => {
                Self::Other(format!("reported-{word}"))
            }
            None => Self::Other(word),
        }
    }

    /// The contract's name of the class.
    pub fn as_str(&self) -> &str {
        if let Self::Other(word) = self {
            return word;
        }
        Self::WORDS
            .iter()
            .find(|(_, class)| class == self)
            .map_or("other", |(word, _)| word)
    }
}

impl fmt::Display for ErrorClass {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// Why there is no reply: a reported class, or a failure that the host itself detected.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "String", into = "String")]
pub enum ModelFailure {
    /// The adapter reports it, for itself or for the provider.
    Reported(ErrorClass),
    /// The adapter itself failed (trap, deadline, cap), twice.
    Plugin,
    /// The host refused the request (no grant, secret missing).
    Refused,
    /// The run was stopped while waiting.
    Interrupted,
    /// A limit of the run allows no further query.
    Limit,
    /// The journal can't be written.
    Journal,
}

impl ModelFailure {
    const OWN_WORDS: [(&'static str, Self); 5] = [
        ("plugin", Self::Plugin),
        ("refused", Self::Refused),
        ("interrupted", Self::Interrupted),
        ("limit", Self::Limit),
        ("journal", Self::Journal),
    ];

    /// The name in journals and messages.
    pub fn as_str(&self) -> &str {
        if let Self::Reported(class) = self {
            return class.as_str();
        }
        let own = Self::OWN_WORDS.iter().find(|(_, failure)| failure == self);
        own.map_or("other", |(word, _)| word)
    }
}

impl From<ErrorClass> for ModelFailure {
    fn from(class: ErrorClass) -> Self {
        Self::Reported(class)
    }
}

impl PartialEq<ErrorClass> for ModelFailure {
    fn eq(&self, class: &ErrorClass) -> bool {
        matches!(self, Self::Reported(own) if own == class)
    }
}

/// Reads the name in a journal.
impl From<String> for ModelFailure {
    fn from(word: String) -> Self {
        let own = Self::OWN_WORDS.iter().find(|(own, _)| *own == word);
        match own {
            Some((_, failure)) => failure.clone(),
            None => Self::Reported(ErrorClass::reported(word)),
        }
    }
}

impl From<ModelFailure> for String {
    fn from(failure: ModelFailure) -> Self {
        failure.as_str().to_owned()
    }
}

impl fmt::Display for ModelFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// Why there is no reply from the model.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[error("{message}")]
pub struct ModelError {
    /// The class of the failure.
    pub class: ModelFailure,
    /// One or two sentences for the user: the cause, then the remedy if one is known.
    pub message: String,
    /// The time that the provider asks to wait.
    pub retry_after: Option<Duration>,
    /// Tokens and cost that were billed for the failed query.
    pub usage: Option<Usage>,
    /// The status of the HTTP response, if there was one.
    pub status: Option<u16>,
}

impl ModelError {
    /// An error without a wait or a bill.
    pub fn new(class: impl Into<ModelFailure>, message: impl Into<String>) -> Self {
        Self {
            class: class.into(),
            message: message.into(),
            retry_after: None,
            usage: None,
            status: None,
        }
    }
}

/// The environment that actions run in is not usable.
#[derive(Debug, thiserror::Error)]
#[error("{message}")]
pub struct ExecutorError {
    /// The cause and the remedy.
    pub message: String,
}

impl From<String> for ExecutorError {
    fn from(message: String) -> Self {
        Self { message }
    }
}

/// A plugin failed, and the call has no result.
#[derive(Debug, Clone, thiserror::Error)]
#[error("{message}")]
pub struct PluginFault {
    /// The plugin, the call, the cause and the remedy.
    pub message: String,
    /// The error of a template of the config that the plugin had rendered. The user has to correct
    /// it, and no fallback is used.
    pub template: Option<String>,
    /// The class of the failure.
    pub manner: Manner,
}

/// The class of a plugin's failure.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Manner {
    /// The plugin returned an error of the contract.
    #[default]
    Reported,
    /// The plugin trapped, exceeded its time, or exceeded another limit.
    Crashed,
    /// The plugin's result breaks the contract.
    Broke,
}

impl PluginFault {
    /// A fault of the plugin itself.
    pub fn new(message: impl Into<String>) -> Self {
        Self {
            message: message.into(),
            template: None,
            manner: Manner::Reported,
        }
    }

    /// The same fault with this class.
    #[must_use]
    pub fn in_manner(mut self, manner: Manner) -> Self {
        self.manner = manner;
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_adapter_can_not_speak_for_the_host() {
        let read_back = |failure: &ModelFailure| ModelFailure::from(failure.as_str().to_owned());
        for (word, class) in ErrorClass::WORDS {
            assert_eq!(ErrorClass::reported(word.to_owned()), class);
            let failure = ModelFailure::from(class);
            assert_eq!(read_back(&failure), failure);
        }
        for (word, own) in ModelFailure::OWN_WORDS {
            assert_eq!(read_back(&own), own);
            let reported = ErrorClass::reported(word.to_owned());
            assert_eq!(reported.as_str(), format!("reported-{word}"));
            let failure = ModelFailure::from(reported);
            assert_eq!(read_back(&failure), failure);
        }
        assert_eq!(ErrorClass::reported("new".into()).as_str(), "new");
    }
}

//! Errors of the roles: each says whose fault it is.

use std::fmt;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::values::Usage;

/// What kind of trouble a model query met; the words are the contract's (`model-error.class`).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "String", into = "String")]
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
    /// The adapter itself failed (trap, deadline, cap), twice.
    Plugin,
    /// The host refused the request (no grant, secret missing).
    Refused,
    /// The run was stopped while waiting.
    Interrupted,
    /// A word that this version does not know.
    Other(String),
}

impl ErrorClass {
    const WORDS: [(&'static str, Self); 14] = [
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
        ("plugin", Self::Plugin),
        ("refused", Self::Refused),
        ("interrupted", Self::Interrupted),
    ];

    /// What the host finds out itself. A plugin that reports one of these words has not been
    /// interrupted, refused or replaced, and must not end the run as if it had been.
    const OWN_WORDS: [&'static str; 5] = ["plugin", "refused", "interrupted", "limit", "journal"];

    /// The class that an adapter reports. Words that only the host can know are marked as the
    /// adapter's (`reported-interrupted`), so that they mean nothing to the host.
    pub fn reported(word: String) -> Self {
        if Self::OWN_WORDS.contains(&word.as_str()) {
            return Self::Other(format!("reported-{word}"));
        }
        Self::from(word)
    }

    /// The contract's word.
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

impl From<String> for ErrorClass {
    fn from(word: String) -> Self {
        Self::WORDS
            .iter()
            .find(|(known, _)| *known == word)
            .map_or(Self::Other(word), |(_, class)| class.clone())
    }
}

impl From<ErrorClass> for String {
    fn from(class: ErrorClass) -> Self {
        class.as_str().to_owned()
    }
}

impl fmt::Display for ErrorClass {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// Why there is no reply from the model.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[error("{message}")]
pub struct ModelError {
    /// What kind of trouble.
    pub class: ErrorClass,
    /// One or two sentences for a person: the cause, then the remedy where one is known.
    pub message: String,
    /// How long the provider asks to wait.
    pub retry_after: Option<Duration>,
    /// What was billed although there is no reply.
    pub usage: Option<Usage>,
    /// The status of the HTTP response, where there was one.
    pub status: Option<u16>,
}

impl ModelError {
    /// An error without a wait or a bill.
    pub fn new(class: ErrorClass, message: impl Into<String>) -> Self {
        Self {
            class,
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
    /// What was wrong and what to do.
    pub message: String,
}

/// A plugin failed in a way that its role cannot go on from.
#[derive(Debug, Clone, thiserror::Error)]
#[error("{message}")]
pub struct PluginFault {
    /// Which plugin, which call, what happened, what to do.
    pub message: String,
    /// What was wrong with a template of the config that the plugin had rendered: the user's to
    /// mend, and nothing that a fallback could make up for.
    pub template: Option<String>,
    /// In which way it failed.
    pub manner: Manner,
}

/// In which way a plugin failed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Manner {
    /// It reported an error, as the contract lets it.
    #[default]
    Reported,
    /// It trapped, ran too long, or wanted more than it may have.
    Crashed,
    /// It answered against the contract.
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

    /// The same, said to have happened in this manner.
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
        for (_, class) in ErrorClass::WORDS {
            let word = class.as_str().to_owned();
            let reported = ErrorClass::reported(word.clone());
            // Written to a journal and read back it is the same.
            assert_eq!(ErrorClass::from(reported.as_str().to_owned()), reported);
            if ErrorClass::OWN_WORDS.contains(&word.as_str()) {
                assert_eq!(reported, ErrorClass::Other(format!("reported-{word}")));
            } else {
                assert_eq!(reported, class);
            }
        }
        for word in ["limit", "journal"] {
            assert_ne!(ErrorClass::reported(word.into()).as_str(), word);
        }
        assert_eq!(ErrorClass::reported("new".into()).as_str(), "new");
    }
}

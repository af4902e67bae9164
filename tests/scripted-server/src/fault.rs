//! The faults of an answer.

use serde::{Deserialize, Serialize};

/// A fault of an answer. Status codes, redirects, delays, slow pieces and a wrong content type are other
/// fields of [`Turn`](crate::Turn).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Fault {
    /// Reads the request and closes the connection.
    HangUp,
    /// Reads the request and never answers.
    Silence,
    /// Sends `at` bytes of the body (half of it if not set) and closes: less than the `content-length`, or
    /// chunks without the last one.
    Cut,
    /// Sends `at` bytes of the body (half of it if not set), then nothing more.
    Stall,
    /// Ends the body early although HTTP says that it is whole: a stream after `at` events
    /// (half of them if not set) without finish reason and `[DONE]`, JSON after `at` bytes.
    NoDone,
    /// Sends a body until the client closes.
    Endless,
    /// A web page in place of JSON.
    Html,
    /// A body that is not JSON; in a stream, an event that is not JSON.
    InvalidJson,
    /// JSON without `choices`.
    NoChoices,
    /// JSON with an empty list of `choices`.
    EmptyChoices,
    /// No body at all.
    EmptyBody,
    /// An error object under status 200, in place of a reply.
    ErrorInBody,
    /// An error object after `at` events of a stream (half of them if not set).
    ErrorInStream,
    /// A header of `at` bytes (1 MiB if not set).
    HugeHeaders,
}

impl Fault {
    /// The name in a scenario file.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::HangUp => "hang-up",
            Self::Silence => "silence",
            Self::Cut => "cut",
            Self::Stall => "stall",
            Self::NoDone => "no-done",
            Self::Endless => "endless",
            Self::Html => "html",
            Self::InvalidJson => "invalid-json",
            Self::NoChoices => "no-choices",
            Self::EmptyChoices => "empty-choices",
            Self::EmptyBody => "empty-body",
            Self::ErrorInBody => "error-in-body",
            Self::ErrorInStream => "error-in-stream",
            Self::HugeHeaders => "huge-headers",
        }
    }

    /// Whether `at` has an effect.
    pub(crate) fn has_place(self) -> bool {
        matches!(
            self,
            Self::Cut | Self::Stall | Self::NoDone | Self::ErrorInStream | Self::HugeHeaders
        )
    }

    /// Whether the answer's content is still sent, in part or whole.
    pub(crate) fn keeps_content(self) -> bool {
        self.has_place()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_fault_has_its_name() {
        for fault in [
            Fault::HangUp,
            Fault::Silence,
            Fault::Cut,
            Fault::Stall,
            Fault::NoDone,
            Fault::Endless,
            Fault::Html,
            Fault::InvalidJson,
            Fault::NoChoices,
            Fault::EmptyChoices,
            Fault::EmptyBody,
            Fault::ErrorInBody,
            Fault::ErrorInStream,
            Fault::HugeHeaders,
        ] {
            assert_eq!(serde_json::to_value(fault).unwrap(), fault.name());
        }
    }
}

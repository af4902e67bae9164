//! What can cut a step short, as values that travel with `?`.

use crate::roles::{ErrorClass, Message, ModelError};

/// Why a step did not end as usual. All but [`Interrupt::FormatError`] end the run.
#[derive(Clone, Debug, PartialEq)]
pub enum Interrupt {
    /// The model submitted.
    Submitted {
        /// What it submitted.
        submission: String,
    },
    /// The step or cost limit is used up.
    LimitsExceeded,
    /// The time is up.
    TimeExceeded,
    /// The reply was malformed: the message tells the model so, and the run goes on.
    FormatError {
        /// The feedback.
        message: Message,
    },
    /// Too many malformed replies in a row.
    RepeatedFormatError,
    /// Ctrl-C, SIGTERM, or the caller.
    UserInterruption,
    /// Something failed that the run can't go on from.
    Failed {
        /// The exit status: a name in the way of mini-swe-agent's exception names.
        exit_status: String,
        /// The cause and the remedy, for a person.
        message: String,
    },
}

impl Interrupt {
    /// A failure of this name.
    pub fn failed(exit_status: &str, message: impl Into<String>) -> Self {
        Self::Failed {
            exit_status: exit_status.to_owned(),
            message: message.into(),
        }
    }

    /// What a failed query means for the run.
    pub fn from_model(error: &ModelError) -> Self {
        let exit_status = match &error.class {
            ErrorClass::Interrupted => return Self::UserInterruption,
            ErrorClass::Authentication => "AuthenticationError",
            ErrorClass::Permission => "PermissionDeniedError",
            ErrorClass::NotFound => "NotFoundError",
            ErrorClass::BadRequest => "BadRequestError",
            ErrorClass::ContextWindowExceeded => "ContextWindowExceededError",
            ErrorClass::RateLimited => "RateLimitError",
            ErrorClass::Overloaded if error.status == Some(500) => "InternalServerError",
            ErrorClass::Overloaded => "ServiceUnavailableError",
            ErrorClass::Timeout => "Timeout",
            ErrorClass::Network => "APIConnectionError",
            ErrorClass::ContentFiltered => "ContentPolicyViolationError",
            ErrorClass::MalformedResponse => "MalformedResponseError",
            ErrorClass::Plugin => "PluginError",
            ErrorClass::Refused | ErrorClass::Other(_) => "ProviderError",
        };
        Self::failed(exit_status, error.message.clone())
    }

    /// The name that the run's trajectory gives to this end.
    pub fn exit_status(&self) -> &str {
        match self {
            Self::Submitted { .. } => "Submitted",
            Self::LimitsExceeded => "LimitsExceeded",
            Self::TimeExceeded => "TimeExceeded",
            Self::FormatError { .. } => "FormatError",
            Self::RepeatedFormatError => "RepeatedFormatError",
            Self::UserInterruption => "Interrupted",
            Self::Failed { exit_status, .. } => exit_status,
        }
    }

    /// What was submitted; empty for every other end.
    pub fn submission(&self) -> &str {
        match self {
            Self::Submitted { submission } => submission,
            _ => "",
        }
    }

    /// The last message of a run that ends this way.
    pub fn exit_message(&self) -> Message {
        let content = match self {
            Self::Submitted { submission } => submission,
            Self::Failed { message, .. } => message,
            other => other.exit_status(),
        };
        let mut message = Message::new("exit", content);
        message
            .extra
            .insert("exit_status".into(), self.exit_status().into());
        message
            .extra
            .insert("submission".into(), self.submission().into());
        if let Self::Failed { message: text, .. } = self {
            message
                .extra
                .insert("exception_str".into(), text.as_str().into());
        }
        message
    }
}

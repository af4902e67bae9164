//! Why a run ends.

use std::iter;

use serde::{Deserialize, Serialize};

use crate::{ErrorClass, Message, ModelError, ModelFailure};

/// Why a run ends. Only the host makes values of this type. A plugin reports an [`ErrorClass`],
/// which has no case for an interruption or a crash.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "cause", rename_all = "snake_case")]
#[allow(missing_docs, reason = "the variant explains its fields")]
pub enum End {
    /// The model submitted; the submission itself is a part of the run's state.
    Submitted,
    /// The step limit or the cost limit is reached.
    LimitsExceeded,
    /// The time limit is reached.
    TimeExceeded,
    /// Too many malformed replies in a row.
    RepeatedFormatError,
    /// The model has given up, with a tool for that.
    Forfeited,
    /// The model's command was `exit`.
    ExitCommand,
    /// Too many commands in a row have exceeded their time.
    RepeatedTimeouts,
    /// The commands together have exceeded their time.
    ExecutionTimeExceeded,
    /// Ctrl-C, SIGTERM, the calling program or the user has stopped the run.
    Interrupted,
    /// The environment can't be used.
    Environment { message: String },
    /// A template of the config can't be rendered.
    Template { message: String },
    /// A plugin failed, and the run can't go on without it.
    Plugin { message: String },
    /// A query ended without a reply.
    Query {
        class: ModelFailure,
        /// The status of the HTTP response, if there was one.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        status: Option<u16>,
        message: String,
    },
    /// The agents of this process have reached a common limit.
    GlobalLimit { message: String },
    /// The journal can't be written.
    Journal { message: String },
    /// The host has a bug.
    Crashed { message: String },
}

impl End {
    /// The end of a run whose query has failed.
    pub fn of_query(error: &ModelError) -> Self {
        match error.class {
            ModelFailure::Interrupted => Self::Interrupted,
            ModelFailure::Journal => Self::Journal {
                message: error.message.clone(),
            },
            _ => Self::Query {
                class: error.class.clone(),
                status: error.status,
                message: error.message.clone(),
            },
        }
    }

    /// An end of each kind, with empty texts: at least one for each exit status.
    pub fn each() -> impl Iterator<Item = Self> {
        iter::successors(Some(Self::Submitted), Self::successor)
    }

    /// The end after this one in [`Self::each`]. The match has an arm for each end, so that none is
    /// forgotten.
    fn successor(&self) -> Option<Self> {
        let message = String::new();
        let query = |(class, status)| Self::Query {
            class,
            status,
            message: String::new(),
        };
        Some(match self {
            Self::Submitted => Self::LimitsExceeded,
            Self::LimitsExceeded => Self::TimeExceeded,
            Self::TimeExceeded => Self::RepeatedFormatError,
            Self::RepeatedFormatError => Self::Forfeited,
            Self::Forfeited => Self::ExitCommand,
            Self::ExitCommand => Self::RepeatedTimeouts,
            Self::RepeatedTimeouts => Self::ExecutionTimeExceeded,
            Self::ExecutionTimeExceeded => Self::Interrupted,
            Self::Interrupted => Self::Environment { message },
            Self::Environment { .. } => Self::Template { message },
            Self::Template { .. } => Self::Plugin { message },
            Self::Plugin { .. } => {
                query((ModelFailure::Reported(ErrorClass::Authentication), None))
            }
            Self::Query { class, status, .. } => {
                next_failure(class, *status).map_or(Self::GlobalLimit { message }, query)
            }
            Self::GlobalLimit { .. } => Self::Journal { message },
            Self::Journal { .. } => Self::Crashed { message },
            Self::Crashed { .. } => return None,
        })
    }

    /// The exit status in the run's trajectory: mini-swe-agent's, if it has one for this end.
    pub fn exit_status(&self) -> &'static str {
        match self {
            Self::Submitted => "Submitted",
            Self::LimitsExceeded => "LimitsExceeded",
            Self::TimeExceeded => "TimeExceeded",
            Self::RepeatedFormatError => "RepeatedFormatError",
            Self::Forfeited => "Forfeited",
            Self::ExitCommand => "ExitCommand",
            Self::RepeatedTimeouts => "RepeatedTimeouts",
            Self::ExecutionTimeExceeded => "ExecutionTimeExceeded",
            Self::Interrupted => "Interrupted",
            Self::Environment { .. } => "EnvironmentError",
            Self::Template { .. } => "TemplateError",
            Self::Plugin { .. } => "PluginError",
            Self::Query { class, status, .. } => query_status(class, *status),
            Self::GlobalLimit { .. } => "RuntimeError",
            Self::Journal { .. } => "JournalError",
            Self::Crashed { .. } => "InternalError",
        }
    }

    /// The cause and the remedy, for the user; none if nothing failed.
    pub fn error(&self) -> Option<&str> {
        match self {
            Self::Submitted
            | Self::LimitsExceeded
            | Self::TimeExceeded
            | Self::RepeatedFormatError
            | Self::Forfeited
            | Self::ExitCommand
            | Self::RepeatedTimeouts
            | Self::ExecutionTimeExceeded
            | Self::Interrupted => None,
            Self::Environment { message }
            | Self::Template { message }
            | Self::Plugin { message }
            | Self::Query { message, .. }
            | Self::GlobalLimit { message }
            | Self::Journal { message }
            | Self::Crashed { message } => Some(message),
        }
    }
}

/// The failure after this one in [`End::each`], with the status of its response.
fn next_failure(
    failure: &ModelFailure,
    status: Option<u16>,
) -> Option<(ModelFailure, Option<u16>)> {
    let class = match failure {
        ModelFailure::Reported(class) => class,
        ModelFailure::Plugin => return Some((ModelFailure::Refused, None)),
        ModelFailure::Refused => return Some((ModelFailure::Interrupted, None)),
        ModelFailure::Interrupted => return Some((ModelFailure::Limit, None)),
        ModelFailure::Limit => return Some((ModelFailure::Journal, None)),
        ModelFailure::Journal => return None,
    };
    let next = match class {
        ErrorClass::Authentication => ErrorClass::Permission,
        ErrorClass::Permission => ErrorClass::NotFound,
        ErrorClass::NotFound => ErrorClass::BadRequest,
        ErrorClass::BadRequest => ErrorClass::ContextWindowExceeded,
        ErrorClass::ContextWindowExceeded => ErrorClass::RateLimited,
        ErrorClass::RateLimited => ErrorClass::Overloaded,
        // This class has three exit statuses.
        ErrorClass::Overloaded if status != Some(502) => {
            let next = status.map_or(500, |_| 502);
            return Some((ModelFailure::Reported(ErrorClass::Overloaded), Some(next)));
        }
        ErrorClass::Overloaded => ErrorClass::Timeout,
        ErrorClass::Timeout => ErrorClass::Network,
        ErrorClass::Network => ErrorClass::ContentFiltered,
        ErrorClass::ContentFiltered => ErrorClass::MalformedResponse,
        ErrorClass::MalformedResponse => ErrorClass::Other(String::new()),
        ErrorClass::Other(_) => return Some((ModelFailure::Plugin, None)),
    };
    Some((ModelFailure::Reported(next), None))
}

/// The names are those of the exceptions that mini-swe-agent's trajectories have.
fn query_status(failure: &ModelFailure, status: Option<u16>) -> &'static str {
    let class = match failure {
        ModelFailure::Reported(class) => class,
        ModelFailure::Plugin => return "PluginError",
        ModelFailure::Interrupted => return "Interrupted",
        ModelFailure::Limit => return "LimitsExceeded",
        ModelFailure::Journal => return "JournalError",
        ModelFailure::Refused => return "ProviderError",
    };
    match class {
        ErrorClass::Authentication => "AuthenticationError",
        ErrorClass::Permission => "PermissionDeniedError",
        ErrorClass::NotFound => "NotFoundError",
        ErrorClass::BadRequest => "BadRequestError",
        ErrorClass::ContextWindowExceeded => "ContextWindowExceededError",
        ErrorClass::RateLimited => "RateLimitError",
        ErrorClass::Overloaded if status == Some(500) => "InternalServerError",
        ErrorClass::Overloaded if status == Some(502) => "BadGatewayError",
        ErrorClass::Overloaded => "ServiceUnavailableError",
        ErrorClass::Timeout => "Timeout",
        ErrorClass::Network => "APIConnectionError",
        ErrorClass::ContentFiltered => "ContentPolicyViolationError",
        ErrorClass::MalformedResponse => "MalformedResponseError",
        ErrorClass::Other(_) => "ProviderError",
    }
}

/// The last message of a run, of role `exit`, as mini-swe-agent's trajectories have it. `error` is the
/// text of the failure that ended the run, if one did.
pub fn exit_message(exit_status: &str, submission: &str, error: Option<&str>) -> Message {
    let content = match (error, exit_status) {
        (Some(error), _) => error,
        // `submitted` and `submitted (REASON)` are SWE-agent's words.
        (None, status) if status == "Submitted" || status.starts_with("submitted") => submission,
        (None, status) => status,
    };
    let mut message = Message::new("exit", content);
    let extra = &mut message.extra;
    extra.insert("exit_status".into(), exit_status.into());
    extra.insert("submission".into(), submission.into());
    if let Some(error) = error {
        extra.insert("exception_str".into(), error.into());
    }
    message
}

//! The errors of making a run.

use mswea_plugin_host::LoadError;
use mswea_template::TemplateError;

/// Why a run can't be made.
#[derive(Debug, thiserror::Error)]
pub enum SetupError {
    /// The config contradicts itself, or its model's name leads to no provider.
    #[error(transparent)]
    Config(#[from] mswea_config::ConfigError),
    /// A plugin can't be loaded or does not take its config.
    #[error("{error}{}", origin.as_ref().map_or_else(String::new, |at| format!("\n  set by {at}")))]
    Plugin {
        /// The plugin's error.
        error: LoadError,
        /// The place where the wrong value was set.
        origin: Option<String>,
    },
    /// A plugin of `--shadow` that can't be one.
    #[error(transparent)]
    Shadow(#[from] mswea_laboratory::experiment::ShadowError),
    /// A plugin with another digest than its pin in a lock file, or a lock file that can't be read.
    #[error(transparent)]
    Pin(#[from] super::pins::PinError),
    /// A template that does not parse.
    #[error("bad template: {error}{}", origin.as_ref().map_or_else(String::new, |at| format!("\n  set by {at}")))]
    Template {
        /// Key, line, column and cause.
        error: TemplateError,
        /// The place where it was set.
        origin: Option<String>,
    },
    /// The regular expression for images in messages is invalid.
    #[error("{error}{}", origin.as_ref().map_or_else(String::new, |at| format!("\n  set by {at}")))]
    Multimodal {
        /// The error of the expression.
        error: mswea_run::BadRegex,
        /// The place where it was set.
        origin: Option<String>,
    },
    /// The value of a key that is a map has a mistake.
    #[error("`{key}`: {message}{}", origin.as_ref().map_or_else(String::new, |at| format!("\n  set by {at}")))]
    Value {
        /// The key.
        key: &'static str,
        /// The mistake and the remedy.
        message: String,
        /// The place where it was set.
        origin: Option<String>,
    },
    /// A granted host is not a host pattern, or an address has no key of its own.
    #[error("{0}")]
    Grant(String),
    /// A recorded run that can't be replayed.
    #[error("{0}")]
    Replay(String),
    /// A price file that can't be used.
    #[error(transparent)]
    Price(#[from] mswea_provider::price::PriceError),
    /// A cost limit that can't be enforced, because the model's price is unknown.
    #[error(transparent)]
    UnknownPrice(#[from] mswea_provider::price::UnknownPrice),
    /// An environment variable that sets a limit for all runs of the process has an invalid value.
    #[error(transparent)]
    GlobalLimit(#[from] mswea_run::LimitError),
    /// The environment that the config describes can't be made.
    #[error("{0}")]
    Environment(String),
    /// A bundle of tools has a mistake, or does not fit the others.
    #[error("{error}{}", origin.as_ref().map_or_else(String::new, |at| format!("\n  set by {at}")))]
    Tools {
        /// The mistake, its place and the remedy.
        error: mswea_tools::ToolsError,
        /// The place where the bundles were set.
        origin: Option<String>,
    },
    /// The workspace that the config describes can't be made.
    #[error("{0}")]
    Workspace(String),
    /// A run can't be continued, forked or replayed.
    #[error(transparent)]
    Earlier(#[from] super::earlier::EarlierError),
    /// The journal can't be written.
    #[error("{0}")]
    Journal(std::io::Error),
    /// The run's files can't be written to the given paths.
    #[error(transparent)]
    Output(#[from] super::record_error::OutputError),
    /// The run was stopped before it began.
    #[error("interrupted before the run began")]
    Interrupted,
    /// A bug in the host.
    #[error("{0}")]
    Internal(String),
}

impl SetupError {
    /// Whether the cause is the config or a flag, rather than a plugin or the machine.
    pub fn is_usage(&self) -> bool {
        match self {
            Self::Config(_)
            | Self::Template { .. }
            | Self::Multimodal { .. }
            | Self::Value { .. }
            | Self::Grant(_)
            | Self::Replay(_)
            | Self::Workspace(_)
            | Self::Tools { .. }
            | Self::Price(_)
            | Self::UnknownPrice(_)
            | Self::GlobalLimit(_)
            | Self::Output(_) => true,
            Self::Earlier(error) => !error.is_of_plugin(),
            Self::Plugin { error, .. } => matches!(error, LoadError::Config { .. }),
            Self::Environment(_)
            | Self::Journal(_)
            | Self::Pin(_)
            | Self::Shadow(_)
            | Self::Interrupted
            | Self::Internal(_) => false,
        }
    }

    /// The exit status of a run that was refused with this error.
    pub fn exit_status(&self) -> &'static str {
        match self {
            error if error.is_usage() => "SetupError",
            Self::Plugin { .. } | Self::Pin(_) | Self::Shadow(_) | Self::Earlier(_) => {
                "PluginError"
            }
            Self::Environment(_) => "EnvironmentError",
            Self::Interrupted => "Interrupted",
            Self::Internal(_) => "InternalError",
            _ => "SetupError",
        }
    }
}

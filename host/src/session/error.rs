//! Why a run can't be made.

use crate::plugin::LoadError;
use crate::template::TemplateError;

/// Something named in the config can't be used.
#[derive(Debug, thiserror::Error)]
pub enum SetupError {
    /// The config contradicts itself, or names a model that nobody serves.
    #[error(transparent)]
    Config(#[from] crate::config::ConfigError),
    /// A plugin.
    #[error("{error}{}", origin.as_ref().map_or_else(String::new, |at| format!("\n  set by {at}")))]
    Plugin {
        /// What is wrong with it.
        error: LoadError,
        /// Where the offending value was set.
        origin: Option<String>,
    },
    /// A candidate that can't run beside the others.
    #[error(transparent)]
    Shadow(#[from] crate::experiment::ShadowError),
    /// A plugin that is not the pinned one, or pins that can't be read.
    #[error(transparent)]
    Pin(#[from] super::pins::PinError),
    /// A template that does not parse.
    #[error("bad template: {error}{}", origin.as_ref().map_or_else(String::new, |at| format!("\n  set by {at}")))]
    Template {
        /// Key, line, column and cause.
        error: TemplateError,
        /// Where it was set.
        origin: Option<String>,
    },
    /// An expression for images that can't be used.
    #[error("{error}{}", origin.as_ref().map_or_else(String::new, |at| format!("\n  set by {at}")))]
    Multimodal {
        /// What is wrong with it.
        error: crate::run::BadRegex,
        /// Where it was set.
        origin: Option<String>,
    },
    /// A host pattern that is none.
    #[error("{0}")]
    Grant(String),
    /// A recorded run that can't be replayed.
    #[error("{0}")]
    Replay(String),
    /// A price file that can't be used.
    #[error(transparent)]
    Price(#[from] crate::provider::price::PriceError),
    /// A cost limit that can't be kept.
    #[error(transparent)]
    UnknownPrice(#[from] crate::provider::price::UnknownPrice),
    /// A limit for the whole process that is none.
    #[error(transparent)]
    GlobalLimit(#[from] crate::run::LimitError),
    /// The environment.
    #[error("{0}")]
    Environment(String),
    /// A workspace that can't be what was written down.
    #[error("{0}")]
    Workspace(String),
    /// The journal can't be written.
    #[error("{0}")]
    Journal(std::io::Error),
}

impl SetupError {
    /// Whether this is about what was written in config or flags, rather than about a plugin
    /// or the machine.
    pub fn is_usage(&self) -> bool {
        match self {
            Self::Config(_)
            | Self::Template { .. }
            | Self::Multimodal { .. }
            | Self::Grant(_)
            | Self::Replay(_)
            | Self::Workspace(_)
            | Self::Price(_)
            | Self::UnknownPrice(_)
            | Self::GlobalLimit(_) => true,
            Self::Plugin { error, .. } => matches!(error, LoadError::Config { .. }),
            Self::Environment(_) | Self::Journal(_) | Self::Pin(_) | Self::Shadow(_) => false,
        }
    }
}

//! A plugin as something that roles can be made of, as often as wanted: what the conformance kit
//! and the experiments work with, without knowing what a plugin is made of.

use async_trait::async_trait;
use serde_json::Value;

use super::{Adapter, Formatter, Parser, PluginFault, Policy, Processor};

/// The roles that a plugin can take, as the contract names them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum RoleKind {
    /// Speaks a model's wire format.
    ModelAdapter,
    /// Finds actions in replies.
    ActionParser,
    /// Formats observations.
    ObservationFormatter,
    /// Changes the model's view of the history.
    HistoryProcessor,
    /// Judges actions.
    ActionPolicy,
}

impl RoleKind {
    /// All of them.
    pub const ALL: [Self; 5] = [
        Self::ModelAdapter,
        Self::ActionParser,
        Self::ObservationFormatter,
        Self::HistoryProcessor,
        Self::ActionPolicy,
    ];

    /// The interface's name in `wit/`.
    pub fn interface(self) -> &'static str {
        match self {
            Self::ModelAdapter => "model-adapter",
            Self::ActionParser => "action-parser",
            Self::ObservationFormatter => "observation-formatter",
            Self::HistoryProcessor => "history-processor",
            Self::ActionPolicy => "action-policy",
        }
    }
}

impl std::fmt::Display for RoleKind {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.interface())
    }
}

/// What a plugin says of itself, and what is known of its file.
#[derive(Clone, Debug, PartialEq)]
pub struct Identity {
    /// Short name.
    pub name: String,
    /// Its own version.
    pub version: String,
    /// SHA-256 of the component, in hex.
    pub digest: String,
    /// The roles that it can take.
    pub kinds: Vec<RoleKind>,
    /// JSON Schema of its config.
    pub config_schema: Value,
}

/// Why a role could not be made.
#[derive(Clone, Debug, PartialEq)]
pub enum Refused {
    /// The config does not fit the schema, or the plugin refused it as `invalid-config`.
    Config {
        /// JSON pointer of the offending value; empty for the config as a whole.
        pointer: String,
        /// What was wrong, in words.
        detail: String,
        /// Whether the plugin said so itself; else the host did, by the plugin's schema.
        by_plugin: bool,
    },
    /// The plugin failed in `instantiate` or `configure`, or can't take this role.
    Failed(String),
}

impl std::fmt::Display for Refused {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Config { detail, .. } | Self::Failed(detail) => f.write_str(detail),
        }
    }
}

/// A configured role.
pub enum Made {
    /// For [`RoleKind::ModelAdapter`].
    Adapter(Box<dyn Adapter>),
    /// For [`RoleKind::ActionParser`].
    Parser(Box<dyn Parser>),
    /// For [`RoleKind::ObservationFormatter`].
    Formatter(Box<dyn Formatter>),
    /// For [`RoleKind::HistoryProcessor`].
    Processor(Box<dyn Processor>),
    /// For [`RoleKind::ActionPolicy`].
    Policy(Box<dyn Policy>),
}

/// Makes configured instances of one plugin. Instances are independent of each other and may be
/// used on different threads.
#[async_trait]
pub trait Maker: Send + Sync {
    /// What is known of the plugin.
    fn identity(&self) -> &Identity;

    /// What `describe` answers now, asked of a fresh instance that was not configured, or, with
    /// `config`, of one that was: a JSON object of the descriptor's fields.
    ///
    /// # Errors
    /// When there is no answer.
    async fn describe(&self, config: Option<&Value>) -> Result<Value, PluginFault>;

    /// Makes an instance for one role. The config is checked against the schema, and has its
    /// defaults filled in, before the plugin sees it. With `fresh`, the instance is thrown away
    /// after every call (what counts as one call: see `wit/README.md`).
    ///
    /// # Errors
    /// When the config is refused or the plugin fails.
    async fn make(&self, kind: RoleKind, config: &Value, fresh: bool) -> Result<Made, Refused>;
}

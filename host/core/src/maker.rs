//! A plugin as a factory of roles. The conformance kit and the experiments use it, and so do not
//! depend on the plugin host.

use async_trait::async_trait;
use serde_json::Value;

use super::{Adapter, Formatter, Parser, PluginFault, Policy, Processor};

/// The roles that a plugin can take, as the contract names them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum RoleKind {
    /// Encodes queries and decodes responses in a model's wire format.
    ModelAdapter,
    /// Finds actions in replies.
    ActionParser,
    /// Formats observations.
    ObservationFormatter,
    /// Computes the messages that the model gets in place of the history.
    HistoryProcessor,
    /// Judges actions.
    ActionPolicy,
}

impl RoleKind {
    /// All roles.
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

/// The descriptor of a plugin, and the digest of its file.
#[derive(Clone, Debug, PartialEq)]
pub struct Identity {
    /// Short name.
    pub name: String,
    /// The plugin's own version.
    pub version: String,
    /// SHA-256 of the component, in hex.
    pub digest: String,
    /// The roles that the plugin can take.
    pub kinds: Vec<RoleKind>,
    /// JSON Schema of the plugin's config.
    pub config_schema: Value,
}

/// Why a role could not be made.
#[derive(Clone, Debug, PartialEq)]
pub enum Refused {
    /// The config does not fit the schema, or the plugin refused it as `invalid-config`.
    Config {
        /// JSON pointer of the invalid value; empty for the config as a whole.
        pointer: String,
        /// The cause, in words.
        detail: String,
        /// Whether the plugin has refused the config; else the host has, because it does not fit
        /// the schema.
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
pub enum ConfiguredRole {
    /// The role of [`RoleKind::ModelAdapter`].
    Adapter(Box<dyn Adapter>),
    /// The role of [`RoleKind::ActionParser`].
    Parser(Box<dyn Parser>),
    /// The role of [`RoleKind::ObservationFormatter`].
    Formatter(Box<dyn Formatter>),
    /// The role of [`RoleKind::HistoryProcessor`].
    Processor(Box<dyn Processor>),
    /// The role of [`RoleKind::ActionPolicy`].
    Policy(Box<dyn Policy>),
}

/// Makes configured instances of one plugin. Instances are independent of each other and may be
/// used on different threads.
#[async_trait]
pub trait Maker: Send + Sync {
    /// The plugin's identity.
    fn identity(&self) -> &Identity;

    /// The descriptor that `describe` of a fresh instance returns, as a JSON object; with `config`,
    /// of an instance that was configured with it.
    ///
    /// # Errors
    /// [`PluginFault`] if the call fails.
    async fn describe(&self, config: Option<&Value>) -> Result<Value, PluginFault>;

    /// Makes an instance for one role. The config is checked against the schema, and the defaults
    /// are filled in, before `configure` is called. With `fresh`, the instance is dropped after
    /// every call (`wit/README.md` says which sequences count as one call).
    ///
    /// # Errors
    /// [`Refused`] if the config is refused or the plugin fails.
    async fn make(
        &self,
        kind: RoleKind,
        config: &Value,
        fresh: bool,
    ) -> Result<ConfiguredRole, Refused>;
}

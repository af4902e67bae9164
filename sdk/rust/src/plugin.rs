//! The trait of all plugins, and the cell that holds a component's instance.

use std::cell::RefCell;
use std::thread::LocalKey;

use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use crate::bindings::common::exports::mswea::plugin::plugin as wit;
use crate::types::PluginError;

pub use wit::Descriptor;

impl Descriptor {
    /// A descriptor for a plugin without config; add a schema with
    /// [`config_schema`](Self::config_schema).
    pub fn new(name: &str, version: &str, summary: &str) -> Self {
        Self {
            name: name.to_owned(),
            version: version.to_owned(),
            summary: summary.to_owned(),
            config_schema: json!({ "type": "object", "additionalProperties": false }).to_string(),
            secrets: Vec::new(),
            hosts: Vec::new(),
            extra: None,
        }
    }

    /// Sets the JSON Schema (draft 2020-12) of the config. The host checks every config
    /// against it first and fills in the `default`s of top-level properties.
    #[must_use]
    pub fn config_schema(mut self, schema: &Value) -> Self {
        self.config_schema = schema.to_string();
        self
    }

    /// Adds a secret that requests may refer to (adapters only).
    #[must_use]
    pub fn secret(mut self, name: impl Into<String>) -> Self {
        self.secrets.push(name.into());
        self
    }

    /// Adds a host that requests go to by default (adapters only).
    #[must_use]
    pub fn host(mut self, host: impl Into<String>) -> Self {
        self.hosts.push(host.into());
        self
    }
}

/// The trait of all plugins, of every kind.
///
/// A value of the type *is* the configured plugin. The host may drop it between any two calls and
/// continue with a new one, so all of its state must follow from the next call's arguments.
pub trait Plugin: Sized + 'static {
    /// The plugin's description of itself. It may be called at any time, and must always return the
    /// same.
    fn describe() -> Descriptor;

    /// Builds the plugin from its config, which the host has already checked against the schema of
    /// [`describe`](Self::describe).
    ///
    /// # Errors
    ///
    /// [`PluginError::invalid_config`] for errors that a schema can't express.
    fn configure(config: Value) -> Result<Self, PluginError>;
}

/// Reads a config into a type of your own.
///
/// # Errors
///
/// `invalid-config`, with serde's message, if it does not fit.
///
/// # Examples
///
/// ```
/// #[derive(serde::Deserialize)]
/// struct Config {
///  limit: u32,
/// }
///
/// let config: Config = mswea_sdk::from_config(serde_json::json!({ "limit": 3 }))?;
/// assert_eq!(config.limit, 3);
/// # Ok::<(), mswea_sdk::types::PluginError>(())
/// ```
pub fn from_config<T: DeserializeOwned>(config: Value) -> Result<T, PluginError> {
    serde_json::from_value(config).map_err(|error| {
        PluginError::invalid_config(format!(
            "the config does not fit: {error}; see the plugin's README for its keys"
        ))
    })
}

/// Holds a component's instance; implemented by [`export!`](crate::export).
#[doc(hidden)]
pub trait Holder {
    /// The exported type.
    type Instance: Plugin;

    /// The cell of the instance.
    fn cell() -> &'static LocalKey<RefCell<Option<Self::Instance>>>;

    /// Calls `call` with the instance.
    ///
    /// # Errors
    ///
    /// `internal` if there is no instance.
    fn with<R>(call: impl FnOnce(&mut Self::Instance) -> R) -> Result<R, PluginError> {
        Self::cell().with_borrow_mut(|cell| match cell {
            Some(instance) => Ok(call(instance)),
            None => Err(PluginError::internal(
                "the plugin was called before `configure`; the host has to configure an \
                 instance first",
            )),
        })
    }
}

impl<H: Holder> wit::Guest for H {
    fn describe() -> Descriptor {
        H::Instance::describe()
    }

    fn configure(config: String) -> Result<(), PluginError> {
        let config = serde_json::from_str(&config).map_err(|error| {
            PluginError::invalid_input(format!(
                "the config is no valid JSON: {error}; this is a fault of the host"
            ))
        })?;
        let instance = H::Instance::configure(config)?;
        H::cell().set(Some(instance));
        Ok(())
    }
}

//! A config that is read key by key, so that several modules can each take their own.

use mswea_sdk::types::PluginError;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

/// The rest of a config.
pub struct Table(Map<String, Value>);

impl Table {
    /// The whole config.
    ///
    /// # Errors
    /// `invalid-config` if it is no object.
    pub fn new(config: Value) -> Result<Self, PluginError> {
        match config {
            Value::Object(keys) => Ok(Self(keys)),
            _ => Err(invalid("", "the config is no table of keys")),
        }
    }

    /// Takes a key; none if it is not set.
    ///
    /// # Errors
    /// `invalid-config` if its value is of another type.
    pub fn take<T: DeserializeOwned>(&mut self, key: &str) -> Result<Option<T>, PluginError> {
        let Some(value) = self.0.shift_remove(key) else {
            return Ok(None);
        };
        serde_json::from_value(value)
            .map(Some)
            .map_err(|error| invalid(&pointer(&[key]), format!("`{key}` does not fit: {error}")))
    }

    /// Takes a table of texts, with its keys as they are written.
    ///
    /// # Errors
    /// `invalid-config` with the key whose value is no text.
    pub fn take_texts(&mut self, key: &str) -> Result<Vec<(String, String)>, PluginError> {
        let table: Map<String, Value> = self.take(key)?.unwrap_or_default();
        let texts = table.into_iter().map(|(name, value)| match value {
            Value::String(value) => Ok((name, value)),
            _ => Err(invalid(
                &pointer(&[key, &name]),
                format!("`{name}` in `{key}` is not a string; quote its value"),
            )),
        });
        texts.collect()
    }

    /// Checks that no key is left.
    ///
    /// # Errors
    /// `invalid-config` with the first key that was not taken.
    pub fn finish(self) -> Result<(), PluginError> {
        match self.0.keys().next() {
            None => Ok(()),
            Some(key) => Err(invalid(
                &pointer(&[key]),
                format!("there is no key `{key}`; see the plugin's README for those there are"),
            )),
        }
    }
}

/// The JSON pointer of a path.
fn pointer(path: &[&str]) -> String {
    let escaped = path
        .iter()
        .map(|step| step.replace('~', "~0").replace('/', "~1"));
    escaped.fold(String::new(), |pointer, step| pointer + "/" + &step)
}

/// The error for a wrong config value at a pointer.
pub fn invalid(pointer: &str, message: impl Into<String>) -> PluginError {
    PluginError::invalid_config(message).at(pointer)
}

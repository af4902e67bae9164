//! The config values that flags set.

use serde::Serialize;
use serde_json::{Value, json};

/// A config value that is set by a flag.
#[derive(Clone, Debug, PartialEq)]
pub struct Override {
    /// Dotted config key.
    pub key: &'static str,
    /// The value.
    pub value: Value,
    /// The flag, for messages and `config show --origin`.
    pub flag: &'static str,
}

/// The values, as they are collected.
#[derive(Default)]
pub(super) struct Overrides(pub(super) Vec<Override>);

impl Overrides {
    pub(super) fn add(
        &mut self,
        key: &'static str,
        flag: &'static str,
        value: Option<impl Serialize>,
    ) {
        if let Some(value) = value {
            let value = json!(value);
            self.0.push(Override { key, value, flag });
        }
    }
}

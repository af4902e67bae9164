//! The descriptor of a plugin, checked.

use serde_json::Value;

use super::bindings::base::exports::mswea::plugin::plugin::Descriptor as WitDescriptor;
use super::builtin::Builtin;
use super::quoted::one_line;

/// A plugin's description of itself.
#[derive(Clone, Debug, PartialEq)]
pub struct Descriptor {
    /// Short name.
    pub name: String,
    /// The plugin's version.
    pub version: String,
    /// One line that says what the plugin does.
    pub summary: String,
    /// JSON Schema of its config.
    pub config_schema: Value,
    /// Names of secrets that its requests refer to.
    pub secrets: Vec<String>,
    /// Hosts that its requests go to by default.
    pub hosts: Vec<String>,
}

/// The longest config schema: compiling a large one takes long, and no deadline applies to that.
const SCHEMA: usize = 256 << 10;

impl Descriptor {
    /// Converts the descriptor that a plugin returned.
    ///
    /// # Errors
    /// A message that says how it breaks the contract.
    pub(super) fn new(wit: WitDescriptor) -> Result<Self, String> {
        let well_named = !wit.name.is_empty()
            && wit.name.len() <= 64
            && wit
                .name
                .chars()
                .all(|c| c.is_ascii_alphanumeric() || matches!(c, '_' | '-'));
        if !well_named {
            return Err(format!(
                "its descriptor's name {:?} is not made of 1 to 64 letters, digits, `_` and `-`",
                one_line(&wit.name)
            ));
        }
        if wit.config_schema.len() > SCHEMA {
            return Err(format!(
                "its descriptor's config schema has {} KiB, and {} KiB are allowed",
                wit.config_schema.len() >> 10,
                SCHEMA >> 10
            ));
        }
        let config_schema = serde_json::from_str(&wit.config_schema)
            .map_err(|error| format!("its descriptor's config schema is not JSON: {error}"))?;
        Ok(Self {
            name: wit.name,
            version: one_line(&wit.version),
            summary: one_line(&wit.summary),
            config_schema,
            secrets: wit.secrets.iter().map(|name| one_line(name)).collect(),
            hosts: wit.hosts.iter().map(|host| one_line(host)).collect(),
        })
    }

    /// Gives a component's descriptor the name and the defaults of a variant.
    pub(super) fn become_variant(&mut self, builtin: &Builtin) {
        let Some(variant) = builtin.variant else {
            return;
        };
        builtin.name.clone_into(&mut self.name);
        variant.summary.clone_into(&mut self.summary);
        let config: serde_json::Map<String, Value> =
            serde_json::from_str(variant.config).expect("invariant: the build script wrote it");
        for (key, value) in config {
            if let Some(property) = self
                .config_schema
                .pointer_mut("/properties")
                .and_then(|properties| properties.get_mut(&key)?.as_object_mut())
            {
                property.insert("default".into(), value);
            }
        }
    }
}

//! The name of a run's config: runs with the same settings have the same one. Which files the settings came
//! from is not recorded, so the name is a digest of them, and tells a few.

use std::fmt::{self, Write as _};

use serde::de::{MapAccess, Visitor};
use serde::{Deserialize, Deserializer};
use serde_json::Value;
use serde_json::value::RawValue;
use sha2::{Digest as _, Sha256};

/// What differs from task to task; and the model, which has a column of its own.
const OF_TASK: [(&str, &str); 10] = [
    ("agent", "output_path"),
    ("model", "model_name"),
    ("environment", "cwd"),
    ("environment", "image"),
    ("run", "task"),
    ("run", "atif_path"),
    ("workspace", "repo"),
    ("workspace", "path"),
    ("workspace", "base_commit"),
    ("tools", "flag"),
];
/// What is told beside the digest.
const TOLD: [(&str, &str); 4] = [
    ("agent", "step_limit"),
    ("agent", "cost_limit"),
    ("model", "per_instance_cost_limit"),
    ("pipeline", "parser"),
];
/// How many bytes of the digest are told.
const BYTES: usize = 4;

/// The settings of a run, as far as they were added: sections in the order of their names.
#[derive(Default)]
pub(crate) struct ConfigName {
    digest: Sha256,
    told: [Option<String>; TOLD.len()],
    is_any: bool,
}

/// The plugins of a run; those inside the program are of its version.
#[derive(Deserialize)]
pub(crate) struct ListedPlugin {
    #[serde(default)]
    name: String,
    #[serde(default)]
    kind: String,
    #[serde(default)]
    source: String,
    #[serde(default)]
    sha256: String,
}

impl ConfigName {
    /// `value` is JSON without spaces.
    fn add(&mut self, section: &str, key: &str, value: &str) {
        // What is null was not set.
        if value == "null" || OF_TASK.contains(&(section, key)) {
            return;
        }
        self.is_any = true;
        for part in [section, ".", key, "=", value, "\n"] {
            self.digest.update(part);
        }
        if let Some(at) = TOLD.iter().position(|it| *it == (section, key)) {
            self.told[at] = Some(value.to_owned());
        }
    }

    /// Adds a section of a config.
    pub(crate) fn section(&mut self, section: &str, value: &Value) {
        match value {
            Value::Object(keys) => {
                for (key, value) in keys {
                    self.add(section, key, &value.to_string());
                }
            }
            value => self.add(section, "", &value.to_string()),
        }
    }

    /// The same, of a journal, which is in this form already.
    pub(crate) fn raw_section(&mut self, section: &str, value: &RawValue) {
        match serde_json::from_str::<RawKeys<'_>>(value.get()) {
            Ok(RawKeys(keys)) => {
                for (key, value) in keys {
                    self.add(section, &key, value.get());
                }
            }
            Err(_) => self.add(section, "", value.get()),
        }
    }

    /// Adds the plugins.
    pub(crate) fn plugins(&mut self, plugins: &[ListedPlugin]) {
        for (index, plugin) in plugins.iter().enumerate() {
            let digest = match plugin.source.as_str() {
                "built-in" => "",
                _ => plugin.sha256.as_str(),
            };
            let text = format!("{} {} {digest}", plugin.kind, plugin.name);
            self.add("a plugin", &index.to_string(), &text);
        }
    }

    /// The name; empty without settings.
    pub(crate) fn name(self) -> String {
        let mut name = String::new();
        if !self.is_any {
            return name;
        }
        for byte in self.digest.finalize().iter().take(BYTES) {
            let _ = write!(name, "{byte:02x}");
        }
        for ((_, key), value) in TOLD.iter().zip(self.told) {
            if let Some(value) = value {
                let _ = write!(name, " · {key} {}", value.trim_matches('"'));
            }
        }
        name
    }
}

/// The keys of an object in their order, with values as they are written.
struct RawKeys<'l>(Vec<(String, &'l RawValue)>);

impl<'l> Deserialize<'l> for RawKeys<'l> {
    fn deserialize<D: Deserializer<'l>>(input: D) -> Result<Self, D::Error> {
        struct KeysVisitor;
        impl<'l> Visitor<'l> for KeysVisitor {
            type Value = RawKeys<'l>;

            fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
                formatter.write_str("an object")
            }

            fn visit_map<A: MapAccess<'l>>(self, mut entries: A) -> Result<RawKeys<'l>, A::Error> {
                let mut keys = Vec::new();
                while let Some(entry) = entries.next_entry()? {
                    keys.push(entry);
                }
                Ok(RawKeys(keys))
            }
        }
        input.deserialize_map(KeysVisitor)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use serde_json::json;

    use super::*;

    fn name(config: &Value, plugins: &Value) -> String {
        let mut name = ConfigName::default();
        let sections: BTreeMap<&String, &Value> = config.as_object().unwrap().iter().collect();
        for (section, value) in sections {
            name.section(section, value);
        }
        name.plugins(&Vec::deserialize(plugins).unwrap());
        name.name()
    }

    #[test]
    fn the_same_settings_have_the_same_name() {
        let plugins = json!([{"name": "p", "kind": "k", "source": "file", "sha256": "aa"}]);
        let config = json!({"agent": {"step_limit": 7, "output_path": "a"}, "model": {"model_name": "m"},
            "pipeline": {"parser": "toolcall"}, "mini": true});
        let first = name(&config, &plugins);
        assert!(
            first.ends_with(" · step_limit 7 · parser toolcall"),
            "{first}"
        );
        // Of a journal, in another order, for another task and model.
        let raw = r#"{"mini":true,"pipeline":{"parser":"toolcall"},"model":{"model_name":"n","price":null},
            "agent":{"output_path":"b","step_limit":7}}"#;
        let sections: BTreeMap<String, &RawValue> = serde_json::from_str(raw).unwrap();
        let mut second = ConfigName::default();
        for (section, value) in sections {
            second.raw_section(&section, value);
        }
        second.plugins(&Vec::deserialize(&plugins).unwrap());
        assert_eq!(second.name(), first);
        for (pointer, value) in [
            ("/agent/step_limit", json!(8)),
            ("/mini", json!(false)),
            ("/model/price", json!(1)),
        ] {
            let mut other = config.clone();
            let (section, key) = pointer.rsplit_once('/').unwrap();
            other.pointer_mut(section).unwrap()[key] = value;
            assert_ne!(name(&other, &plugins), first, "{pointer}");
        }
        let other = json!([{"name": "p", "kind": "k", "source": "file", "sha256": "bb"}]);
        assert_ne!(name(&config, &other), first);
        assert_eq!(ConfigName::default().name(), "");
    }
}

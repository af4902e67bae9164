//! A plugin of every kind that does what no plugin should, where its config says so: the
//! tests of the host's limits load it. Without such a config it behaves.
//!
//! What `describe` does can't come from a config: the tests write it over [`DESCRIBE`] in the
//! built file.

mod deeds;
mod kinds;
mod world;

use std::hint::black_box;

use mswea_sdk::types::{Message, PluginError};
use mswea_sdk::{Descriptor, Plugin, from_config};
use serde::Deserialize;
use serde_json::{Value, json};

/// What `describe` does; the tests put another word behind the `=`, of the same length with
/// its spaces.
static DESCRIBE: [u8; 32] = *b"hostile-describe=nothing        ";

/// The config: do `deed` in the `from`-th call of `at` and after, counted in each instance.
#[derive(Default, Deserialize)]
#[serde(default)]
struct Config {
    at: String,
    #[serde(rename = "do")]
    deed: String,
    from: u32,
    /// In calls after that one: this instead.
    then: String,
    /// How much of it, for deeds that can be done more or less.
    size: usize,
    /// A word for deeds that take one; of `render`, what the host is asked to render.
    word: String,
    /// Where the adapter's requests go.
    base_url: String,
    /// The secret that they carry, if any.
    secret: String,
}

/// The plugin.
struct Hostile {
    config: Config,
    calls: u32,
    asked: usize,
    history: Vec<Message>,
    body: Vec<u8>,
}

impl Hostile {
    /// What to do in this call of `at`; empty for nothing. Deeds that need no answer of a
    /// certain type are done here.
    fn deed(&mut self, at: &str) -> String {
        if self.config.at != at {
            return String::new();
        }
        self.calls += 1;
        if self.calls < self.config.from {
            return String::new();
        }
        let deed = if self.calls > self.config.from && !self.config.then.is_empty() {
            &self.config.then
        } else {
            &self.config.deed
        };
        if deed == "render" {
            // What came of it stands in the host's record of the fault.
            match mswea_sdk::host::render(&self.config.word, &json!({})) {
                Ok(text) => panic!("rendered: {text}"),
                Err(error) => panic!("not rendered: {error}"),
            }
        }
        deeds::act(deed, at);
        deed.clone()
    }
}

impl Plugin for Hostile {
    fn describe() -> Descriptor {
        // Not known to the compiler: the bytes in the file count.
        let text = black_box(&DESCRIBE);
        let text = String::from_utf8_lossy(text);
        let deed = text.split_once('=').map_or("", |(_, deed)| deed.trim());
        deeds::act(deed, "describe");
        let mut descriptor = Descriptor::new("hostile", "0.1.0", "Does what no plugin should")
            .config_schema(&json!({
                "type": "object",
                "properties": {
                    "at": {"type": "string"},
                    "do": {"type": "string"},
                    "from": {"type": "integer", "minimum": 0, "default": 1},
                    "base_url": {"type": "string", "description": "Where requests go."},
                },
            }))
            .secret("HOSTILE_KEY")
            .host("hostile.example");
        match deed {
            "name" => descriptor.name = "../../etc/passwd".to_owned(),
            "no-json" => descriptor.config_schema = "{".to_owned(),
            "no-schema" => descriptor.config_schema = "[1]".to_owned(),
            "bad-schema" => descriptor.config_schema = r#"{"type": "strnig"}"#.to_owned(),
            "ref-loop" => descriptor.config_schema = r##"{"$ref": "#"}"##.to_owned(),
            "escapes" => descriptor.summary = "red: \x1b[31m\u{7}\nsecond line".to_owned(),
            "big" => descriptor.summary = deeds::big(20 << 20),
            "claim" => descriptor.summary = deeds::claim(),
            _ => {}
        }
        descriptor
    }

    fn configure(config: Value) -> Result<Self, PluginError> {
        let config: Config = from_config(config)?;
        let mut plugin = Self {
            config,
            calls: 0,
            asked: 0,
            history: Vec::new(),
            body: Vec::new(),
        };
        match plugin.deed("configure").as_str() {
            "refuse" => Err(PluginError::invalid_config("this word is not liked").at("/do")),
            "refuse-long" => Err(PluginError::internal(deeds::big(500 << 10))),
            _ => Ok(plugin),
        }
    }
}

mswea_sdk::export!(
    adapter: Hostile,
    parser: Hostile,
    formatter: Hostile,
    processor: Hostile,
    policy: Hostile
);

//! A plugin of every kind for the tests of the host's limits. Its config names a misdeed and the call that
//! does it; without a config, the plugin works correctly.
//!
//! `describe` gets no config, so the tests write its deed over [`DESCRIBE`] in the built file.

mod deeds;
mod kinds;
mod world;

use std::hint::black_box;

use mswea_sdk::types::{Message, PluginError};
use mswea_sdk::{Descriptor, Plugin, from_config};
use serde::Deserialize;
use serde_json::{Value, json};

/// The deed of `describe`, after the `=`. The tests replace it by another one, padded with spaces to the
/// same length.
static DESCRIBE: [u8; 32] = *b"hostile-describe=nothing        ";

/// The config: do `deed` in the `from`-th call of the function `at` and in all later calls. Each instance
/// counts its calls.
#[derive(Default, Deserialize)]
#[serde(default)]
struct Config {
    at: String,
    #[serde(rename = "do")]
    deed: String,
    from: u32,
    /// Another deed for the calls after the `from`-th; empty for the same one.
    then: String,
    /// The size of deeds that have one.
    size: usize,
    /// The argument of deeds that have one; of `render`, the template.
    word: String,
    /// The address of the adapter's requests.
    base_url: String,
    /// The name of the secret in the requests, if there is one.
    secret: String,
}

/// The plugin.
struct Hostile {
    config: Config,
    calls: u32,
    asked: usize,
    history: Vec<Message>,
    body: Vec<u8>,
    /// How many bytes of the last body the host holds, if it takes the next one in pieces.
    held: Option<u64>,
    /// The body of the last request, and that of the request before it.
    sent: Vec<u8>,
    sent_before: Vec<u8>,
}

impl Hostile {
    /// Does the deed of this call of `at` if it is the same in every function. Returns the deed; empty for
    /// none.
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
            // The result is in the fault that the host records.
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
        // The compiler must not know the value, because the tests change it in the built file.
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
            held: None,
            sent: Vec::new(),
            sent_before: Vec::new(),
        };
        match plugin.deed("configure").as_str() {
            "refuse" => Err(PluginError::invalid_config("this deed is forbidden").at("/do")),
            "refuse-long" => Err(PluginError::internal(deeds::big(500 << 10))),
            _ => Ok(plugin),
        }
    }
}

mswea_sdk::export!(
    adapter: Hostile,
    body_pieces: Hostile,
    parser: Hostile,
    formatter: Hostile,
    processor: Hostile,
    policy: Hostile
);

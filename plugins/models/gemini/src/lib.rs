//! Gemini's own API: `generateContent`, whole or as a stream.
//!
//! The adapter builds requests and reads responses; the host sends them. See `README.md` for
//! the config.

mod assemble;
mod encode;
mod known;
mod params;
mod response;
mod schema;

use std::cell::Cell;

use mswea_sdk::types::{Message, PluginError, Reply, Tool, Usage};
use mswea_sdk::{Descriptor, Plugin};
use mswea_wire::{Client, Defaults, Format, History, Sequential, Server};
use serde_json::Value;

use assemble::Assembly;

/// The format of this adapter's opaque parts.
const FORMAT: &str = "gemini";

const DEFAULTS: Defaults = Defaults {
    base_url: "https://generativelanguage.googleapis.com/v1beta",
    path: "/models/{model}:generateContent",
    stream_path: Some("/models/{model}:streamGenerateContent?alt=sse"),
    api_key: "GEMINI_API_KEY",
    auth_header: "x-goog-api-key",
};

/// Speaks `generateContent`.
struct GenerateContent {
    server: Server,
    /// Whether the model wants a signature on each call (Gemini 3 and later).
    wants_signatures: bool,
    /// Whether it was said what a tool's schema has lost.
    has_told: Cell<bool>,
}

/// The adapter.
pub struct Gemini {
    client: Client<GenerateContent>,
}

impl Plugin for Gemini {
    fn describe() -> Descriptor {
        DEFAULTS.describe(
            "gemini",
            env!("CARGO_PKG_VERSION"),
            "Speaks Gemini's own API, with thoughts that survive between steps",
            "",
        )
    }

    fn configure(mut config: Value) -> Result<Self, PluginError> {
        // Google's lists of models write it so, and the path has it already.
        if let Some(model) = config.get_mut("model")
            && let Some(name) = model.as_str().and_then(|name| name.strip_prefix("models/"))
        {
            *model = Value::from(name);
        }
        let client = Client::configure(config, &DEFAULTS, |_, mut server| {
            params::fit(&mut server);
            Ok(GenerateContent {
                wants_signatures: params::is_third(&server.model),
                server,
                has_told: Cell::new(false),
            })
        })?;
        Ok(Self { client })
    }
}

impl Format for GenerateContent {
    type Assembly = Assembly;
    type History = History<encode::State>;

    const API: &str = "`generateContent`";
    const HOLDER: &str = "candidates";
    const USAGE: &str = "usageMetadata";

    fn server(&self) -> &Server {
        &self.server
    }

    fn body(&self, history: &Self::History, tools: &[Tool]) -> Vec<u8> {
        encode::body(self, history, tools)
    }

    fn reply(&self, response: &Value, verbatim: String, history_len: usize) -> Option<Reply> {
        response::reply(response, verbatim, history_len)
    }

    fn usage(usage: &Value) -> Option<Usage> {
        response::usage(usage)
    }

    fn failure(response: &Value) -> Option<Value> {
        response::failure(response)
    }

    fn lack(_: &Value) -> String {
        "sent a response without a candidate; see whether the server's log says why".to_owned()
    }
}

impl Sequential for GenerateContent {
    type State = encode::State;

    fn encode(&self, out: &mut Vec<u8>, state: &mut encode::State, message: &Message) {
        encode::append_message(self, out, state, message);
    }
}

mswea_wire::adapter!(Gemini);
mswea_sdk::export!(adapter: Gemini);

#[cfg(test)]
#[path = "lib_tests.rs"]
mod tests;

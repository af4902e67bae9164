//! Gemini's own API: `generateContent`, whole or as a stream.
//!
//! The adapter builds requests and parses responses; the host sends them. `README.md` documents the
//! config.

mod assemble;
mod encode;
mod known;
mod params;
mod response;
mod schema;

use std::cell::Cell;

use mswea_sdk::types::{Message, PluginError, Reply, Tool, Usage};
use mswea_sdk::{Descriptor, Plugin};
use mswea_wire::pieces::{Unchanged, Written};
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

/// Gemini's `generateContent`.
struct GenerateContent {
    server: Server,
    /// Whether the model requires a signature on each call (Gemini 3 and later).
    wants_signatures: bool,
    /// Whether the dropped parts of tools' schemas have been reported.
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
            "Gemini's own API; keeps thoughts from step to step",
            "",
        )
    }

    fn configure(mut config: Value) -> Result<Self, PluginError> {
        // As in Google's lists of models; the URL's path contains it already.
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

    fn write(
        &self,
        history: &Self::History,
        tools: &[Tool],
        unchanged: Option<Unchanged>,
    ) -> Written {
        encode::body(self, history, tools, unchanged)
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
        "sent a response without a candidate; see the server's log for the reason".to_owned()
    }
}

impl Sequential for GenerateContent {
    type State = encode::State;

    fn encode(&self, out: &mut Vec<u8>, state: &mut encode::State, message: &Message) {
        encode::append_message(self, out, state, message);
    }
}

mswea_wire::adapter!(Gemini);
mswea_sdk::export!(adapter: Gemini, body_pieces: Gemini);

#[cfg(test)]
#[path = "lib_tests.rs"]
mod tests;

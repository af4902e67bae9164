//! OpenAI's Responses API.
//!
//! The adapter builds requests and parses responses; the host sends them. `README.md` documents the
//! config, and `mswea_wire::responses` the format.

use mswea_sdk::types::PluginError;
use mswea_sdk::{Descriptor, Plugin};
use mswea_wire::chat::OPENAI;
use mswea_wire::responses::{PROPERTIES, Responses};
use mswea_wire::{Client, Defaults};
use serde_json::Value;

const DEFAULTS: Defaults = Defaults {
    path: "/responses",
    ..OPENAI
};

/// The adapter.
pub struct OpenAiResponses {
    client: Client<Responses>,
}

impl Plugin for OpenAiResponses {
    fn describe() -> Descriptor {
        DEFAULTS.describe(
            "openai_responses",
            env!("CARGO_PKG_VERSION"),
            "OpenAI's Responses API; keeps reasoning from step to step",
            PROPERTIES,
        )
    }

    fn configure(config: Value) -> Result<Self, PluginError> {
        let client = Client::configure(config, &DEFAULTS, |table, server| {
            Responses::take(table, server, false)
        })?;
        Ok(Self { client })
    }
}

mswea_wire::adapter!(OpenAiResponses);
mswea_sdk::export!(adapter: OpenAiResponses, body_pieces: OpenAiResponses);

#[cfg(test)]
#[path = "lib_tests.rs"]
mod tests;

//! Chat completions: the wire format of OpenAI and of every server compatible with it.
//!
//! The adapter builds requests and parses responses; the host sends them. `README.md` documents the
//! config, and `mswea_wire::chat` the format.

use mswea_sdk::types::PluginError;
use mswea_sdk::{Descriptor, Plugin};
use mswea_wire::Client;
use mswea_wire::chat::{Chat, OPENAI, PROPERTIES};
use serde_json::Value;

/// The adapter.
pub struct OpenAi {
    client: Client<Chat>,
}

impl Plugin for OpenAi {
    fn describe() -> Descriptor {
        OPENAI.describe(
            "openai",
            env!("CARGO_PKG_VERSION"),
            "Chat completions, of OpenAI and of every compatible server",
            PROPERTIES,
        )
    }

    fn configure(config: Value) -> Result<Self, PluginError> {
        let client = Client::configure(config, &OPENAI, Chat::take)?;
        Ok(Self { client })
    }
}

mswea_wire::adapter!(OpenAi);
mswea_sdk::export!(adapter: OpenAi, body_pieces: OpenAi);

#[cfg(test)]
#[path = "lib_tests.rs"]
mod tests;

//! Chat completions: the wire format of OpenAI and of every server compatible with it.
//!
//! The adapter builds requests and reads responses; the host sends them. See `README.md` for
//! the config, and `mswea_wire::chat` for the format.

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
            "Speaks chat completions, to OpenAI and to every compatible server",
            PROPERTIES,
        )
    }

    fn configure(config: Value) -> Result<Self, PluginError> {
        let client = Client::configure(config, &OPENAI, Chat::take)?;
        Ok(Self { client })
    }
}

mswea_wire::adapter!(OpenAi);
mswea_sdk::export!(adapter: OpenAi);

#[cfg(test)]
#[path = "lib_tests.rs"]
mod tests;

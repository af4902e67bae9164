//! OpenAI's Responses API.
//!
//! The adapter builds requests and reads responses; the host sends them. See `README.md` for
//! the config, and `mswea_wire::responses` for the format.

use mswea_sdk::types::PluginError;
use mswea_sdk::{Descriptor, Plugin};
use mswea_wire::responses::{PROPERTIES, Responses};
use mswea_wire::{Client, Defaults, Server, Table, schema};
use serde_json::Value;

const DEFAULTS: Defaults = Defaults {
    base_url: "https://api.openai.com/v1",
    path: "/responses",
    stream_path: None,
    api_key: "OPENAI_API_KEY",
    auth_header: "authorization",
};

/// The adapter.
pub struct OpenAiResponses {
    client: Client<Responses>,
}

impl Plugin for OpenAiResponses {
    fn describe() -> Descriptor {
        let mut descriptor = Descriptor::new(
            "openai_responses",
            env!("CARGO_PKG_VERSION"),
            "Speaks OpenAI's Responses API, with reasoning that survives between steps",
        )
        .secret("OPENAI_API_KEY")
        .host("api.openai.com");
        descriptor.config_schema = schema(&DEFAULTS, PROPERTIES);
        descriptor
    }

    fn configure(config: Value) -> Result<Self, PluginError> {
        let mut table = Table::new(config)?;
        let server = Server::take(&mut table, &DEFAULTS)?;
        let responses = Responses::take(&mut table, server, false)?;
        table.finish()?;
        Ok(Self {
            client: Client::new(responses),
        })
    }
}

mswea_wire::adapter!(OpenAiResponses);
mswea_sdk::export!(adapter: OpenAiResponses);

#[cfg(test)]
#[path = "lib_tests.rs"]
mod tests;

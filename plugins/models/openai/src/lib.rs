//! Chat completions: the wire format of OpenAI and of every server compatible with it.
//!
//! The adapter builds requests and reads responses; the host sends them. See `README.md` for
//! the config, and `mswea_wire::chat` for the format.

use mswea_sdk::types::PluginError;
use mswea_sdk::{Descriptor, Plugin};
use mswea_wire::chat::{Chat, PROPERTIES};
use mswea_wire::{Client, Defaults, Server, Table, schema};
use serde_json::Value;

const DEFAULTS: Defaults = Defaults {
    base_url: "https://api.openai.com/v1",
    path: "/chat/completions",
    stream_path: None,
    api_key: "OPENAI_API_KEY",
    auth_header: "authorization",
};

/// The adapter.
pub struct OpenAi {
    client: Client<Chat>,
}

impl Plugin for OpenAi {
    fn describe() -> Descriptor {
        let mut descriptor = Descriptor::new(
            "openai",
            env!("CARGO_PKG_VERSION"),
            "Speaks chat completions, to OpenAI and to every compatible server",
        )
        .secret("OPENAI_API_KEY")
        .host("api.openai.com");
        descriptor.config_schema = schema(&DEFAULTS, PROPERTIES);
        descriptor
    }

    fn configure(config: Value) -> Result<Self, PluginError> {
        let mut table = Table::new(config)?;
        let server = Server::take(&mut table, &DEFAULTS)?;
        let chat = Chat::take(&mut table, server)?;
        table.finish()?;
        Ok(Self {
            client: Client::new(chat),
        })
    }
}

mswea_wire::adapter!(OpenAi);
mswea_sdk::export!(adapter: OpenAi);

#[cfg(test)]
#[path = "lib_tests.rs"]
mod tests;

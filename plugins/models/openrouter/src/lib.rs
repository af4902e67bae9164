//! OpenRouter: chat completions and Responses of many providers' models, with their cost.
//!
//! The formats are `mswea_wire::chat` and `mswea_wire::responses`; this crate has OpenRouter's
//! differences: requests ask for the cost, and OpenRouter's own parameters are sent unchanged.

use mswea_sdk::adapter::{Delta, ModelError, Next, Request};
use mswea_sdk::body_pieces::Piece;
use mswea_sdk::types::{Change, PluginError};
use mswea_sdk::{Adapter, BodyPieces, Descriptor, Plugin};
use mswea_wire::chat::Chat;
use mswea_wire::responses::{PROPERTIES, Responses};
use mswea_wire::{Client, Defaults, Server, Table, invalid};
use serde_json::Value;

const CHAT: Defaults = Defaults {
    base_url: "https://openrouter.ai/api/v1",
    path: "/chat/completions",
    stream_path: None,
    api_key: "OPENROUTER_API_KEY",
    auth_header: "authorization",
};

const RESPONSES: Defaults = Defaults {
    path: "/responses",
    ..CHAT
};

/// The key of the config that selects the API.
const API: &str = r#"
    "api": {
      "enum": ["chat", "responses"],
      "default": "chat",
      "description": "The API to use: chat completions, or Responses (stateless: all items are sent)."
    },"#;

/// The adapter.
pub enum OpenRouter {
    /// The format of chat completions.
    Chat(Client<Chat>),
    /// The format of the Responses API.
    Responses(Client<Responses>),
}

impl Plugin for OpenRouter {
    fn describe() -> Descriptor {
        CHAT.describe(
            "openrouter",
            env!("CARGO_PKG_VERSION"),
            "Sends requests to OpenRouter, and asks for the cost of each answer",
            &format!("{PROPERTIES}{API}"),
        )
    }

    fn configure(config: Value) -> Result<Self, PluginError> {
        let mut table = Table::new(config)?;
        let api: Option<String> = table.take("api")?;
        match api.as_deref().unwrap_or("chat") {
            "chat" => {
                let server = Server::take(&mut table, &CHAT)?;
                // Parameters of the other API.
                let _ = (
                    table.take::<bool>("stateless")?,
                    table.take::<bool>("typed_messages")?,
                );
                table.finish()?;
                Ok(Self::Chat(Client::new(Chat {
                    server,
                    stream_usage: true,
                    ask_cost: true,
                })))
            }
            "responses" => {
                let server = Server::take(&mut table, &RESPONSES)?;
                let responses = Responses::take(&mut table, server, true)?;
                table.finish()?;
                Ok(Self::Responses(Client::new(responses)))
            }
            other => Err(invalid(
                "/api",
                format!("there is no API `{other}`; write `chat` or `responses`"),
            )),
        }
    }
}

impl Adapter for OpenRouter {
    fn query(&mut self, change: Change, request: Request) -> Result<Next, ModelError> {
        match self {
            Self::Chat(client) => client.query(&change, &request),
            Self::Responses(client) => client.query(&change, &request),
        }
    }

    fn head(&mut self, status: u16, headers: Vec<(String, String)>) {
        match self {
            Self::Chat(client) => client.head(status, headers),
            Self::Responses(client) => client.head(status, headers),
        }
    }

    fn feed(&mut self, bytes: Vec<u8>) -> Vec<Delta> {
        match self {
            Self::Chat(client) => client.feed(&bytes),
            Self::Responses(client) => client.feed(&bytes),
        }
    }

    fn finish(&mut self) -> Result<Next, ModelError> {
        match self {
            Self::Chat(client) => client.finish(),
            Self::Responses(client) => client.finish(),
        }
    }
}

impl BodyPieces for OpenRouter {
    fn offer(&mut self, held: u64) {
        match self {
            Self::Chat(client) => client.offer(held),
            Self::Responses(client) => client.offer(held),
        }
    }

    fn pieces(&mut self) -> Vec<Piece> {
        match self {
            Self::Chat(client) => client.pieces(),
            Self::Responses(client) => client.pieces(),
        }
    }
}

mswea_sdk::export!(adapter: OpenRouter, body_pieces: OpenRouter);

#[cfg(test)]
#[path = "lib_tests.rs"]
mod tests;

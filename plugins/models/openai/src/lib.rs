//! Chat completions: the wire format of OpenAI and of every server compatible with it; and Ollama's own.
//!
//! The adapter builds requests and parses responses; the host sends them. `README.md` documents the
//! config, and `mswea_wire::chat` the format.

mod ollama;

use mswea_sdk::adapter::{Delta, ModelError, Next, Request};
use mswea_sdk::body_pieces::Piece;
use mswea_sdk::types::{Change, PluginError};
use mswea_sdk::{Adapter, BodyPieces, Descriptor, Plugin};
use mswea_wire::chat::{Chat, OPENAI, PROPERTIES};
use mswea_wire::{Client, Server, Table, invalid};
use serde_json::Value;

/// The key of the config that selects the API.
const API: &str = r#"
    "api": {
      "enum": ["chat", "ollama"],
      "default": "chat",
      "description": "The API to use: chat completions, or Ollama's own."
    },"#;

/// The adapter.
pub struct OpenAi {
    client: Client<Chat>,
    /// The answer in Ollama's own API, if that is used.
    ollama: Option<ollama::Answer>,
}

impl Plugin for OpenAi {
    fn describe() -> Descriptor {
        OPENAI.describe(
            "openai",
            env!("CARGO_PKG_VERSION"),
            "Chat completions, of OpenAI and of every compatible server",
            &format!("{PROPERTIES}{API}"),
        )
    }

    fn configure(config: Value) -> Result<Self, PluginError> {
        let mut table = Table::new(config)?;
        let api: Option<String> = table.take("api")?;
        let (defaults, ollama) = match api.as_deref() {
            None | Some("chat") => (&OPENAI, None),
            Some("ollama") => (&ollama::DEFAULTS, Some(ollama::Answer::default())),
            Some(other) => {
                return Err(invalid(
                    "/api",
                    format!("there is no API `{other}`; write `chat` or `ollama`"),
                ));
            }
        };
        let server = Server::take(&mut table, defaults)?;
        let chat = Chat::take(&mut table, server)?;
        table.finish()?;
        Ok(Self {
            client: Client::new(chat),
            ollama,
        })
    }
}

impl OpenAi {
    /// What the host is to do, with a body in the API's form.
    fn next(&self, mut next: Next) -> Next {
        if let (Next::Send(request), Some(_)) = (&mut next, &self.ollama) {
            request.body = ollama::request(&request.body);
        }
        next
    }
}

impl Adapter for OpenAi {
    fn query(&mut self, change: Change, request: Request) -> Result<Next, ModelError> {
        let next = self.client.query(&change, &request)?;
        Ok(self.next(next))
    }

    fn head(&mut self, status: u16, headers: Vec<(String, String)>) {
        if let Some(answer) = &mut self.ollama {
            *answer = ollama::Answer::new(status);
        }
        self.client.head(status, headers);
    }

    fn feed(&mut self, bytes: Vec<u8>) -> Vec<Delta> {
        match &mut self.ollama {
            Some(answer) => self.client.feed(&answer.feed(&bytes)),
            None => self.client.feed(&bytes),
        }
    }

    fn finish(&mut self) -> Result<Next, ModelError> {
        if let Some(answer) = &mut self.ollama {
            self.client.feed(&answer.finish());
        }
        let next = self.client.finish()?;
        Ok(self.next(next))
    }
}

impl BodyPieces for OpenAi {
    fn offer(&mut self, held: u64) {
        // The pieces would be those of the body before its translation.
        if self.ollama.is_none() {
            self.client.offer(held);
        }
    }

    fn pieces(&mut self) -> Vec<Piece> {
        self.client.pieces()
    }
}

mswea_sdk::export!(adapter: OpenAi, body_pieces: OpenAi);

#[cfg(test)]
#[path = "lib_tests.rs"]
mod tests;

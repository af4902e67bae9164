//! Messages: the wire format of Anthropic and of the servers compatible with it.
//!
//! The adapter builds requests and parses responses; the host sends them. `README.md` documents the
//! config.

mod arguments;
mod assemble;
mod blocks;
mod encode;
#[cfg(test)]
mod errors_tests;
mod history;
#[cfg(test)]
mod litellm_tests;
mod models;
mod params;
mod response;

use mswea_sdk::types::{PluginError, Reply, Tool, Usage};
use mswea_sdk::{Descriptor, Plugin};
use mswea_wire::pieces::{Unchanged, Written};
use mswea_wire::{Client, Defaults, Format, Server, Table};
use serde_json::Value;

use assemble::Assembly;
use history::History;

/// The format of this adapter's opaque parts.
const FORMAT: &str = "anthropic-messages";

/// The header with the version of the API.
const VERSION: (&str, &str) = ("anthropic-version", "2023-06-01");

const DEFAULTS: Defaults = Defaults {
    base_url: "https://api.anthropic.com",
    path: "/v1/messages",
    stream_path: None,
    api_key: "ANTHROPIC_API_KEY",
    auth_header: "x-api-key",
};

/// The keys of the config that only this adapter has.
const PROPERTIES: &str = r#"
    "max_output_tokens": {
      "type": ["integer", "null"],
      "minimum": 1,
      "default": null,
      "description": "The most tokens of one answer. By default it follows from a table of Claude models. `model_kwargs.max_tokens` takes precedence."
    },"#;

/// The Messages API.
struct Messages {
    /// The server, with parameters in the API's own names.
    server: Server,
    /// The limit of the answer.
    max_tokens: Value,
    /// How tools are chosen; only sent with tools.
    tool_choice: Option<Value>,
}

impl Messages {
    fn take(table: &mut Table, mut server: Server) -> Result<Self, PluginError> {
        let max_output = table.take::<Option<u64>>("max_output_tokens")?.flatten();
        let (name, version) = VERSION;
        if server.headers.iter().all(|(known, _)| known != name) {
            server.headers.push((name.to_owned(), version.to_owned()));
        }
        let traits = models::traits(&server.model);
        let (max_tokens, tool_choice) = params::fit(&mut server, traits, max_output);
        Ok(Self {
            server,
            max_tokens,
            tool_choice,
        })
    }
}

/// The adapter.
pub struct Anthropic {
    client: Client<Messages>,
}

impl Plugin for Anthropic {
    fn describe() -> Descriptor {
        DEFAULTS.describe(
            "anthropic",
            env!("CARGO_PKG_VERSION"),
            "The Messages API of Anthropic and of compatible servers",
            PROPERTIES,
        )
    }

    fn configure(config: Value) -> Result<Self, PluginError> {
        let client = Client::configure(config, &DEFAULTS, Messages::take)?;
        Ok(Self { client })
    }
}

impl Format for Messages {
    type Assembly = Assembly;
    type History = History;

    const API: &str = "`messages`";
    const HOLDER: &str = "content";
    const BEGINNING: &str = "message_start";

    fn server(&self) -> &Server {
        &self.server
    }

    fn write(&self, history: &History, tools: &[Tool], unchanged: Option<Unchanged>) -> Written {
        encode::body(self, history, tools, unchanged)
    }

    fn reply(&self, response: &Value, verbatim: String, history_len: usize) -> Option<Reply> {
        response::reply(response, verbatim, history_len)
    }

    fn usage(usage: &Value) -> Option<Usage> {
        response::usage(usage)
    }

    fn failure(response: &Value) -> Option<Value> {
        let has_error = response.get("error").is_some_and(|error| !error.is_null())
            || response.get("type").is_some_and(|kind| kind == "error");
        has_error.then(|| response.clone())
    }

    fn lack(_: &Value) -> String {
        "sent a message whose `content` is no list; see the server's log for the reason".to_owned()
    }
}

mswea_wire::adapter!(Anthropic);
mswea_sdk::export!(adapter: Anthropic, body_pieces: Anthropic);

/// A format for tests, with further keys of the config.
#[cfg(test)]
fn configured(extra: &Value) -> Messages {
    let mut config = serde_json::json!({ "model": "m" });
    for (key, value) in extra.as_object().into_iter().flatten() {
        config[key] = value.clone();
    }
    let mut table = Table::new(config).unwrap();
    let server = Server::take(&mut table, &DEFAULTS).unwrap();
    Messages::take(&mut table, server).unwrap()
}

#[cfg(test)]
#[path = "lib_tests.rs"]
mod tests;

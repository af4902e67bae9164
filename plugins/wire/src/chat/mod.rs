//! Chat completions: the wire format of OpenAI and of every server compatible with it.

mod assemble;
mod encode;
mod params;
mod plain;
mod response;
mod usage;

use mswea_sdk::types::{Message, PluginError, Reply, Tool, Usage};
use serde_json::{Value, json};

use crate::pieces::{Unchanged, Written};
use crate::{Defaults, Format, History, Sequential, Server, Table};

pub use assemble::Assembly;

/// The format of this wire's opaque parts.
pub const FORMAT: &str = "openai-chat";

/// OpenAI's own server.
pub const OPENAI: Defaults = Defaults {
    base_url: "https://api.openai.com/v1",
    path: "/chat/completions",
    stream_path: None,
    api_key: "OPENAI_API_KEY",
    auth_header: "authorization",
};

/// Chat completions.
#[derive(Clone, Debug)]
pub struct Chat {
    /// The server.
    pub server: Server,
    /// Whether a stream is asked for its usage (`stream_options`).
    pub stream_usage: bool,
    /// Whether the server is asked for the cost of the answer (`usage.include`), as OpenRouter
    /// expects it.
    pub ask_cost: bool,
}

/// The keys of the config that only this format has.
pub const PROPERTIES: &str = r#"
    "stream_usage": {
      "type": "boolean",
      "default": true,
      "description": "Ask for the token counts of a streamed answer (`stream_options.include_usage`)."
    },"#;

impl Chat {
    /// Takes the keys of [`PROPERTIES`].
    ///
    /// # Errors
    /// `invalid-config` with the pointer to the wrong value.
    pub fn take(table: &mut Table, mut server: Server) -> Result<Self, PluginError> {
        params::fit(&mut server);
        Ok(Self {
            server,
            stream_usage: table.take("stream_usage")?.unwrap_or(true),
            ask_cost: false,
        })
    }
}

impl Format for Chat {
    type Assembly = Assembly;
    type History = History<encode::State>;

    const API: &str = "chat completions";
    const HOLDER: &str = "choices";

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

    fn plain_reply(response: &str, history_len: usize) -> Option<Reply> {
        plain::reply(response, history_len)
    }

    fn keep_reasoning(message: &mut Message, reasoning: String) {
        response::add_vendor_key(message, "reasoning_content", Value::String(reasoning));
    }

    fn usage(usage: &Value) -> Option<Usage> {
        usage::usage(usage)
    }

    fn failure(response: &Value) -> Option<Value> {
        // A router may report its upstream's failure in the choice itself.
        let of_choice = response.pointer("/choices/0/error");
        if let Some(error) = of_choice.filter(|error| !error.is_null()) {
            return Some(json!({ "error": error }));
        }
        if response
            .pointer("/choices/0/message")
            .is_some_and(Value::is_object)
        {
            return None;
        }
        let first = response.get(0).unwrap_or(response);
        let has_error = first.get("error").is_some_and(|error| !error.is_null())
            || first.get("object").is_some_and(|object| object == "error")
            || response::is_failed(first);
        has_error.then(|| response.clone())
    }

    fn lack(response: &Value) -> String {
        match response.get("choices").and_then(Value::as_array) {
            Some(choices) if !choices.is_empty() => "sent a response whose first choice has no \
                `message`; check that `model.base_url` (or `--base-url`) leads to chat \
                completions, not to plain ones"
                .to_owned(),
            _ => "sent a response whose `choices` are empty; see the server's log for the reason"
                .to_owned(),
        }
    }
}

impl Sequential for Chat {
    type State = encode::State;

    fn encode(&self, out: &mut Vec<u8>, state: &mut encode::State, message: &Message) {
        encode::append_message(out, state, message);
    }
}

//! OpenAI's Responses API: a list of items in, a list of items out.

mod assemble;
mod encode;
mod params;
mod response;

use mswea_sdk::types::{Message, PluginError, Reply, Tool, Usage};
use serde_json::Value;

use crate::pieces::{Unchanged, Written};
use crate::{Format, History, Sequential, Server, Table};

pub use assemble::Assembly;

/// The format of this wire's opaque parts.
pub const FORMAT: &str = "openai-responses";

/// OpenAI's Responses API.
#[derive(Clone, Debug)]
pub struct Responses {
    /// The server.
    pub server: Server,
    /// Whether the server stores nothing, so that reasoning comes back encrypted.
    pub stateless: bool,
    /// Whether plain messages are sent as items with typed parts, and not in the short form.
    pub typed_messages: bool,
    /// Whether parameters that the API does not have are sent all the same, and items are sent back
    /// with their nulls: routers have parameters of their own, and accept what they sent.
    pub is_router: bool,
}

/// The keys of the config that only this format has; without their defaults, which differ between
/// servers.
pub const PROPERTIES: &str = r#"
    "stateless": {
      "type": "boolean",
      "description": "Tell the server to store nothing (`store: false`) and to return its reasoning encrypted (`include: [\"reasoning.encrypted_content\"]`). Off by default."
    },
    "typed_messages": {
      "type": "boolean",
      "description": "Send plain messages as `{type: message, role, content: [{type: input_text, text}]}` instead of `{role, content}`. By default only to routers."
    },"#;

impl Responses {
    /// Takes the keys of [`PROPERTIES`].
    ///
    /// # Errors
    /// `invalid-config` with the pointer to the wrong value.
    pub fn take(
        table: &mut Table,
        mut server: Server,
        is_router: bool,
    ) -> Result<Self, PluginError> {
        if !is_router {
            params::fit(&mut server);
        }
        Ok(Self {
            server,
            stateless: table.take("stateless")?.unwrap_or(false),
            typed_messages: table.take("typed_messages")?.unwrap_or(is_router),
            is_router,
        })
    }
}

impl Format for Responses {
    type Assembly = Assembly;
    type History = History<()>;

    const API: &str = "responses";
    const HOLDER: &str = "output";

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
        "sent a response whose `output` is no list; see the server's log for the reason".to_owned()
    }
}

impl Sequential for Responses {
    type State = ();

    fn encode(&self, out: &mut Vec<u8>, (): &mut (), message: &Message) {
        encode::append_message(self, out, message);
    }
}

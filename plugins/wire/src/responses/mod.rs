//! OpenAI's Responses API: a list of items in, a list of items out.

mod assemble;
mod encode;
mod params;
mod response;

use mswea_sdk::types::{Message, PluginError, Reply, Tool, Usage};
use serde_json::Value;

use crate::{Format, History, Sequential, Server, Table};

pub use assemble::Assembly;

/// The format of this wire's opaque parts.
pub const FORMAT: &str = "openai-responses";

/// Speaks Responses.
#[derive(Clone, Debug)]
pub struct Responses {
    /// Where to.
    pub server: Server,
    /// Whether the server is to keep nothing, so that reasoning comes back sealed.
    pub stateless: bool,
    /// Whether plain messages are sent as items with typed parts, not in the short form.
    pub typed_messages: bool,
    /// Whether what the API does not know is sent all the same, and items go back with their
    /// nulls: routers have parameters of their own, and take back what they gave.
    pub is_router: bool,
}

/// The keys of the config that only this format has; without their defaults, which are not the
/// same everywhere.
pub const PROPERTIES: &str = r#"
    "stateless": {
      "type": "boolean",
      "description": "Let the server keep nothing (`store: false`) and hand its reasoning over sealed (`include: [\"reasoning.encrypted_content\"]`). Off by default."
    },
    "typed_messages": {
      "type": "boolean",
      "description": "Send plain messages as `{type: message, role, content: [{type: input_text, text}]}` instead of `{role, content}`. By default only to routers."
    },"#;

impl Responses {
    /// Takes the keys of [`PROPERTIES`].
    ///
    /// # Errors
    /// `invalid-config` with the pointer of what does not fit.
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

    fn body(&self, history: &Self::History, tools: &[Tool]) -> Vec<u8> {
        encode::body(self, history, tools)
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
        "sent a response whose `output` is no list; see whether the server's log says why"
            .to_owned()
    }
}

impl Sequential for Responses {
    type State = ();

    fn encode(&self, out: &mut Vec<u8>, (): &mut (), message: &Message) {
        encode::append_message(self, out, message);
    }
}

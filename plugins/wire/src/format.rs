//! What a wire format has to say for itself.

use mswea_sdk::adapter::Delta;
use mswea_sdk::http::Event;
use mswea_sdk::types::{Change, Message, Reply, Tool, Usage};
use serde_json::Value;

use crate::Server;

/// A wire format: how messages are written, and how answers are read.
pub trait Format: Sized {
    /// What puts the events of a stream together.
    type Assembly: Assembly;

    /// The messages so far, as the wire has them.
    type History: Encoded<Self>;

    /// What the API is called in messages to users: `chat completions`.
    const API: &str;

    /// The key of a response without which it is no answer: `choices`.
    const HOLDER: &str;

    /// What of a stream begins an answer.
    const BEGINNING: &str = Self::HOLDER;

    /// The key of a response under which its counts are.
    const USAGE: &str = "usage";

    /// The configured server.
    fn server(&self) -> &Server;

    /// The body of a request.
    fn body(&self, history: &Self::History, tools: &[Tool]) -> Vec<u8>;

    /// Reads an answer; none if the response holds none. `history_len` makes ids for calls that
    /// the server gave none: the same on every instance, and never twice in a conversation.
    fn reply(&self, response: &Value, verbatim: String, history_len: usize) -> Option<Reply>;

    /// Reads what [`Format::USAGE`] holds.
    fn usage(usage: &Value) -> Option<Usage>;

    /// The error that a response of good status holds in place of an answer, or beside one that
    /// does not count.
    fn failure(response: &Value) -> Option<Value>;

    /// What is wrong with a response that has [`Format::HOLDER`] and yet no answer.
    fn lack(response: &Value) -> String;
}

/// A format that writes its messages one behind the other: [`crate::History`] keeps them.
pub trait Sequential: Format {
    /// What has to be known of the messages before one, to write it.
    type State: Clone + Default;

    /// Writes a message behind those before it; may write nothing.
    fn encode(&self, out: &mut Vec<u8>, state: &mut Self::State, message: &Message);
}

/// Messages as a format writes them, kept between queries: a step costs the encoding of its new
/// messages and one copy of the bytes that the wire needs anyway.
pub trait Encoded<F>: Default {
    /// Lays a change over them.
    ///
    /// # Errors
    /// When the change begins behind the end of what is known; gives the known count.
    fn apply(&mut self, format: &F, change: &Change) -> Result<(), usize>;

    /// How many messages there are.
    fn count(&self) -> usize;
}

/// What has arrived of a stream.
pub trait Assembly: Default {
    /// Takes one event; what there is to show goes to `deltas`.
    fn take(&mut self, event: &Event, deltas: &mut Vec<Delta>);

    /// The error that the server sent in place of the rest.
    fn error(&self) -> Option<&Value>;

    /// What the server has counted, as [`Format::usage`] reads it.
    fn usage(&self) -> &Value;

    /// Whether there was anything of an answer.
    fn has_answer(&self) -> bool;

    /// Whether the server said that this was all.
    fn is_complete(&self) -> bool;

    /// The response that the server would have sent at once.
    fn into_response(self) -> Value;
}

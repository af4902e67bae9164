//! The properties of a wire format.

use mswea_sdk::adapter::Delta;
use mswea_sdk::http::Event;
use mswea_sdk::types::{Change, Message, Reply, Tool, Usage};
use serde_json::Value;

use crate::Server;
use crate::pieces::{Unchanged, Written};

/// A wire format: how messages are written, and how answers are parsed.
pub trait Format: Sized {
    /// Assembles the events of a stream.
    type Assembly: Assembly;

    /// The history, encoded for this format.
    type History: Encoded<Self>;

    /// The API's name in messages to users: `chat completions`.
    const API: &str;

    /// The key that every response with an answer has: `choices`.
    const HOLDER: &str;

    /// The key with which an answer begins in a stream.
    const BEGINNING: &str = Self::HOLDER;

    /// The key of a response that holds the token counts.
    const USAGE: &str = "usage";

    /// The configured server.
    fn server(&self) -> &Server;

    /// The body of a request, for a host that holds `unchanged` of the last one.
    fn write(
        &self,
        history: &Self::History,
        tools: &[Tool],
        unchanged: Option<Unchanged>,
    ) -> Written;

    /// The whole body of a request.
    fn body(&self, history: &Self::History, tools: &[Tool]) -> Vec<u8> {
        self.write(history, tools, None).fresh
    }

    /// The answer in a response; none if it holds none. `history_len` is used for the ids of calls
    /// without one: they are the same on every instance, and unique in a conversation.
    fn reply(&self, response: &Value, verbatim: String, history_len: usize) -> Option<Reply>;

    /// The same reply, if it can be made without a [`Value`] of the response.
    fn plain_reply(_response: &str, _history_len: usize) -> Option<Reply> {
        None
    }

    /// Stores reasoning that was in the text of a reply, if the server gets it back by a key.
    fn keep_reasoning(_message: &mut Message, _reasoning: String) {}

    /// Parses the value of [`Format::USAGE`].
    fn usage(usage: &Value) -> Option<Usage>;

    /// The error in a successful response, in place of an answer or beside one that does not count.
    fn failure(response: &Value) -> Option<Value>;

    /// Why a response with [`Format::HOLDER`] has no answer, for a message.
    fn lack(response: &Value) -> String;
}

/// A format in which each message is encoded on its own, one after the other; [`crate::History`]
/// keeps the encoded messages.
pub trait Sequential: Format {
    /// The state that the encoding of a message needs from the messages before it.
    type State: Clone + Default;

    /// Appends the encoded message, which may be empty.
    fn encode(&self, out: &mut Vec<u8>, state: &mut Self::State, message: &Message);
}

/// Messages as a format writes them, kept between queries: a step encodes only its new messages; if
/// the host does not have the last body, all bytes are copied once as well.
pub trait Encoded<F>: Default {
    /// Applies a change.
    ///
    /// # Errors
    /// The number of known messages, if the change begins beyond them.
    fn apply(&mut self, format: &F, change: &Change) -> Result<(), usize>;

    /// How many messages there are.
    fn count(&self) -> usize;

    /// How many of the encoded bytes, from the first on, have not changed since the last call of
    /// this function.
    fn take_unchanged(&mut self) -> usize;
}

/// The part of a stream that has arrived.
pub trait Assembly: Default {
    /// Takes one event; the text to show is added to `deltas`.
    fn take(&mut self, event: &Event, deltas: &mut Vec<Delta>);

    /// The error that the server sent in place of the rest.
    fn error(&self) -> Option<&Value>;

    /// The server's counts, as [`Format::usage`] parses them.
    fn usage(&self) -> &Value;

    /// Whether a part of an answer has arrived.
    fn has_answer(&self) -> bool;

    /// How many calls have begun, also those that show nothing because their arguments are still to come.
    fn calls(&self) -> usize {
        0
    }

    /// Whether the server has sent the end of the answer.
    fn is_complete(&self) -> bool;

    /// Whether nothing that follows counts, not even the server's counts.
    fn has_ended(&self) -> bool;

    /// The reply, if it can be made without a [`Value`] of the response.
    fn plain_reply(&self, _history_len: usize) -> Option<Reply> {
        None
    }

    /// The response that the server would have sent at once.
    fn into_response(self) -> Value;
}

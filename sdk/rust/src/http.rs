//! Parsing of HTTP responses that every adapter needs, for any wire format: events of a stream, the
//! wait that a server asks for, and the text of a body that should have been an answer.

mod body;
mod headers;
mod json_end;
mod sse;
mod words;

pub use body::Body;
pub use headers::{Headers, wait_in_text};
pub use sse::{Decoder, Event};
pub use words::{describe_text, is_html, shorten, words_of};

//! A scripted model server: OpenAI's chat completions and Responses, Anthropic's messages and
//! Gemini's `generateContent` on loopback. A [`Scenario`] has its answers and faults.
//!
//! It is for tests and benchmarks: the same scenario gives the same bytes each time, and the server
//! adds no latency (connections are kept alive, `TCP_NODELAY` is set, a response is one write). It uses
//! raw TCP because an HTTP library would not send broken responses. It is not a mock of a provider: it
//! has four routes and reads only the fields that decide the form of the answer.
//!
//! ```
//! use scripted_server::{Scenario, Server};
//!
//! let server = Server::start(Scenario::commands(&["ls", "cat README.md"]));
//! assert!(server.url().ends_with("/v1"));
//! assert!(server.requests().is_empty());
//! ```
//!
//! The scenario files are described in `README.md` beside this crate's manifest.
#![warn(missing_docs)]

mod answer;
mod deliver;
mod fault;
mod gemini;
mod messages;
mod pieces;
mod request;
mod responses;
mod scenario;
mod server;
mod stop;
mod turn;
mod wire;

pub use fault::Fault;
pub use request::Recorded;
pub use scenario::{After, By, Scenario, ScenarioError};
pub use server::Server;
pub use turn::{ToolCall, Turn, Usage};

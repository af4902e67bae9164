//! A scripted model server: OpenAI's chat completions and Responses, Anthropic's messages and
//! Gemini's `generateContent` on loopback, driven by a [`Scenario`], with every fault that a client
//! has to survive.
//!
//! It is for tests and benchmarks, so it answers exactly what it is told, byte for byte the
//! same each time, and adds no latency of its own: kept-alive connections, `TCP_NODELAY`, one
//! write per response. It speaks raw TCP because an HTTP library would refuse to misbehave.
//! It is not a mock of any provider: it knows four routes and looks at nothing but the fields
//! that decide the form of the answer.
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
mod request;
mod responses;
mod scenario;
mod server;
mod turn;
mod wire;

pub use fault::Fault;
pub use request::Recorded;
pub use scenario::{After, By, Scenario, ScenarioError};
pub use server::Server;
pub use turn::{ToolCall, Turn, Usage};

//! Runs actions on another machine, through `mswea-host runtime serve` there.
//!
//! `wire` is what client and server say to each other, `token` what the client shows, `endpoint` a
//! server and `link` a session there, which outlives its connections. `fault` says what went wrong, and
//! `place` is the executor.

mod endpoint;
mod fault;
mod link;
mod place;
mod token;
pub mod wire;

pub use endpoint::Endpoint;
pub use fault::RemoteFault;
pub use place::remote_executor;
pub use token::AccessToken;

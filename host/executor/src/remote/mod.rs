//! Runs actions on another machine, through `mswea-host runtime serve` there.
//!
//! `wire` is the interface between client and server, `token` the client's token, `endpoint` a
//! server, and `link` a session there, which is independent of its connections. `fault` has the
//! errors, and `place` is the executor.

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

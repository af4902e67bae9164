//! Runs commands on this machine for hosts on other machines: the server of `mswea-host runtime
//! serve`.
//!
//! It starts one helper for each session of a client, and passes the helper's bytes on without
//! interpreting them (`mswea_executor::remote::wire` describes the requests). `listener` has the
//! connections and their limits, `routes` the requests, `table` all sessions and `session` one.
//! `rex` is another interface to this machine, for clients of SWE-ReX.
//!
//! The page of `mswea-host view` uses [`talk`] and [`ConnectionPlace`], the limits of a connection,
//! too.

mod answers;
mod http;
mod listener;
mod newcomers;
mod output;
mod rex;
mod routes;
mod session;
mod settings;
mod table;
mod tls;

pub use http::talk;
pub use listener::RuntimeServer;
pub use newcomers::{ConnectionPlace, Newcomers};
pub use settings::{ServeError, ServeSettings};

//! Runs commands on this machine for hosts on other machines: the server of `mswea-host runtime
//! serve`.
//!
//! It starts one helper for each session of a client and carries the helper's bytes, and knows nothing
//! of what they mean (`mswea_executor::remote::wire` describes the requests). `listener` has the
//! connections and their limits, `routes` the requests, `table` all sessions and `session` one. `rex` is
//! another interface to this machine, for clients of SWE-ReX.

mod answers;
mod listener;
mod newcomers;
mod output;
mod rex;
mod routes;
mod session;
mod settings;
mod table;
mod tls;

pub use listener::RuntimeServer;
pub use settings::{ServeError, ServeSettings};

//! The provider layer: everything between an adapter, which only describes requests, and the
//! network, which only moves bytes.
//!
//! An adapter names a host and a secret; this layer decides whether it may have them
//! ([`Grants`], [`Secrets`]), sends the request ([`Http`]), tries again what deserves it, and
//! says in plain words what went wrong. [`ProviderModel`] is the whole of it as a
//! [`crate::roles::Model`].

// `ModelError` is large, but travels once a query at the most: boxing it would buy nothing.
#![allow(clippy::result_large_err)]

mod coding;
mod exchange;
mod fault;
mod grants;
mod http;
mod model;
mod plain_http;
pub mod price;
mod proxy;
mod request;
mod retry;
mod secrets;
mod settings;
mod tls;

#[cfg(test)]
mod tests;

use std::sync::Arc;

use crate::executor::secrecy;

pub use grants::{Grants, HostPattern, PatternError};
pub use http::Http;
pub use model::{Asker, ProviderModel};
pub use plain_http::is_near;
pub use price::{Prices, Quote, Rates, Wanted};
pub use secrets::{Secret, Secrets, SecretsError, is_placeholder};
pub use settings::{Limit, Settings};

/// Looks a variable up: the process's environment, or what a test puts in its place.
pub type Environment = Arc<dyn Fn(&str) -> Option<String> + Send + Sync>;

/// The environment of this process, with what [`secrecy`] took out of it. A value that is no
/// UTF-8 counts as absent: neither a key nor a proxy's address can hold such bytes.
#[must_use]
pub fn process_environment() -> Environment {
    Arc::new(secrecy::var)
}

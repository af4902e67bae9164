//! The provider layer, between an adapter, which only describes requests, and the network.
//!
//! An adapter names a host and a secret; this layer checks that both are granted ([`Grants`],
//! [`Secrets`]), sends the request ([`Http`]), retries where that makes sense, and reports failures
//! with their remedy. [`ProviderModel`] offers all of it as a
//! [`mswea_core::Model`].

// `ModelError` is large, but is returned at most once per query, so boxing it would save nothing.
#![allow(clippy::result_large_err)]

mod coding;
mod connections;
mod exchange;
mod fault;
mod grants;
mod http;
mod masking;
mod model;
mod outgoing;
mod pace;
mod plain_http;
pub mod price;
mod proxy;
mod request;
mod retry;
mod secrets;
mod settings;

#[cfg(test)]
mod tests;

use std::sync::Arc;

use mswea_secrecy as secrecy;

pub use grants::{Grants, HostPattern, PatternError};
pub use http::Http;
pub use model::{AdapterMaker, ProviderModel};
pub use plain_http::is_near;
pub use price::{PriceQuery, Prices, Quote, Rates};
pub use secrets::{Secret, Secrets, SecretsError, is_placeholder};
pub use settings::{Limit, RequestSettings};

/// Looks up an environment variable; tests pass one of their own.
pub type EnvironmentLookup = Arc<dyn Fn(&str) -> Option<String> + Send + Sync>;

/// The environment of this process, including the variables that [`secrecy`] removed from it. A
/// value that is not UTF-8 counts as unset: neither a key nor a proxy's address can contain such
/// bytes.
#[must_use]
pub fn process_environment() -> EnvironmentLookup {
    Arc::new(secrecy::var)
}

//! Messages: the wire format of Anthropic and of the servers compatible with it.
//!
//! The adapter builds requests and reads responses; the host sends them. See `README.md` for
//! the config.

mod arguments;
mod assemble;
mod blocks;
mod config;
mod encode;
mod errors;
mod exchange;
mod history;
#[cfg(test)]
mod litellm_tests;
mod models;
mod params;
mod response;
#[cfg(test)]
mod samples;

use mswea_sdk::adapter::{Delta, Header, HttpRequest, ModelError, Next, Request};
use mswea_sdk::types::{Change, PluginError};
use mswea_sdk::{Adapter, Descriptor, Plugin};
use serde_json::Value;

use config::{Auth, Config};
use exchange::Exchange;
use history::History;

/// The format of this adapter's opaque parts.
const FORMAT: &str = "anthropic-messages";

/// The version of the API that this adapter speaks.
const VERSION: &str = "2023-06-01";

/// The adapter.
pub struct Anthropic {
    config: Config,
    history: History,
    exchange: Option<Exchange>,
}

impl Plugin for Anthropic {
    fn describe() -> Descriptor {
        let mut descriptor = Descriptor::new(
            "anthropic",
            env!("CARGO_PKG_VERSION"),
            "Speaks the Messages API, to Anthropic and to compatible servers",
        )
        .secret("ANTHROPIC_API_KEY")
        .host("api.anthropic.com");
        config::SCHEMA.clone_into(&mut descriptor.config_schema);
        descriptor
    }

    fn configure(config: Value) -> Result<Self, PluginError> {
        let config = Config::new(config)?;
        config.params.log();
        Ok(Self {
            config,
            history: History::default(),
            exchange: None,
        })
    }
}

impl Adapter for Anthropic {
    fn query(&mut self, change: Change, request: Request) -> Result<Next, ModelError> {
        self.exchange = None;
        self.history.apply(&change).map_err(|known| {
            ModelError::new(
                "bad-request",
                format!(
                    "the history's change begins at message {}, but only {known} are known; this \
                     is a fault of the host, please report it",
                    change.start
                ),
            )
        })?;
        let mut http = HttpRequest::new("POST", &self.config.url).body(encode::body(
            &self.config,
            &self.history,
            &request.tools,
        ));
        let headers = &self.config.headers;
        let is_replaced = |name: &str| headers.iter().any(|(own, _)| own == name);
        for (name, value) in [
            ("content-type", "application/json"),
            ("accept", "application/json"),
            ("anthropic-version", VERSION),
        ] {
            if !is_replaced(name) {
                http = http.header(Header::plain(name, value));
            }
        }
        if let Some(secret) = &self.config.api_key {
            let (name, prefix) = match self.config.auth {
                Auth::Key => ("x-api-key", ""),
                Auth::Bearer => ("authorization", "Bearer "),
            };
            if !is_replaced(name) {
                http = http.header(Header::secret(name, prefix, secret));
            }
        }
        for (name, value) in headers {
            http = http.header(Header::plain(name, value));
        }
        Ok(Next::Send(http))
    }

    fn head(&mut self, status: u16, headers: Vec<(String, String)>) {
        self.exchange = Some(Exchange::new(status, headers));
    }

    fn feed(&mut self, bytes: Vec<u8>) -> Vec<Delta> {
        match &mut self.exchange {
            Some(exchange) => exchange.feed(&bytes),
            None => Vec::new(),
        }
    }

    fn finish(&mut self) -> Result<Next, ModelError> {
        let Some(exchange) = self.exchange.take() else {
            return Err(ModelError::new(
                "malformed-response",
                "a response ended that had not begun; this is a fault of the host, please \
                 report it",
            ));
        };
        let mut reply = exchange.finish(&self.config, self.history.len())?;
        reply.extra = self.config.params.report();
        Ok(Next::Reply(reply))
    }
}

mswea_sdk::export!(adapter: Anthropic);

#[cfg(test)]
#[path = "lib_tests.rs"]
mod tests;

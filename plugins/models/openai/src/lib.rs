//! Chat completions: the wire format of OpenAI and of every server compatible with it.
//!
//! The adapter builds requests and reads responses; the host sends them. See `README.md` for
//! the config.

mod assemble;
mod config;
mod encode;
mod errors;
mod exchange;
mod response;
#[cfg(test)]
mod samples;

use mswea_sdk::adapter::{Delta, Header, HttpRequest, ModelError, Next, Request};
use mswea_sdk::types::{Change, PluginError};
use mswea_sdk::{Adapter, Descriptor, Plugin};
use serde_json::Value;

use config::Config;
use encode::Prefix;
use exchange::Exchange;

/// The format of this adapter's opaque parts.
const FORMAT: &str = "openai-chat";

/// The adapter.
pub struct OpenAi {
    config: Config,
    prefix: Prefix,
    exchange: Option<Exchange>,
}

impl Plugin for OpenAi {
    fn describe() -> Descriptor {
        let mut descriptor = Descriptor::new(
            "openai",
            env!("CARGO_PKG_VERSION"),
            "Speaks chat completions, to OpenAI and to every compatible server",
        )
        .secret("OPENAI_API_KEY")
        .host("api.openai.com");
        config::SCHEMA.clone_into(&mut descriptor.config_schema);
        descriptor
    }

    fn configure(config: Value) -> Result<Self, PluginError> {
        Ok(Self {
            config: Config::new(config)?,
            prefix: Prefix::default(),
            exchange: None,
        })
    }
}

impl Adapter for OpenAi {
    fn query(&mut self, change: Change, request: Request) -> Result<Next, ModelError> {
        self.exchange = None;
        self.prefix.apply(&change).map_err(|known| {
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
            &self.prefix,
            &request.tools,
        ));
        let is_replaced = |name: &str| self.config.headers.iter().any(|(own, _)| own == name);
        for name in ["content-type", "accept"] {
            if !is_replaced(name) {
                http = http.header(Header::plain(name, "application/json"));
            }
        }
        if let Some(secret) = &self.config.api_key
            && !is_replaced("authorization")
        {
            http = http.header(Header::secret("authorization", "Bearer ", secret));
        }
        for (name, value) in &self.config.headers {
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
        exchange
            .finish(&self.config, self.prefix.len())
            .map(Next::Reply)
    }
}

mswea_sdk::export!(adapter: OpenAi);

#[cfg(test)]
#[path = "lib_tests.rs"]
mod tests;

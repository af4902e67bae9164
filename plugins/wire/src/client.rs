//! Drives a format as an adapter.

use mswea_sdk::adapter::{Delta, ModelError, Next, Request};
use mswea_sdk::types::{Change, PluginError};
use serde_json::Value;

use crate::exchange::Exchange;
use crate::{Defaults, Encoded as _, Format, Report, Server, Table};

/// An adapter that speaks one format.
pub struct Client<F: Format> {
    format: F,
    history: F::History,
    exchange: Option<Exchange<F>>,
}

impl<F: Format> Client<F> {
    /// Reads a config: the keys that all adapters have, and those that `take` takes.
    ///
    /// # Errors
    /// `invalid-config` with the pointer of what does not fit, or that nobody took.
    pub fn configure(
        config: Value,
        defaults: &Defaults,
        take: impl FnOnce(&mut Table, Server) -> Result<F, PluginError>,
    ) -> Result<Self, PluginError> {
        let mut table = Table::new(config)?;
        let server = Server::take(&mut table, defaults)?;
        let format = take(&mut table, server)?;
        table.finish()?;
        Ok(Self::new(format))
    }

    /// Speaks a format; tells the host's log which parameters are not sent as they were written.
    pub fn new(format: F) -> Self {
        format.server().report.log();
        Self {
            format,
            history: F::History::default(),
            exchange: None,
        }
    }

    /// As [`mswea_sdk::Adapter::query`].
    ///
    /// # Errors
    /// When the host and this instance don't agree on the history.
    pub fn query(&mut self, change: &Change, request: &Request) -> Result<Next, ModelError> {
        self.exchange = None;
        self.history.apply(&self.format, change).map_err(|known| {
            ModelError::new(
                "bad-request",
                format!(
                    "the history's change begins at message {}, but only {known} are known; this \
                     is a fault of the host, please report it",
                    change.start
                ),
            )
        })?;
        let body = self.format.body(&self.history, &request.tools);
        Ok(Next::Send(self.format.server().request(body)))
    }

    /// As [`mswea_sdk::Adapter::head`].
    pub fn head(&mut self, status: u16, headers: Vec<(String, String)>) {
        self.exchange = Some(Exchange::new(status, headers));
    }

    /// As [`mswea_sdk::Adapter::feed`].
    pub fn feed(&mut self, bytes: &[u8]) -> Vec<Delta> {
        match &mut self.exchange {
            Some(exchange) => exchange.feed(bytes),
            None => Vec::new(),
        }
    }

    /// As [`mswea_sdk::Adapter::finish`].
    ///
    /// # Errors
    /// When the response holds no answer.
    pub fn finish(&mut self) -> Result<Next, ModelError> {
        let Some(exchange) = self.exchange.take() else {
            return Err(ModelError::new(
                "malformed-response",
                "a response ended that had not begun; this is a fault of the host, please \
                 report it",
            ));
        };
        exchange
            .finish(&self.format, self.history.count())
            .map(Next::Reply)
    }

    /// Which parameters are not sent as they were written.
    pub fn report(&self) -> &Report {
        &self.format.server().report
    }
}

/// Implements the SDK's `Adapter` for a struct with a `client` field.
#[macro_export]
macro_rules! adapter {
    ($type:ty) => {
        impl ::mswea_sdk::Adapter for $type {
            fn query(
                &mut self,
                change: ::mswea_sdk::types::Change,
                request: ::mswea_sdk::adapter::Request,
            ) -> Result<::mswea_sdk::adapter::Next, ::mswea_sdk::adapter::ModelError> {
                self.client.query(&change, &request)
            }

            fn head(&mut self, status: u16, headers: Vec<(String, String)>) {
                self.client.head(status, headers);
            }

            fn feed(&mut self, bytes: Vec<u8>) -> Vec<::mswea_sdk::adapter::Delta> {
                self.client.feed(&bytes)
            }

            fn finish(
                &mut self,
            ) -> Result<::mswea_sdk::adapter::Next, ::mswea_sdk::adapter::ModelError> {
                self.client.finish()
            }
        }
    };
}

//! Makes an adapter of a wire format.

use mswea_sdk::adapter::{Delta, ModelError, Next, Request};
use mswea_sdk::body_pieces::Piece;
use mswea_sdk::types::{Change, PluginError};
use serde_json::Value;

use crate::exchange::Exchange;
use crate::pieces::{Unchanged, Written};
use crate::{Defaults, Encoded as _, Format, Report, Server, Table};

/// An adapter of one wire format.
pub struct Client<F: Format> {
    format: F,
    history: F::History,
    exchange: Option<Exchange<F>>,
    /// The size of the last body, and where its messages begin.
    last: Option<(usize, usize)>,
    /// How many bytes of the last body the host has, if it accepts the next one in pieces.
    held: Option<u64>,
    /// The body of the current query, if it is passed in pieces.
    written: Option<Written>,
}

impl<F: Format> Client<F> {
    /// Reads a config: the keys that all adapters have, and those that `take` removes.
    ///
    /// # Errors
    /// `invalid-config` with the pointer to a wrong value or an unknown key.
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

    /// Makes an adapter of a format; logs which parameters are not sent as they were written.
    pub fn new(format: F) -> Self {
        format.server().report.log();
        Self {
            format,
            history: F::History::default(),
            exchange: None,
            last: None,
            held: None,
            written: None,
        }
    }

    /// As [`mswea_sdk::Adapter::query`].
    ///
    /// # Errors
    /// If the change begins beyond this instance's history.
    pub fn query(&mut self, change: &Change, request: &Request) -> Result<Next, ModelError> {
        self.exchange = None;
        self.written = None;
        let held = self.held.take();
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
        let len = self.history.take_unchanged();
        let is_held = |(size, _): &(usize, usize)| held == Some(*size as u64);
        let unchanged = self.last.filter(is_held);
        let unchanged = unchanged.map(|(_, at)| Unchanged { at, len });
        let written = self.format.write(&self.history, &request.tools, unchanged);
        self.last = written.messages_at.map(|at| (written.size(), at));
        let body = match held {
            Some(_) => {
                self.written = Some(written);
                Vec::new()
            }
            None => written.fresh,
        };
        Ok(Next::Send(self.format.server().request(body)))
    }

    /// As [`mswea_sdk::BodyPieces::offer`].
    pub fn offer(&mut self, held: u64) {
        self.held = Some(held);
    }

    /// As [`mswea_sdk::BodyPieces::pieces`].
    pub fn pieces(&mut self) -> Vec<Piece> {
        let written = self.written.take();
        written.map(Written::into_pieces).unwrap_or_default()
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
    /// If the response holds no answer.
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

    /// The parameters that are not sent as they were written.
    pub fn report(&self) -> &Report {
        &self.format.server().report
    }
}

/// Implements the SDK's `Adapter` and `BodyPieces` for a struct with a `client` field.
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

        impl ::mswea_sdk::BodyPieces for $type {
            fn offer(&mut self, held: u64) {
                self.client.offer(held);
            }

            fn pieces(&mut self) -> Vec<::mswea_sdk::body_pieces::Piece> {
                self.client.pieces()
            }
        }
    };
}

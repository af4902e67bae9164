//! Makes an adapter of a wire format.

use mswea_sdk::adapter::{Delta, ModelError, Next, Request};
use mswea_sdk::body_pieces::Piece;
use mswea_sdk::host::{self, Level};
use mswea_sdk::types::{Change, PluginError, Reply, Tool, Usage};
use serde_json::Value;

use crate::amends::{Amend, Amends};
use crate::exchange::Exchange;
use crate::pieces::{Unchanged, Written};
use crate::repair::repair;
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
    /// The tools of the last query.
    tools: Vec<Tool>,
    /// The form that the server has asked for.
    amends: Amends,
    /// The reply of the current query whose calls are doubtful: it is asked for once again, without
    /// a stream, and used if there is no other one.
    doubtful: Option<Reply>,
    /// What the answers of this query that are not used have cost.
    spent: Option<Usage>,
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
        let server = format.server();
        server.report.log();
        let amends = server.merge_user_messages.then_some(Amend::JoinUsers);
        let amends = Amends::new(amends.into_iter().collect());
        Self {
            format,
            history: F::History::default(),
            exchange: None,
            last: None,
            held: None,
            written: None,
            tools: Vec::new(),
            amends,
            doubtful: None,
            spent: None,
        }
    }

    /// As [`mswea_sdk::Adapter::query`].
    ///
    /// # Errors
    /// If the change begins beyond this instance's history.
    pub fn query(&mut self, change: &Change, request: &Request) -> Result<Next, ModelError> {
        self.exchange = None;
        self.written = None;
        self.doubtful = None;
        self.spent = None;
        if self.tools != request.tools {
            self.tools.clone_from(&request.tools);
        }
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
        let written = match self.amends.is_empty() {
            true => self.format.write(&self.history, &self.tools, unchanged),
            false => self.amended(false).unwrap_or_default(),
        };
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
        let is_stream = exchange.is_stream();
        match exchange.finish(&self.format, self.history.count()) {
            Ok(mut reply) => {
                let calls = &mut reply.message.tool_calls;
                let is_doubtful = repair(calls, &self.tools, is_stream);
                if is_doubtful && is_stream && self.doubtful.is_none() {
                    return Ok(self.ask_whole(reply));
                }
                self.doubtful = None;
                reply.usage = sum(self.spent.take(), reply.usage);
                Ok(Next::Reply(reply))
            }
            Err(mut error) => {
                self.spent = sum(self.spent.take(), error.usage.take());
                if let Some(mut reply) = self.doubtful.take() {
                    reply.usage = self.spent.take();
                    return Ok(Next::Reply(reply));
                }
                if let Some(body) = self.learned(&error) {
                    return Ok(Next::Send(self.format.server().request(body)));
                }
                error.usage = self.spent.take();
                Err(error)
            }
        }
    }

    /// Asks for the answer once again, without a stream; replies if that is not possible.
    fn ask_whole(&mut self, mut reply: Reply) -> Next {
        let Some(written) = self.amended(true) else {
            return Next::Reply(reply);
        };
        let host = self.format.server().host();
        host::log(
            Level::Warn,
            &format!(
                "`{host}` has garbled a call in its stream, so the answer is asked for once again \
                 without one; with `model.stream = false` all are"
            ),
        );
        self.spent = sum(self.spent.take(), reply.usage.take());
        self.doubtful = Some(reply);
        Next::Send(self.format.server().request(written.fresh))
    }

    /// The body in the form that a refusal asks for, if there is one that was not tried yet.
    fn learned(&mut self, error: &ModelError) -> Option<Vec<u8>> {
        if error.class != "bad-request" {
            return None;
        }
        let body = self.format.body(&self.history, &self.tools);
        let learned = self.amends.learn(&error.message, &body)?;
        let host = self.format.server().host();
        let note = learned.note();
        host::log(
            Level::Warn,
            &format!("`{host}` has refused the form of the messages: from now on, {note}"),
        );
        self.amends.apply(&body, false)
    }

    /// The body in the form that the server has asked for; none if `whole` has no effect.
    fn amended(&self, whole: bool) -> Option<Written> {
        let body = self.format.body(&self.history, &self.tools);
        let fresh = self.amends.apply(&body, whole)?;
        Some(Written {
            fresh,
            ..Written::default()
        })
    }

    /// The parameters that are not sent as they were written.
    pub fn report(&self) -> &Report {
        &self.format.server().report
    }
}

/// The usage of two answers.
fn sum(one: Option<Usage>, other: Option<Usage>) -> Option<Usage> {
    let (Some(one), Some(other)) = (&one, &other) else {
        return one.or(other);
    };
    Some(Usage {
        input_tokens: one.input_tokens.saturating_add(other.input_tokens),
        cache_read_tokens: one
            .cache_read_tokens
            .saturating_add(other.cache_read_tokens),
        cache_write_tokens: one
            .cache_write_tokens
            .saturating_add(other.cache_write_tokens),
        output_tokens: one.output_tokens.saturating_add(other.output_tokens),
        reasoning_tokens: one.reasoning_tokens.saturating_add(other.reasoning_tokens),
        cost: one.cost.zip(other.cost).map(|(one, other)| one + other),
        extra: other.extra.clone(),
    })
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

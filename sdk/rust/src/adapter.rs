//! Plugins that speak a model's wire format, without its I/O.

// `ModelError` is a record of the contract: its size is not ours to choose, and an error is
// rare next to the request that it ends.
#![allow(clippy::result_large_err)]

use crate::bindings::adapter::exports::mswea::plugin::model_adapter as wit;
use crate::plugin::{Holder, Plugin};
use crate::types::{Change, PluginError};

pub use wit::{Delta, Header, HeaderValue, HttpRequest, ModelError, Next, Request, Secret};

/// Speaks a model's wire format: says what to send, and reads what came back.
///
/// One query runs as `query` → [`Next::Send`] → `head`, `feed`…, `finish` →
/// [`Next::Reply`], an error, or another `Send`. A request may be performed several times:
/// each `head` starts over.
pub trait Adapter: Plugin {
    /// Starts a query: the history changed by `change` since the last query of this
    /// instance.
    ///
    /// # Errors
    ///
    /// A [`ModelError`] if there is nothing to send.
    fn query(&mut self, change: Change, request: Request) -> Result<Next, ModelError>;

    /// The response's status and headers (names in lower case).
    fn head(&mut self, status: u16, headers: Vec<(String, String)>);

    /// The next piece of the response's body, cut anywhere.
    fn feed(&mut self, bytes: Vec<u8>) -> Vec<Delta>;

    /// The response's body has ended.
    ///
    /// # Errors
    ///
    /// A [`ModelError`] with the class that says what the host should do about it.
    fn finish(&mut self) -> Result<Next, ModelError>;
}

impl ModelError {
    /// An error of a class that `wit/model-adapter.wit` documents.
    pub fn new(class: &str, message: impl Into<String>) -> Self {
        Self {
            class: class.to_owned(),
            message: message.into(),
            retry_after_ms: None,
            usage: None,
            extra: None,
        }
    }
}

impl From<PluginError> for ModelError {
    /// A fault of the plugin has no class of its own; `bad-request` is not retried.
    fn from(error: PluginError) -> Self {
        Self::new("bad-request", error.message)
    }
}

// Generated, so there is nothing to put a derive on.
#[allow(clippy::derivable_impls)]
impl Default for Request {
    fn default() -> Self {
        Self {
            tools: Vec::new(),
            extra: None,
        }
    }
}

impl Header {
    /// A header as it is.
    pub fn plain(name: impl Into<String>, value: impl Into<String>) -> Self {
        Self {
            name: name.into(),
            value: HeaderValue::Plain(value.into()),
        }
    }

    /// A header whose value the host fills in: `prefix`, then the secret called `secret`.
    pub fn secret(
        name: impl Into<String>,
        prefix: impl Into<String>,
        secret: impl Into<String>,
    ) -> Self {
        Self {
            name: name.into(),
            value: HeaderValue::Secret(Secret {
                name: secret.into(),
                prefix: prefix.into(),
                extra: None,
            }),
        }
    }
}

impl HttpRequest {
    /// A request without headers and body.
    pub fn new(method: &str, url: impl Into<String>) -> Self {
        Self {
            method: method.to_owned(),
            url: url.into(),
            headers: Vec::new(),
            body: Vec::new(),
            extra: None,
        }
    }

    /// Adds a header.
    #[must_use]
    pub fn header(mut self, header: Header) -> Self {
        self.headers.push(header);
        self
    }

    /// Sets the body.
    #[must_use]
    pub fn body(mut self, body: impl Into<Vec<u8>>) -> Self {
        self.body = body.into();
        self
    }
}

impl Delta {
    /// A piece of the answer: `kind` is `text`, `reasoning` or `tool-call`.
    pub fn new(kind: &str, text: impl Into<String>) -> Self {
        Self {
            kind: kind.to_owned(),
            text: text.into(),
            extra: None,
        }
    }
}

impl<H: Holder> wit::Guest for H
where
    H::Instance: Adapter,
{
    fn query(change: Change, request: Request) -> Result<Next, ModelError> {
        H::with(|adapter| adapter.query(change, request))?
    }

    // `head` and `feed` can't report that the instance is missing; `finish` does.
    fn head(status: u16, headers: Vec<(String, String)>) {
        let _ = H::with(|adapter| adapter.head(status, headers));
    }

    fn feed(bytes: Vec<u8>) -> Vec<Delta> {
        H::with(|adapter| adapter.feed(bytes)).unwrap_or_default()
    }

    fn finish() -> Result<Next, ModelError> {
        H::with(|adapter| adapter.finish())?
    }
}

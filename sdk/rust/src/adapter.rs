//! Plugins that implement a model's wire format, without its I/O.

// `ModelError` is a record of the contract, so its size is given; and an error is rare compared to
// the request that it ends.
#![allow(clippy::result_large_err)]

use crate::bindings::adapter::exports::mswea::plugin::model_adapter as wit;
use crate::plugin::{Holder, Plugin};
use crate::types::{Change, PluginError};

pub use wit::{Delta, Header, HeaderValue, HttpRequest, ModelError, Next, Request, Secret};

/// Implements a model's wire format: returns the requests to send, and decodes the responses.
///
/// The order of the calls for one query is: `query` → [`Next::Send`] → `head`, `feed`…, `finish` →
/// [`Next::Reply`], an error, or another `Send`. A request may be sent several times: with each
/// `head` a new response begins.
pub trait Adapter: Plugin {
    /// Starts a query, after the history has changed by `change` since the last query of this
    /// instance.
    ///
    /// # Errors
    ///
    /// A [`ModelError`] if no request can be made.
    fn query(&mut self, change: Change, request: Request) -> Result<Next, ModelError>;

    /// Passes the status and the headers of a response; the headers' names are in lower case.
    fn head(&mut self, status: u16, headers: Vec<(String, String)>);

    /// Passes the next bytes of the response's body. A piece may begin and end anywhere, also
    /// within a character. [`Delta::finished`] and [`Delta::end`] tell the host that the reply is
    /// complete although the connection stays open.
    fn feed(&mut self, bytes: Vec<u8>) -> Vec<Delta>;

    /// Called when the response's body has ended, or the reply in it is complete.
    ///
    /// # Errors
    ///
    /// A [`ModelError`] whose class tells the host whether to retry.
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
    /// A plugin's fault has no class of its own; `bad-request` is not retried.
    fn from(error: PluginError) -> Self {
        Self::new("bad-request", error.message)
    }
}

// The type is generated, so nothing can be derived for it.
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
    /// A header with a plain value.
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
    /// New text of the reply: `kind` is `text`, `reasoning` or `tool-call`.
    pub fn new(kind: &str, text: impl Into<String>) -> Self {
        Self {
            kind: kind.to_owned(),
            text: text.into(),
            extra: None,
        }
    }

    /// Says that the reply is complete, though something that belongs to it may follow, such as the
    /// token counts after a finish reason: the host waits for it for a few seconds.
    pub fn finished() -> Self {
        Self::new("finished", "")
    }

    /// Says that the reply may be complete, though more of it may follow: some servers write a finish
    /// reason into every chunk. The host waits half a minute, or the user's `model.idle_timeout`.
    pub fn likely_finished() -> Self {
        Self::new("likely-finished", "")
    }

    /// Says that nothing that follows in the response counts: the host passes no further bytes.
    pub fn end() -> Self {
        Self::new("end", "")
    }

    /// Whether it says how far the response is, and has no text.
    pub fn is_sign(&self) -> bool {
        matches!(self.kind.as_str(), "finished" | "likely-finished" | "end")
    }
}

impl<H: Holder> wit::Guest for H
where
    H::Instance: Adapter,
{
    fn query(change: Change, request: Request) -> Result<Next, ModelError> {
        H::with(|adapter| adapter.query(change, request))?
    }

    // `head` and `feed` can't report that there is no instance; `finish` does.
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

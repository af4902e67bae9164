//! Failures between this host and a server, with messages that name the remedy.

use std::error::Error;
use std::io;
use std::time::Duration;

use url::Url;

use super::grants::host_and_port;
use super::plain_http::is_loopback;
use super::proxy::Proxy;
use super::settings::{Limit, RequestSettings};
use mswea_core::{ErrorClass, ModelError, ModelFailure};

/// How many letters of a cause an error shows.
const MOST_SHOWN: usize = 200;

/// A request that led to no complete response.
#[derive(Debug)]
pub(super) struct RequestFault {
    pub class: ModelFailure,
    pub message: String,
    pub again: Again,
}

/// How often another attempt makes sense.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Again {
    /// Never: it would fail in the same way.
    Never,
    /// The address may be wrong: no server listens there, or a server of another kind. This many
    /// more attempts make sense. Once a reply has come from this address in this run, the fault
    /// counts as temporary.
    IfAddressIsRight(u32),
    /// As often as the budgets allow.
    Often,
}

impl Again {
    /// How many more attempts make sense, if the budgets allow; none: any number. `is_patient`: the
    /// user asked for retries, so a server that is not up yet is waited for.
    pub fn tries(self, has_answered: bool, is_patient: bool) -> Option<u32> {
        match self {
            Self::Never => Some(0),
            Self::IfAddressIsRight(_) if has_answered => None,
            Self::IfAddressIsRight(tries) if tries > 0 && is_patient => None,
            Self::IfAddressIsRight(tries) => Some(tries),
            Self::Often => None,
        }
    }
}

impl RequestFault {
    pub fn new(class: impl Into<ModelFailure>, message: impl Into<String>) -> Self {
        Self {
            class: class.into(),
            message: message.into(),
            again: Again::Often,
        }
    }

    /// The same fault, but another attempt would fail in the same way.
    pub fn lasting(mut self) -> Self {
        self.again = Again::Never;
        self
    }

    /// The same fault, but a wrong address may be its cause: `tries` more attempts are enough.
    pub fn if_address_is_right(mut self, tries: u32) -> Self {
        self.again = Again::IfAddressIsRight(tries);
        self
    }
}

impl From<RequestFault> for ModelError {
    fn from(fault: RequestFault) -> Self {
        Self::new(fault.class, fault.message)
    }
}

/// The timeout that expired.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum TimeoutPhase {
    Head,
    Body,
    Total,
}

/// The fault of an expired timeout; its message names the key that sets the timeout.
pub(super) fn timeout(phase: TimeoutPhase, origin: &str, limit: Limit) -> RequestFault {
    let what = match phase {
        TimeoutPhase::Head => format!("`{origin}` sent no response within"),
        TimeoutPhase::Body => {
            format!("`{origin}` sent nothing in the middle of its response for more than")
        }
        TimeoutPhase::Total => format!("the response of `{origin}` was not complete within"),
    };
    RequestFault::new(
        ErrorClass::Timeout,
        format!(
            "{what} {}: is it overloaded? To wait longer, raise `{}`",
            seconds(limit.time),
            limit.key
        ),
    )
}

/// A response larger than the limit. Another attempt would be as large.
pub(super) fn too_large(origin: &str, settings: &RequestSettings) -> RequestFault {
    RequestFault::new(
        ErrorClass::MalformedResponse,
        format!(
            "the response of `{origin}` is larger than {} bytes: is it a model's API? To read \
             more, raise `model.max_response_bytes`",
            settings.max_response_bytes
        ),
    )
    .lasting()
}

/// A response in a content coding that is not supported.
pub(super) fn unknown_coding(origin: &str, coding: &str) -> RequestFault {
    RequestFault::new(
        ErrorClass::MalformedResponse,
        format!(
            "`{origin}` compresses its response as `{coding}`, which the request did not ask for and which the host does not support (it supports `gzip` and `deflate`): switch the compression off at the server or at the proxy before it"
        ),
    )
    .if_address_is_right(0)
}

/// A compressed response that can't be unpacked.
pub(super) fn damaged(origin: &str, coding: &str) -> RequestFault {
    RequestFault::new(
        ErrorClass::MalformedResponse,
        format!(
            "the response of `{origin}` has the content coding `{coding}`, but can't be decompressed: is there a proxy before it that changes responses?"
        ),
    )
}

/// A compressed response whose end is missing.
pub(super) fn torn(origin: &str) -> RequestFault {
    RequestFault::new(
        ErrorClass::Network,
        format!(
            "the response of `{origin}` ended in the middle of its compressed body: check the network, and whether the server was stopped"
        ),
    )
}

/// A request without a response head. With a connection, the server may have begun to work on it.
pub(super) fn on_send(
    error: &reqwest::Error,
    url: &Url,
    proxy: Option<&Proxy>,
    settings: &RequestSettings,
) -> RequestFault {
    let origin = &origin(url);
    if let Some(fault) = tls(error, origin) {
        return fault;
    }
    let cause = root_cause(error);
    if error.is_builder() {
        return RequestFault::new(
            ErrorClass::BadRequest,
            format!("the request to `{origin}` can't be made: {cause}"),
        )
        .lasting();
    }
    if error.is_connect() {
        return on_connect(error, &cause, url, proxy, settings);
    }
    let chain = chain(error);
    if chain.contains("HTTP version parsed")
        || chain.contains("HTTP header parsed")
        || chain.contains("status-code parsed")
        || chain.contains("content-length parsed")
        || chain.contains("head is too large")
    {
        return RequestFault::new(
            ErrorClass::MalformedResponse,
            format!("`{origin}` does not answer in HTTP ({cause}): check `--base-url`"),
        )
        .if_address_is_right(0);
    }
    if is_closed(error, &chain) {
        return RequestFault::new(
            ErrorClass::Network,
            format!(
                "`{origin}` closed the connection without a response: the log of the server, or of a proxy before it, may say why"
            ),
        );
    }
    // The words of h2, which say whether the stream or the connection ended, and the server's reason. Those about a
    // connection have a text of the server, too.
    let is_refused = cause.starts_with("stream error") && cause.contains("refused stream");
    let begun = match is_refused {
        true => "it has not begun to work on it",
        false => "it may have begun to work on it",
    };
    RequestFault::new(
        ErrorClass::Network,
        format!("`{origin}` gave no response to the request ({cause}): {begun}"),
    )
}

fn on_connect(
    error: &reqwest::Error,
    cause: &str,
    url: &Url,
    proxy: Option<&Proxy>,
    settings: &RequestSettings,
) -> RequestFault {
    let origin = origin(url);
    if error.is_timeout() {
        let target = proxy.map_or_else(
            || format!("`{origin}`"),
            |proxy| format!("the proxy {}", proxy.shown()),
        );
        return RequestFault::new(
            ErrorClass::Timeout,
            format!(
                "no connection to {target} within {} (`model.connect_timeout`): check the \
                 address and the network",
                seconds(settings.connect_timeout)
            ),
        );
    }
    if let Some(proxy) = proxy {
        return RequestFault::new(
            ErrorClass::Network,
            format!(
                "the proxy {} did not connect to `{origin}` ({cause}): check `{}`, or name the \
                 host in `NO_PROXY`",
                proxy.shown(),
                proxy.variable
            ),
        );
    }
    if error.is_dns() || chain(error).contains("dns error") {
        let fault = RequestFault::new(
            ErrorClass::Network,
            format!(
                "the host name in `{origin}` could not be resolved ({cause}): check `--base-url` \
                 and the network"
            ),
        );
        // A name server has answered that there is no such name.
        return match chain(error).contains("not known") {
            true => fault.if_address_is_right(1),
            false => fault,
        };
    }
    match io_kind(error) {
        Some(
            io::ErrorKind::InvalidInput
            | io::ErrorKind::Unsupported
            | io::ErrorKind::PermissionDenied,
        ) => RequestFault::new(
            ErrorClass::Network,
            format!("no connection can be made to `{origin}` ({cause}): check `--base-url`"),
        )
        .lasting(),
        Some(io::ErrorKind::ConnectionRefused) => {
            let fault = RequestFault::new(
                ErrorClass::Network,
                format!("nothing listens at `{origin}`: is the server running? check `--base-url`"),
            );
            // On this machine the network is not at fault: the server is not up yet, or there is
            // none. Elsewhere, a server behind a load balancer may come back.
            if is_loopback(url) {
                fault.if_address_is_right(1)
            } else {
                fault
            }
        }
        Some(io::ErrorKind::NetworkUnreachable | io::ErrorKind::HostUnreachable) => {
            RequestFault::new(
                ErrorClass::Network,
                format!(
                    "no route to `{origin}` ({cause}): is there a network? Behind a proxy, set `HTTPS_PROXY`"
                ),
            )
        }
        _ => RequestFault::new(
            ErrorClass::Network,
            format!("no connection to `{origin}`: {cause}"),
        ),
    }
}

/// The connection ended within the body.
pub(super) fn on_body(error: &reqwest::Error, origin: &str) -> RequestFault {
    RequestFault::new(
        ErrorClass::Network,
        format!(
            "`{origin}` broke off in the middle of the response ({}): check the network, and whether the server was stopped",
            root_cause(error)
        ),
    )
}

fn tls(error: &reqwest::Error, origin: &str) -> Option<RequestFault> {
    let found = find::<rustls::Error>(error)?;
    let fault = match found {
        rustls::Error::InvalidCertificate(reason) => {
            let remedy = match reason {
                // `Other`: a server uses the certificate of an authority, which a crate below
                // rustls reports.
                rustls::CertificateError::UnknownIssuer | rustls::CertificateError::Other(_) => {
                    "if you trust its authority, or if it is the server's own certificate, set `SSL_CERT_FILE` to the path of the authority's certificate"
                }
                rustls::CertificateError::Expired
                | rustls::CertificateError::ExpiredContext { .. }
                | rustls::CertificateError::NotValidYet
                | rustls::CertificateError::NotValidYetContext { .. } => {
                    "check this machine's clock, or have the certificate renewed"
                }
                rustls::CertificateError::NotValidForName
                | rustls::CertificateError::NotValidForNameContext { .. } => {
                    "check `--base-url`; a certificate names its hosts under `subjectAltName`"
                }
                _ => "check `--base-url`",
            };
            RequestFault::new(
                ErrorClass::Network,
                format!("the certificate of `{origin}` is not accepted ({found}): {remedy}"),
            )
            .lasting()
        }
        rustls::Error::InvalidMessage(_) => RequestFault::new(
            ErrorClass::Network,
            format!(
                "`{origin}` does not speak TLS ({found}): is it an `http:` server? check \
                 `--base-url`"
            ),
        )
        .lasting(),
        _ => RequestFault::new(
            ErrorClass::Network,
            format!("no TLS connection to `{origin}`: {found}"),
        ),
    };
    Some(fault)
}

/// Finds an error of type `E` among the causes; also inside `io::Error`s, which do not list theirs
/// as a cause.
fn find<'a, E: Error + 'static>(error: &'a (dyn Error + 'static)) -> Option<&'a E> {
    let mut next = Some(error);
    while let Some(current) = next {
        if let Some(found) = current.downcast_ref::<E>() {
            return Some(found);
        }
        let inner = current
            .downcast_ref::<io::Error>()
            .and_then(io::Error::get_ref)
            .and_then(|inner| find::<E>(inner));
        if inner.is_some() {
            return inner;
        }
        next = current.source();
    }
    None
}

fn io_kind(error: &reqwest::Error) -> Option<io::ErrorKind> {
    find::<io::Error>(error).map(io::Error::kind)
}

/// Whether the connection was closed before any byte of a response had arrived.
pub(super) fn is_unanswered(error: &reqwest::Error) -> bool {
    !error.is_connect() && !error.is_timeout() && is_closed(error, &chain(error))
}

fn is_closed(error: &reqwest::Error, chain: &str) -> bool {
    chain.contains("closed before message completed")
        || chain.contains("connection closed")
        || chain.contains("operation was canceled")
        || matches!(
            io_kind(error),
            Some(
                io::ErrorKind::ConnectionReset
                    | io::ErrorKind::ConnectionAborted
                    | io::ErrorKind::BrokenPipe
                    | io::ErrorKind::UnexpectedEof
            )
        )
}

/// All causes, outermost first. The client's own error is left out, because it repeats the URL.
fn chain(error: &reqwest::Error) -> String {
    let mut out = String::new();
    let mut next = error.source();
    while let Some(current) = next {
        if !out.is_empty() {
            out.push_str(": ");
        }
        out.push_str(&current.to_string());
        next = current.source();
    }
    out
}

/// The first [`MOST_SHOWN`] letters of the innermost cause, which may hold a text of the server.
fn root_cause(error: &reqwest::Error) -> String {
    let mut cause = None;
    let mut next = error.source();
    while let Some(current) = next {
        cause = Some(current);
        next = current.source();
    }
    let text = cause.map_or_else(|| "unknown cause".to_owned(), ToString::to_string);
    match text.char_indices().nth(MOST_SHOWN) {
        Some((end, _)) => format!("{}...", &text[..end]),
        None => text,
    }
}

/// Scheme, host and port: the part of a URL that messages show. Path and query may hold keys.
pub(super) fn origin(url: &Url) -> String {
    format!("{}://{}", url.scheme(), host_and_port(url))
}

/// A duration as people write it: `0.25 s`, `90 s`, `10 min`.
pub(super) fn seconds(duration: Duration) -> String {
    let seconds = duration.as_secs_f64();
    if seconds < 0.1 {
        format!("{} ms", duration.as_millis())
    } else if seconds < 10.0 {
        let text = format!("{seconds:.1}");
        format!("{} s", text.strip_suffix(".0").unwrap_or(&text))
    } else if seconds < 120.0 {
        format!("{seconds:.0} s")
    } else {
        let whole = duration.as_secs();
        match whole % 60 {
            0 => format!("{} min", whole / 60),
            rest => format!("{} min {rest} s", whole / 60),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations() {
        for (millis, expected) in [
            (0, "0 ms"),
            (50, "50 ms"),
            (250, "0.2 s"),
            (2_000, "2 s"),
            (1_500, "1.5 s"),
            (61_200, "61 s"),
            (120_000, "2 min"),
            (725_000, "12 min 5 s"),
        ] {
            assert_eq!(seconds(Duration::from_millis(millis)), expected);
        }
    }
}

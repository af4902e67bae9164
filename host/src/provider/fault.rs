//! What goes wrong between here and a server, in words that say what to do.

use std::error::Error;
use std::io;
use std::time::Duration;

use url::Url;

use super::http::origin;
use super::plain_http::is_loopback;
use super::proxy::Proxy;
use super::settings::{Limit, Settings};
use crate::roles::{ErrorClass, ModelError};

/// A request that led to no complete response.
#[derive(Debug)]
pub(super) struct Fault {
    pub class: ErrorClass,
    pub message: String,
    pub again: Again,
}

/// How often it makes sense to try again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Again {
    /// It would go wrong in the same way.
    Never,
    /// Nobody is at this address, or somebody else is: it is tried so many times more, until the
    /// address has proved right. From then on, the server behind it is what is in trouble.
    IfAddressIsRight(u32),
    /// As often as the budgets allow.
    Often,
}

impl Again {
    /// How many more attempts are worth it, if the budgets allow; none: any number. Who has asked
    /// for retries wants a server that is about to start to be waited for.
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

impl Fault {
    pub fn new(class: ErrorClass, message: impl Into<String>) -> Self {
        Self {
            class,
            message: message.into(),
            again: Again::Often,
        }
    }

    /// The same, but it would go wrong again.
    pub fn lasting(mut self) -> Self {
        self.again = Again::Never;
        self
    }

    /// The same, but a wrong address explains it: `tries` more attempts tell all.
    pub fn if_address_is_right(mut self, tries: u32) -> Self {
        self.again = Again::IfAddressIsRight(tries);
        self
    }
}

impl From<Fault> for ModelError {
    fn from(fault: Fault) -> Self {
        Self::new(fault.class, fault.message)
    }
}

/// Which of the timeouts has passed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Phase {
    Head,
    Body,
    Total,
}

/// A timeout, by the key that sets it.
pub(super) fn timeout(phase: Phase, origin: &str, limit: Limit) -> Fault {
    let what = match phase {
        Phase::Head => format!("`{origin}` sent no response within"),
        Phase::Body => {
            format!("`{origin}` was silent in the middle of its response for more than")
        }
        Phase::Total => format!("the response of `{origin}` was not complete within"),
    };
    Fault::new(
        ErrorClass::Timeout,
        format!(
            "{what} {}: is it overloaded? To wait longer, raise `{}`",
            seconds(limit.time),
            limit.key
        ),
    )
}

/// A response that is larger than the cap. It would be as large the next time.
pub(super) fn too_large(origin: &str, settings: &Settings) -> Fault {
    Fault::new(
        ErrorClass::MalformedResponse,
        format!(
            "the response of `{origin}` is larger than {} bytes: is it a model's API? To read \
             more, raise `model.max_response_bytes`",
            settings.max_response_bytes
        ),
    )
    .lasting()
}

/// A response that is packed in a way that nobody here reads.
pub(super) fn unknown_coding(origin: &str, coding: &str) -> Fault {
    Fault::new(
        ErrorClass::MalformedResponse,
        format!(
            "`{origin}` packs its response as `{coding}`, which nobody has asked for and which is \
             not read here (`gzip` and `deflate` are): switch that off there, or at a proxy before it"
        ),
    )
    .if_address_is_right(0)
}

/// A packed response that can't be unpacked.
pub(super) fn damaged(origin: &str, coding: &str) -> Fault {
    Fault::new(
        ErrorClass::MalformedResponse,
        format!(
            "the response of `{origin}` calls itself `{coding}` and can't be unpacked: is there a \
             proxy before it that changes responses?"
        ),
    )
}

/// A packed response without its end.
pub(super) fn torn(origin: &str) -> Fault {
    Fault::new(
        ErrorClass::Network,
        format!(
            "the response of `{origin}` ended in the middle of its packed body: check the network, \
             and whether the server was ended"
        ),
    )
}

/// No response's head: the request could not be sent, or nothing sensible came back.
pub(super) fn on_send(
    error: &reqwest::Error,
    url: &Url,
    proxy: Option<&Proxy>,
    settings: &Settings,
) -> Fault {
    let origin = &origin(url);
    if let Some(fault) = tls(error, origin) {
        return fault;
    }
    let cause = root_cause(error);
    if error.is_connect() {
        return on_connect(error, &cause, url, proxy, settings);
    }
    let chain = chain(error);
    if chain.contains("HTTP version parsed")
        || chain.contains("HTTP header parsed")
        || chain.contains("status-code parsed")
        || chain.contains("head is too large")
    {
        return Fault::new(
            ErrorClass::MalformedResponse,
            format!("`{origin}` does not answer in HTTP ({cause}): check `--base-url`"),
        )
        .if_address_is_right(0);
    }
    if is_closed(error, &chain) {
        return Fault::new(
            ErrorClass::Network,
            format!(
                "`{origin}` closed the connection without a response: see whether its log, or \
                 that of a proxy before it, says why"
            ),
        );
    }
    Fault::new(
        ErrorClass::Network,
        format!("the request to `{origin}` could not be sent: {cause}"),
    )
}

fn on_connect(
    error: &reqwest::Error,
    cause: &str,
    url: &Url,
    proxy: Option<&Proxy>,
    settings: &Settings,
) -> Fault {
    let origin = origin(url);
    if error.is_timeout() {
        let target = proxy.map_or_else(
            || format!("`{origin}`"),
            |proxy| format!("the proxy {}", proxy.shown()),
        );
        return Fault::new(
            ErrorClass::Timeout,
            format!(
                "no connection to {target} within {} (`model.connect_timeout`): check the \
                 address and the network",
                seconds(settings.connect_timeout)
            ),
        );
    }
    if let Some(proxy) = proxy {
        return Fault::new(
            ErrorClass::Network,
            format!(
                "the proxy {} gave no connection to `{origin}` ({cause}): check `{}`, or name the \
                 host in `NO_PROXY`",
                proxy.shown(),
                proxy.variable
            ),
        );
    }
    if error.is_dns() || chain(error).contains("dns error") {
        return Fault::new(
            ErrorClass::Network,
            format!(
                "the host name in `{origin}` could not be resolved ({cause}): check `--base-url` \
                 and the network"
            ),
        );
    }
    match io_kind(error) {
        Some(io::ErrorKind::ConnectionRefused) => {
            let fault = Fault::new(
                ErrorClass::Network,
                format!("nothing listens at `{origin}`: is the server running? check `--base-url`"),
            );
            // On this machine no network is at fault: a server is about to start, or is not
            // there. Elsewhere one may be on its way back behind a balancer.
            if is_loopback(url) {
                fault.if_address_is_right(1)
            } else {
                fault
            }
        }
        Some(io::ErrorKind::NetworkUnreachable | io::ErrorKind::HostUnreachable) => Fault::new(
            ErrorClass::Network,
            format!(
                "no route to `{origin}` ({cause}): is there a network? Behind a proxy, set `HTTPS_PROXY`"
            ),
        ),
        _ => Fault::new(
            ErrorClass::Network,
            format!("no connection to `{origin}`: {cause}"),
        ),
    }
}

/// The body ended before its end.
pub(super) fn on_body(error: &reqwest::Error, origin: &str) -> Fault {
    Fault::new(
        ErrorClass::Network,
        format!(
            "the connection to `{origin}` was lost in the middle of the response ({}): check \
             the network, and whether the server was ended",
            root_cause(error)
        ),
    )
}

fn tls(error: &reqwest::Error, origin: &str) -> Option<Fault> {
    let found = find::<rustls::Error>(error)?;
    let fault = match found {
        rustls::Error::InvalidCertificate(reason) => {
            let remedy = match reason {
                // Of another crate's: that an authority stands in a server's place.
                rustls::CertificateError::UnknownIssuer | rustls::CertificateError::Other(_) => {
                    "if its authority is your own, or the server itself, let `SSL_CERT_FILE` point \
                     to that authority's certificate"
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
            Fault::new(
                ErrorClass::Network,
                format!("the certificate of `{origin}` is not accepted ({found}): {remedy}"),
            )
            .lasting()
        }
        rustls::Error::InvalidMessage(_) => Fault::new(
            ErrorClass::Network,
            format!(
                "`{origin}` does not speak TLS ({found}): is it an `http:` server? check \
                 `--base-url`"
            ),
        )
        .lasting(),
        _ => Fault::new(
            ErrorClass::Network,
            format!("no TLS connection to `{origin}`: {found}"),
        ),
    };
    Some(fault)
}

/// Finds an error of one type among the causes; looks into `io::Error`s, which hide theirs.
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

fn is_closed(error: &reqwest::Error, chain: &str) -> bool {
    chain.contains("closed before message completed")
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

/// All causes, outermost first. The client's own layer is left out: it repeats the URL.
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

fn root_cause(error: &reqwest::Error) -> String {
    let mut cause = None;
    let mut next = error.source();
    while let Some(current) = next {
        cause = Some(current);
        next = current.source();
    }
    cause.map_or_else(|| "unknown cause".to_owned(), ToString::to_string)
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

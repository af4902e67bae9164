//! Why a server was not reached, or did not do the operation: the cause and the remedy.

use std::error::Error;
use std::io;

use hyper::StatusCode;
use mswea_helper::archive::with_causes;
use mswea_helper::protocol;

use super::wire::RUNTIME_VERSION;
use crate::failure::{MORE_FILES, lacks_files};

/// Why there is no usable answer.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RemoteFault {
    /// No connection can be made, or it was lost.
    #[error("`{url}` can't be reached: {reason}; {remedy}")]
    Unreachable {
        /// The URL of the server.
        url: String,
        /// The operation that failed.
        reason: String,
        /// The remedy.
        remedy: &'static str,
    },
    /// The server does not speak TLS as it should.
    #[error("no TLS with `{url}` ({reason}): {remedy}")]
    Tls {
        /// The URL of the server.
        url: String,
        /// The operation that failed.
        reason: String,
        /// The remedy.
        remedy: &'static str,
    },
    /// The server expects another token.
    #[error(
        "`{0}` refuses the token: `environment.token_file` or `environment.token_env` has to name the one that its `--token-file` has"
    )]
    Token(String),
    /// The answer is from another program.
    #[error(
        "what answers at `{url}` ({answer}) is no `mswea-host runtime serve`: check `environment.url`"
    )]
    Foreign {
        /// The URL of the server.
        url: String,
        /// Its answer.
        answer: String,
        /// Whether the answer may be that of a proxy whose server is away for a moment.
        passing: bool,
    },
    /// The server is of another version.
    #[error(
        "`{url}` is mswea-host {found} with another version of the protocol: install {} on both sides",
        env!("CARGO_PKG_VERSION")
    )]
    Version {
        /// The URL of the server.
        url: String,
        /// Its version.
        found: String,
    },
    /// The server does not have the session any more.
    #[error(
        "`{0}` does not have the session any more: it was started anew, or has waited for too long"
    )]
    SessionGone(String),
    /// The server refused the request.
    #[error("`{url}` refuses: {text}")]
    Refused {
        /// The URL of the server.
        url: String,
        /// The server's message.
        text: String,
    },
}

impl RemoteFault {
    /// Whether a later attempt may succeed.
    pub(super) fn is_passing(&self) -> bool {
        match self {
            Self::Unreachable { .. } => true,
            Self::Foreign { passing, .. } => *passing,
            _ => false,
        }
    }

    /// A connection that was lost, or on which no bytes come.
    pub(super) fn broken(url: &str, error: &(dyn Error + 'static)) -> Self {
        Self::Unreachable {
            url: url.to_owned(),
            reason: with_causes(error),
            remedy: "check the network, and that the server goes on",
        }
    }

    /// A connection that could not be made.
    pub(super) fn on_connect(url: &str, error: &io::Error) -> Self {
        let remedy = match error.kind() {
            _ if lacks_files(error) => MORE_FILES,
            io::ErrorKind::ConnectionRefused => {
                "is `mswea-host runtime serve` running there, on this port?"
            }
            _ => "check `environment.url` and the network",
        };
        Self::Unreachable {
            url: url.to_owned(),
            reason: error.to_string(),
            remedy,
        }
    }

    /// A TLS handshake that failed.
    pub(super) fn on_handshake(url: &str, error: &io::Error) -> Self {
        use rustls::CertificateError as Certificate;
        let found = error.get_ref().and_then(|inner| inner.downcast_ref());
        let remedy = match found {
            Some(rustls::Error::InvalidCertificate(reason)) => match reason {
                Certificate::NotValidForName | Certificate::NotValidForNameContext { .. } => {
                    "`environment.url` has to name the host as the certificate does (`subjectAltName`)"
                }
                Certificate::Expired
                | Certificate::ExpiredContext { .. }
                | Certificate::NotValidYet
                | Certificate::NotValidYetContext { .. } => {
                    "check this machine's clock, or renew the certificate"
                }
                _ => {
                    "its certificate is not trusted: set `environment.ca_file` to the certificate (PEM) of its authority, or to its own"
                }
            },
            Some(rustls::Error::InvalidMessage(_)) => {
                "it seems to serve without TLS: `environment.url` begins with `http:` then"
            }
            // The connection was lost during the handshake.
            None => return Self::on_connect(url, error),
            Some(_) => "check `environment.url`",
        };
        Self::Tls {
            url: url.to_owned(),
            reason: error.to_string(),
            remedy,
        }
    }

    /// An answer that is no success. `own`: the version of the interface if the server is one of
    /// ours.
    pub(super) fn on_answer(url: &str, status: StatusCode, own: Option<&str>, text: &str) -> Self {
        let url = url.to_owned();
        match (own, status) {
            (None, status) => Self::Foreign {
                url,
                answer: status.to_string(),
                passing: status.is_server_error(),
            },
            (_, StatusCode::UNAUTHORIZED) => Self::Token(url),
            (Some(version), _) if version != RUNTIME_VERSION => Self::Version {
                url,
                found: format!("(interface {version})"),
            },
            (_, StatusCode::NOT_FOUND) => Self::SessionGone(url),
            (_, status) => {
                let told: serde_json::Value = serde_json::from_str(text).unwrap_or_default();
                let told = told["message"].as_str().map(str::to_owned);
                let text = told.unwrap_or_else(|| status.to_string());
                Self::Refused { url, text }
            }
        }
    }

    /// A server whose helper speaks another version of the protocol; none if it is the same.
    pub(super) fn on_version(url: &str, server: &serde_json::Value) -> Option<Self> {
        if server["protocol"] == protocol::VERSION {
            return None;
        }
        Some(Self::Version {
            url: url.to_owned(),
            found: server["version"].as_str().unwrap_or("?").to_owned(),
        })
    }
}

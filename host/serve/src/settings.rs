//! The settings of a server, and the reasons why one can't be started.

use std::path::PathBuf;
use std::time::Duration;

use mswea_executor::LocalSettings;
use mswea_executor::remote::AccessToken;

/// The settings of a server.
#[derive(Clone, Debug)]
pub struct ServeSettings {
    /// The address: `127.0.0.1:8080`, `[::]:8443`; port 0 is any free port.
    pub listen: String,
    /// The token that every request must have.
    pub token: AccessToken,
    /// The files (PEM) with the certificates and the key; none: plain HTTP.
    pub tls: Option<(PathBuf, PathBuf)>,
    /// Whether plain HTTP is served to other machines, too; then every network in between can read
    /// the token.
    pub insecure: bool,
    /// The settings of every session; each has a run id of its own.
    pub local: LocalSettings,
    /// A session whose client has been silent for this long is ended.
    pub keep: Duration,
    /// Whether clients of SWE-ReX are served, too.
    pub swerex: bool,
    /// The most sessions at once.
    pub max_sessions: usize,
    /// The most connections at once.
    pub max_connections: usize,
}

/// Why a server can't be started.
#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    /// The address is invalid or can't be used.
    #[error("can't listen on `{address}`: {reason}")]
    Listen {
        /// The address as it was given.
        address: String,
        /// The reason.
        reason: String,
    },
    /// The token and the commands would be readable on the network.
    #[error(
        "`{0}` can be reached from other machines, and without TLS everybody in between can read the token: pass `--tls-cert` and `--tls-key`, listen on `127.0.0.1`, or pass `--insecure`"
    )]
    Insecure(String),
    /// The certificate or the key can't be used.
    #[error("TLS can't be set up: {0}")]
    Tls(String),
}

//! What the config layer may set about requests and retries.

use std::time::Duration;

/// A limit of time, and the key by which a message says how to change it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limit {
    /// How long.
    pub time: Duration,
    /// The config key that set it, or would.
    pub key: &'static str,
}

/// Timeouts, budgets and caps of one model.
///
/// Each field is the config key `model.NAME` of the same name: messages name the key, so that
/// whoever runs into a limit knows what to change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// Until a connection stands (name look-up, TCP and TLS together).
    pub connect_timeout: Duration,
    /// Until the head of the response has arrived, connecting included; none: as long as
    /// `total_timeout` allows.
    pub first_byte_timeout: Option<Limit>,
    /// Between two pieces of the body; none: as long as `total_timeout` allows.
    pub idle_timeout: Option<Limit>,
    /// For one attempt as a whole.
    pub total_timeout: Limit,
    /// How often a query is sent again after `rate-limited` and `overloaded`.
    pub rate_limit_retries: u32,
    /// How often a query is sent again after `timeout`, `network` and `malformed-response`.
    pub network_retries: u32,
    /// Whether somebody has asked for these retries: then a server that is not there yet is
    /// waited for, too.
    pub is_patient: bool,
    /// Largest body of a response that is read.
    pub max_response_bytes: u64,
    /// The wait before the first retry; then it doubles.
    pub retry_wait: Duration,
    /// Longest wait that this side chooses; a provider may ask for more.
    pub max_wait: Duration,
    /// Seed of the waits' jitter; none draws one.
    pub jitter_seed: Option<u64>,
}

impl Settings {
    /// The defaults: 10 s to connect, 10 minutes in all; 10 retries for rate limits, 9 for the
    /// network (ten attempts); 64 MiB; waits from 1 s to 60 s, four minutes together.
    #[must_use]
    pub fn standard() -> Self {
        Self {
            connect_timeout: Duration::from_secs(10),
            first_byte_timeout: None,
            idle_timeout: None,
            total_timeout: Limit {
                time: Duration::from_secs(600),
                key: "model.total_timeout",
            },
            rate_limit_retries: 10,
            network_retries: 9,
            is_patient: false,
            max_response_bytes: 64 * 1024 * 1024,
            retry_wait: Duration::from_secs(1),
            max_wait: Duration::from_secs(60),
            jitter_seed: None,
        }
    }
}

impl Default for Settings {
    fn default() -> Self {
        Self::standard()
    }
}

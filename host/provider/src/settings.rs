//! Settings of requests and retries.

use std::time::Duration;

/// A limit of time, and the key that messages name for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limit {
    /// How long.
    pub time: Duration,
    /// The config key that sets it.
    pub key: &'static str,
}

/// Timeouts, budgets and caps of one model.
///
/// Each field is the config key `model.NAME` of the same name: messages name the key that changes a
/// limit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RequestSettings {
    /// Until the connection is established (name look-up, TCP and TLS together).
    pub connect_timeout: Duration,
    /// Until the head of the response has arrived, including the connection; none: limited only by
    /// `total_timeout`.
    pub first_byte_timeout: Option<Limit>,
    /// Between two pieces of the body; none: limited only by `total_timeout`.
    pub idle_timeout: Option<Limit>,
    /// For one whole attempt.
    pub total_timeout: Limit,
    /// How often a query is sent again after `rate-limited` and `overloaded`.
    pub rate_limit_retries: u32,
    /// How often a query is sent again after `timeout`, `network` and `malformed-response`.
    pub network_retries: u32,
    /// Whether the user set the number of retries. If so, the host also waits for a server that is
    /// not up yet.
    pub is_patient: bool,
    /// The largest body of a response that is accepted.
    pub max_response_bytes: u64,
    /// The wait before the first retry; it doubles each time.
    pub retry_wait: Duration,
    /// The longest wait that the host chooses; a provider may ask for a longer one.
    pub max_wait: Duration,
    /// Seed of the waits' jitter; none: a random one.
    pub jitter_seed: Option<u64>,
}

impl RequestSettings {
    /// The defaults: 10 s to connect, 10 minutes for an attempt; 10 retries for rate limits, 9 for
    /// the network; 64 MiB; waits from 1 s to 60 s, about four minutes in all.
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

impl Default for RequestSettings {
    fn default() -> Self {
        Self::standard()
    }
}

//! What the config layer may set about requests and retries.

use std::time::Duration;

/// Timeouts, budgets and caps of one model.
///
/// Each field is the config key `model.NAME` of the same name: messages name the key, so that
/// whoever runs into a limit knows what to change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// Until a connection stands (name look-up, TCP and TLS together).
    pub connect_timeout: Duration,
    /// Until the head of the response has arrived, connecting included.
    pub first_byte_timeout: Duration,
    /// Between two pieces of the body.
    pub idle_timeout: Duration,
    /// For one attempt as a whole.
    pub total_timeout: Duration,
    /// How often a query is sent again after `rate-limited` and `overloaded`.
    pub rate_limit_retries: u32,
    /// How often a query is sent again after `timeout`, `network` and `malformed-response`.
    pub network_retries: u32,
    /// Largest body of a response that is read.
    pub max_response_bytes: u64,
    /// Longest wait that this side chooses; a provider may ask for more.
    pub max_wait: Duration,
    /// The wait before the first retry is drawn from up to this, then it doubles.
    pub base_wait: Duration,
    /// Seed of the waits' jitter; none draws one.
    pub jitter_seed: Option<u64>,
}

impl Settings {
    /// The defaults: 10 s to connect, 120 s to the first byte, 60 s of silence, 600 s in all;
    /// 10 retries for rate limits, 5 for the network; 64 MiB; waits from 1 s to 60 s.
    #[must_use]
    pub fn standard() -> Self {
        Self {
            connect_timeout: Duration::from_secs(10),
            first_byte_timeout: Duration::from_secs(120),
            idle_timeout: Duration::from_secs(60),
            total_timeout: Duration::from_secs(600),
            rate_limit_retries: 10,
            network_retries: 5,
            max_response_bytes: 64 * 1024 * 1024,
            max_wait: Duration::from_secs(60),
            base_wait: Duration::from_secs(1),
            jitter_seed: None,
        }
    }
}

impl Default for Settings {
    fn default() -> Self {
        Self::standard()
    }
}

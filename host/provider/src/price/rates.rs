//! The price that a user sets: four rates of one model.

use serde::{Deserialize, Serialize};

use super::tariff::{Row, Tariff};

/// Prices of one model in US dollars per million tokens; none where a rate is not set.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Rates {
    /// Input tokens that were neither read from a cache nor written to one.
    pub input: Option<f64>,
    /// Output tokens, reasoning included.
    pub output: Option<f64>,
    /// Input tokens read from the provider's cache; none: the rate of `input`.
    pub cache_read: Option<f64>,
    /// Input tokens written to the provider's cache; none: the rate of `input`.
    pub cache_write: Option<f64>,
}

impl Rates {
    /// The tariff of these rates; none if input or output has no rate.
    #[must_use]
    pub fn tariff(&self) -> Option<Tariff> {
        self.input.and(self.output)?;
        let per_token = |rate: Option<f64>| rate.map(|dollars| dollars / 1e6);
        Some(Tariff::flat(Row {
            input: per_token(self.input),
            output: per_token(self.output),
            cache_read: per_token(self.cache_read),
            cache_write: per_token(self.cache_write),
            ..Row::default()
        }))
    }
}

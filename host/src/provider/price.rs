//! What a reply costs.

use serde::{Deserialize, Serialize};

use crate::roles::Usage;

/// Prices of one model in US dollars per million tokens. What is not known is left out.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Rates {
    /// Input tokens that neither came from a cache nor went into one.
    pub input: Option<f64>,
    /// Output tokens, reasoning included.
    pub output: Option<f64>,
    /// Input tokens read from the provider's cache; as `input` if unknown.
    pub cache_read: Option<f64>,
    /// Input tokens written to the provider's cache; as `input` if unknown.
    pub cache_write: Option<f64>,
}

impl Rates {
    /// Dollars for `usage`: the provider's own figure where it reports one, else by these
    /// rates; `None` if the rates don't say.
    #[must_use]
    pub fn cost(&self, usage: &Usage) -> Option<f64> {
        // A negative or non-finite figure would corrupt the run's account for good.
        if let Some(reported) = usage.cost.filter(|cost| cost.is_finite() && *cost >= 0.0) {
            return Some(reported);
        }
        let (input, output) = (self.input?, self.output?);
        let read = self.cache_read.unwrap_or(input);
        let write = self.cache_write.unwrap_or(input);
        // Saturating, for a provider that leaves cached tokens out of its input count.
        let fresh = usage
            .input_tokens
            .saturating_sub(usage.cache_read_tokens)
            .saturating_sub(usage.cache_write_tokens);
        let dollars = tokens(fresh) * input
            + tokens(usage.cache_read_tokens) * read
            + tokens(usage.cache_write_tokens) * write
            + tokens(usage.output_tokens) * output;
        Some(dollars / 1e6).filter(|cost| cost.is_finite() && *cost >= 0.0)
    }
}

/// Token counts stay far below 2^53, where `f64` stops being exact.
#[allow(clippy::cast_precision_loss)]
fn tokens(count: u64) -> f64 {
    count as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    fn usage(input: u64, read: u64, write: u64, output: u64, cost: Option<f64>) -> Usage {
        Usage {
            input_tokens: input,
            cache_read_tokens: read,
            cache_write_tokens: write,
            output_tokens: output,
            cost,
            ..Usage::default()
        }
    }

    #[test]
    fn costs() {
        let full = Rates {
            input: Some(3.0),
            output: Some(15.0),
            cache_read: Some(0.3),
            cache_write: Some(3.75),
        };
        let plain = Rates {
            input: Some(2.0),
            output: Some(8.0),
            ..Rates::default()
        };
        let half = Rates {
            input: Some(2.0),
            ..Rates::default()
        };
        let m = 1_000_000;
        for (rates, usage, expected) in [
            (full, usage(m, 0, 0, 0, None), Some(3.0)),
            (full, usage(0, 0, 0, m, None), Some(15.0)),
            (
                full,
                usage(4 * m, m, m, m, None),
                Some(6.0 + 0.3 + 3.75 + 15.0),
            ),
            (plain, usage(4 * m, m, m, 0, None), Some(8.0)),
            // the provider's own figure wins, a nonsensical one does not
            (full, usage(m, 0, 0, 0, Some(0.5)), Some(0.5)),
            (full, usage(m, 0, 0, 0, Some(0.0)), Some(0.0)),
            (full, usage(m, 0, 0, 0, Some(-1.0)), Some(3.0)),
            (full, usage(m, 0, 0, 0, Some(f64::NAN)), Some(3.0)),
            (half, usage(m, 0, 0, 0, Some(0.5)), Some(0.5)),
            // cached tokens left out of the input count
            (full, usage(0, m, 0, 0, None), Some(0.3)),
            // unknown
            (half, usage(m, 0, 0, 0, None), None),
            (Rates::default(), usage(m, 0, 0, 0, None), None),
            (full, usage(0, 0, 0, 0, None), Some(0.0)),
        ] {
            let cost = rates.cost(&usage);
            let same = match (cost, expected) {
                (Some(a), Some(b)) => (a - b).abs() < 1e-9,
                (a, b) => a == b,
            };
            assert!(same, "{rates:?} {usage:?}: {cost:?}, not {expected:?}");
        }
    }
}

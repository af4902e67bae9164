//! The duration of calls.

use std::time::Duration;

use serde::{Deserialize, Serialize};

/// How long the calls of one side took, in seconds; none without a call.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Latency {
    /// How many calls there were.
    pub calls: u64,
    /// The duration that half of the calls did not exceed.
    pub p50: Option<f64>,
    /// The same for 90 %.
    pub p90: Option<f64>,
    /// The same for 99 %.
    pub p99: Option<f64>,
    /// The longest.
    pub max: Option<f64>,
    /// The sum.
    pub total: Option<f64>,
    /// Each call, until they are summed up.
    #[serde(skip)]
    each: Vec<f64>,
}

impl Latency {
    pub(super) fn add(&mut self, took: Duration) {
        self.calls += 1;
        self.each.push(took.as_secs_f64());
    }

    pub(super) fn merge(&mut self, other: Self) {
        self.calls += other.calls;
        self.each.extend(other.each);
    }

    /// Computes the figures, when all calls are in it.
    pub(super) fn sum_up(&mut self) {
        let mut each = std::mem::take(&mut self.each);
        each.sort_by(f64::total_cmp);
        let at = |percent: usize| {
            let calls = (each.len() * percent).div_ceil(100);
            each.get(calls.checked_sub(1)?).copied()
        };
        [self.p50, self.p90, self.p99, self.max] = [50, 90, 99, 100].map(at);
        self.total = self.max.map(|_| each.iter().sum());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_calls() {
        let mut latency = Latency::default();
        let mut other = Latency::default();
        for call in (1..=200).rev() {
            let half = if call % 2 == 0 {
                &mut latency
            } else {
                &mut other
            };
            half.add(Duration::from_secs(call));
        }
        latency.merge(other);
        latency.sum_up();
        let Latency {
            calls,
            p50,
            p90,
            p99,
            max,
            total,
            ..
        } = latency;
        assert_eq!(calls, 200);
        let found = [p50, p90, p99, max, total].map(Option::unwrap);
        assert_eq!(found, [100.0, 180.0, 198.0, 200.0, 20_100.0]);
        let mut nothing = Latency::default();
        nothing.sum_up();
        assert_eq!(nothing, Latency::default());
    }
}

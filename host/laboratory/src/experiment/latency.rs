//! The duration of calls, counted in buckets, so that memory does not grow with their number, and
//! the counts of threads and journals can be added.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

/// Bits of precision within a power of two: a bucket is 1/32 wide, so a percentile is off by
/// less than 2 %.
const BITS: u32 = 5;

/// The durations of one side's calls. Its JSON: `calls`, `p50`, `p90`, `p99`, `max`, `total` in seconds (null
/// without a call), and `buckets` (pairs of a bucket and its count).
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(from = "Value", into = "Value")]
pub struct Latency {
    buckets: BTreeMap<u16, u64>,
    calls: u64,
    total: u64,
    max: u64,
}

impl Latency {
    /// Counts one call.
    pub fn add(&mut self, took: Duration) {
        let nanos = u64::try_from(took.as_nanos()).unwrap_or(u64::MAX);
        *self.buckets.entry(bucket(nanos)).or_default() += 1;
        self.calls += 1;
        self.total = self.total.saturating_add(nanos);
        self.max = self.max.max(nanos);
    }

    /// Adds the counts of `other`.
    pub fn merge(&mut self, other: &Self) {
        for (bucket, count) in &other.buckets {
            *self.buckets.entry(*bucket).or_default() += count;
        }
        self.calls += other.calls;
        self.total = self.total.saturating_add(other.total);
        self.max = self.max.max(other.max);
    }

    /// The number of calls.
    pub fn calls(&self) -> u64 {
        self.calls
    }

    /// The sum of all durations.
    pub fn total(&self) -> Duration {
        Duration::from_nanos(self.total)
    }

    /// The longest duration.
    pub fn max(&self) -> Duration {
        Duration::from_nanos(self.max)
    }

    /// The duration that this share of the calls (0 to 1) did not exceed; zero without calls.
    pub fn quantile(&self, share: f64) -> Duration {
        #[expect(clippy::cast_precision_loss, reason = "the counts stay far below 2^53")]
        let wanted = (self.calls as f64 * share).ceil().max(1.0);
        let mut seen = 0.0;
        for (bucket, count) in &self.buckets {
            #[expect(clippy::cast_precision_loss, reason = "as above")]
            let count = *count as f64;
            seen += count;
            if seen >= wanted {
                return Duration::from_nanos(middle(*bucket).min(self.max));
            }
        }
        self.max()
    }

    /// The steps of the distribution: a duration, and the share of calls that took no longer.
    pub fn distribution(&self) -> Vec<(Duration, f64)> {
        let mut seen = 0;
        let steps = self.buckets.iter().map(|(bucket, count)| {
            seen += count;
            #[expect(clippy::cast_precision_loss, reason = "the counts stay far below 2^53")]
            let share = seen as f64 / self.calls as f64;
            (Duration::from_nanos(middle(*bucket).min(self.max)), share)
        });
        steps.collect()
    }
}

impl From<Latency> for Value {
    fn from(own: Latency) -> Self {
        // Without calls there is no duration: null, because zero would look like a measured one.
        let seconds = |duration: Duration| (own.calls > 0).then_some(duration.as_secs_f64());
        json!({
            "calls": own.calls,
            "p50": seconds(own.quantile(0.5)),
            "p90": seconds(own.quantile(0.9)),
            "p99": seconds(own.quantile(0.99)),
            "max": seconds(own.max()),
            "total": seconds(own.total()),
            "buckets": own.buckets.iter().collect::<Vec<_>>(),
        })
    }
}

impl From<Value> for Latency {
    fn from(value: Value) -> Self {
        let nanos = |key: &str| {
            let seconds = value[key].as_f64().unwrap_or_default();
            let duration = Duration::try_from_secs_f64(seconds).unwrap_or_default();
            u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
        };
        let buckets = Vec::<(u16, u64)>::deserialize(&value["buckets"]).unwrap_or_default();
        Self {
            calls: buckets.iter().map(|(_, count)| count).sum(),
            buckets: buckets.into_iter().collect(),
            total: nanos("total"),
            max: nanos("max"),
        }
    }
}

/// The bucket of a duration: its highest bits.
fn bucket(nanos: u64) -> u16 {
    if nanos < 1 << BITS {
        return nanos as u16;
    }
    let shift = 63 - nanos.leading_zeros() - BITS;
    let mantissa = (nanos >> shift) as u16;
    ((shift as u16) << BITS) + mantissa
}

/// The middle of a bucket.
fn middle(bucket: u16) -> u64 {
    let bucket = u64::from(bucket);
    if bucket < 2 << BITS {
        return bucket;
    }
    let shift = (bucket >> BITS) - 1;
    let mantissa = (bucket & ((1 << BITS) - 1)) | 1 << BITS;
    // An impossible bucket is counted as the last one.
    let low = mantissa.checked_shl(shift as u32).unwrap_or(u64::MAX >> 1);
    low.saturating_add(1_u64.checked_shl(shift as u32).unwrap_or(0) / 2)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_near_enough() {
        let mut all: Vec<u64> = (0..5_000_u64)
            .map(|n| 700 + n * n * 13 % 9_000_017)
            .collect();
        let mut latency = Latency::default();
        let mut other = Latency::default();
        for (index, nanos) in all.iter().enumerate() {
            let half = if index % 2 == 0 {
                &mut latency
            } else {
                &mut other
            };
            half.add(Duration::from_nanos(*nanos));
        }
        latency.merge(&other);
        all.sort_unstable();
        for share in [0.01, 0.5, 0.9, 0.99, 1.0] {
            let exact = all[((5_000.0 * share) as usize).max(1) - 1] as f64;
            let found = latency.quantile(share).as_nanos() as f64;
            assert!(
                (found / exact - 1.0).abs() < 0.02,
                "{share}: {found} {exact}"
            );
        }
        assert_eq!(latency.max(), Duration::from_nanos(all[4_999]));
        assert_eq!(
            latency.total().as_nanos(),
            all.iter().map(|n| u128::from(*n)).sum()
        );
        assert_eq!(Latency::from(Value::from(latency.clone())), latency);
        let steps = latency.distribution();
        assert!(steps.is_sorted());
        assert!((steps.last().unwrap().1 - 1.0).abs() < 1e-9);
    }

    #[test]
    fn every_time_has_a_bucket_of_its_size() {
        for nanos in (0..64).flat_map(|bit| [0, 1, 3].map(|more| (1_u64 << bit) + more)) {
            let middle = middle(bucket(nanos)) as f64;
            assert!(
                (middle - nanos as f64).abs() <= nanos as f64 / 32.0,
                "{nanos}"
            );
        }
        assert_eq!(Latency::default().quantile(0.5), Duration::ZERO);
        assert_eq!(Latency::from(json!({"buckets": [[65535, 1]]})).calls(), 1);
    }
}

//! The cost of a model's tokens: rates in tiers, by service tier and by the hour.
//!
//! A tariff is complete: rates that are inherited in litellm's file (a tier that names only its
//! input rate, a service tier without a cache rate) were resolved when it was read
//! ([`super::entry`]), so that the price of a reply needs one row.

use std::time::{SystemTime, UNIX_EPOCH};

use mswea_core::Usage;

/// Key of a reply's [`Usage::extra`]: tokens written to the cache for an hour, part of
/// `cache_write_tokens`.
pub const CACHE_WRITE_1H: &str = "cache_write_1h_tokens";
/// Key of a reply's [`Usage::extra`]: tokens written to the cache for twelve hours, part of
/// `cache_write_tokens`.
pub const CACHE_WRITE_12H: &str = "cache_write_12h_tokens";
/// Key of a reply's [`Usage::extra`]: the service tier that the provider reports: `default`,
/// `flex`, `priority`, ...
pub const SERVICE_TIER: &str = "service_tier";

/// Rates in dollars per token.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Row {
    /// Input tokens that were neither read from a cache nor written to one; none: free.
    pub input: Option<f64>,
    /// Output tokens; none: free.
    pub output: Option<f64>,
    /// Input tokens read from the provider's cache; none: the rate of `input`.
    pub cache_read: Option<f64>,
    /// Input tokens written to the provider's cache; none: the rate of `input`.
    pub cache_write: Option<f64>,
    /// Input tokens that the cache keeps for an hour; none: the rate of `cache_write`.
    pub cache_write_1h: Option<f64>,
    /// Input tokens that the cache keeps for twelve hours; none: the rate of `cache_write`.
    pub cache_write_12h: Option<f64>,
    /// Output tokens spent on reasoning; none: the rate of `output`.
    pub reasoning: Option<f64>,
}

/// The names of a row's columns, in the order of [`Row::columns`].
pub const COLUMNS: [&str; 7] = [
    "input",
    "output",
    "cache_read",
    "cache_write",
    "cache_write_1h",
    "cache_write_12h",
    "reasoning",
];

impl Row {
    /// The rates in the order of [`COLUMNS`].
    #[must_use]
    pub fn columns(&self) -> [Option<f64>; COLUMNS.len()] {
        [
            self.input,
            self.output,
            self.cache_read,
            self.cache_write,
            self.cache_write_1h,
            self.cache_write_12h,
            self.reasoning,
        ]
    }

    /// The row of these rates.
    #[must_use]
    pub fn of_columns(columns: [Option<f64>; COLUMNS.len()]) -> Self {
        let [
            input,
            output,
            cache_read,
            cache_write,
            cache_write_1h,
            cache_write_12h,
            reasoning,
        ] = columns;
        Self {
            input,
            output,
            cache_read,
            cache_write,
            cache_write_1h,
            cache_write_12h,
            reasoning,
        }
    }

    /// This row, with the rates of `other` where it has none.
    #[must_use]
    pub fn or(&self, other: &Self) -> Self {
        let (own, other) = (self.columns(), other.columns());
        Self::of_columns(std::array::from_fn(|index| own[index].or(other[index])))
    }

    fn cost(&self, usage: &Usage) -> f64 {
        let input = self.input.unwrap_or(0.0);
        let output = self.output.unwrap_or(0.0);
        let write = self.cache_write.unwrap_or(input);
        // Saturating and capped, because a provider may report parts that exceed their total.
        let read_tokens = usage.cache_read_tokens;
        let write_tokens = usage.cache_write_tokens;
        let fresh = usage
            .input_tokens
            .saturating_sub(read_tokens)
            .saturating_sub(write_tokens);
        let hour = counted(usage, CACHE_WRITE_1H).min(write_tokens);
        let half_day = counted(usage, CACHE_WRITE_12H).min(write_tokens - hour);
        let reasoning = usage.reasoning_tokens.min(usage.output_tokens);
        tokens(fresh) * input
            + tokens(read_tokens) * self.cache_read.unwrap_or(input)
            + tokens(write_tokens - hour - half_day) * write
            + tokens(hour) * self.cache_write_1h.unwrap_or(write)
            + tokens(half_day) * self.cache_write_12h.unwrap_or(write)
            + tokens(usage.output_tokens - reasoning) * output
            + tokens(reasoning) * self.reasoning.unwrap_or(output)
    }
}

fn counted(usage: &Usage, key: &str) -> u64 {
    usage
        .extra
        .get(key)
        .and_then(serde_json::Value::as_u64)
        .unwrap_or(0)
}

/// Token counts stay far below 2^53, where `f64` stops being exact.
#[allow(clippy::cast_precision_loss)]
fn tokens(count: u64) -> f64 {
    count as f64
}

/// Rates by the length of the input: the whole request is billed at the row of the highest tier
/// that its input reaches.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Plan(pub(super) Vec<Tier>);

/// One tier.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Tier {
    /// The least number of input tokens; 0 in the first tier.
    pub from: u64,
    /// Its rates.
    pub row: Row,
}

impl Plan {
    /// One row for every length.
    #[must_use]
    pub fn flat(row: Row) -> Self {
        Self(vec![Tier { from: 0, row }])
    }

    /// The tiers, from the shortest input up.
    #[must_use]
    pub fn tiers(&self) -> &[Tier] {
        &self.0
    }

    fn row(&self, input_tokens: u64) -> Row {
        let reached = self.0.iter().rev().find(|tier| tier.from <= input_tokens);
        reached
            .or(self.0.first())
            .map_or_else(Row::default, |tier| tier.row)
    }
}

/// Rates that replace others at some hours (DeepSeek's).
#[derive(Clone, Debug, Default, PartialEq)]
pub struct OffPeak {
    /// The replaced rates.
    pub row: Row,
    /// The hours.
    pub windows: Vec<Window>,
}

/// A span of hours on some days of the week, in UTC.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Window {
    /// Bit 0 is Monday, bit 6 Sunday.
    pub days: u8,
    /// First minute of the day.
    pub from: u16,
    /// The first minute after the span. If it is not after `from`, the span goes over midnight.
    pub to: u16,
}

impl Window {
    fn contains(self, minutes_since_1970: u64) -> bool {
        let minute = minutes_since_1970 % (24 * 60);
        // The first of January 1970 was a Thursday.
        let weekday = (minutes_since_1970 / (24 * 60) + 3) % 7;
        let (from, to) = (u64::from(self.from), u64::from(self.to));
        self.days & (1 << weekday) != 0
            && if from < to {
                (from..to).contains(&minute)
            } else {
                minute >= from || minute < to
            }
    }
}

/// All rates of a model.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Tariff {
    /// The default rates.
    pub standard: Plan,
    /// The rates of service tiers.
    pub services: Vec<(String, Plan)>,
    /// The rates of certain hours.
    pub off_peak: Option<OffPeak>,
}

impl Tariff {
    /// One row for all lengths, service tiers and hours.
    #[must_use]
    pub fn flat(row: Row) -> Self {
        Self {
            standard: Plan::flat(row),
            ..Self::default()
        }
    }

    /// The cost in dollars of `usage`, for a reply that came at the time `at`.
    #[must_use]
    pub fn cost(&self, usage: &Usage, at: SystemTime) -> Option<f64> {
        let mut row = self.plan(usage).row(usage.input_tokens);
        if let Some(off_peak) = &self.off_peak {
            let minutes = at
                .duration_since(UNIX_EPOCH)
                .map_or(0, |since| since.as_secs() / 60);
            let open = off_peak.windows.iter().any(|w| w.contains(minutes));
            if open {
                row = off_peak.row.or(&row);
            }
        }
        Some(row.cost(usage)).filter(|cost| cost.is_finite() && *cost >= 0.0)
    }

    fn plan(&self, usage: &Usage) -> &Plan {
        let served = usage.extra.get(SERVICE_TIER).and_then(|tier| tier.as_str());
        let served = match served {
            // OpenAI's newer name for the same rates.
            Some("fast") => "priority",
            Some(other) => other,
            None => return &self.standard,
        };
        self.services
            .iter()
            .find(|(name, _)| name.eq_ignore_ascii_case(served))
            .map_or(&self.standard, |(_, plan)| plan)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use serde_json::json;

    use super::*;

    fn usage(counts: [u64; 5], extra: serde_json::Value) -> Usage {
        let [input, read, write, output, reasoning] = counts;
        Usage {
            input_tokens: input,
            cache_read_tokens: read,
            cache_write_tokens: write,
            output_tokens: output,
            reasoning_tokens: reasoning,
            extra: extra.as_object().cloned().unwrap_or_default(),
            ..Usage::default()
        }
    }

    fn row(columns: [f64; 7]) -> Row {
        Row::of_columns(columns.map(Some))
    }

    #[test]
    fn every_token_has_its_rate() {
        let all = row([1.0, 10.0, 100.0, 1e3, 1e4, 1e5, 1e6]);
        let two = Row {
            input: Some(1.0),
            output: Some(10.0),
            ..Row::default()
        };
        let write = Row {
            cache_write: Some(7.0),
            ..two
        };
        let none = json!(null);
        let ttl = json!({CACHE_WRITE_1H: 2, CACHE_WRITE_12H: 1});
        for (row, counts, extra, expected) in [
            (
                all,
                [9, 2, 4, 5, 3],
                none.clone(),
                3.0 + 200.0 + 4e3 + 20.0 + 3e6,
            ),
            (
                all,
                [9, 2, 4, 5, 0],
                ttl.clone(),
                3.0 + 200.0 + 1e3 + 2e4 + 1e5 + 50.0,
            ),
            // a count without a rate of its own is billed at the rate of its kind
            (two, [9, 2, 4, 5, 3], ttl.clone(), 9.0 + 50.0),
            (write, [9, 2, 4, 0, 0], ttl, 5.0 + 28.0),
            // parts that exceed their total
            (two, [1, 2, 0, 1, 9], none.clone(), 2.0 + 10.0),
            (all, [4, 0, 4, 0, 0], json!({CACHE_WRITE_1H: 9}), 4e4),
            (all, [4, 0, 4, 0, 0], json!({CACHE_WRITE_1H: "x"}), 4e3),
            (Row::default(), [9, 2, 4, 5, 3], none, 0.0),
        ] {
            let cost = row.cost(&usage(counts, extra.clone()));
            assert!((cost - expected).abs() < 1e-9, "{counts:?} {extra}: {cost}");
        }
    }

    fn input(rate: f64) -> Row {
        Row {
            input: Some(rate),
            ..Row::default()
        }
    }

    #[test]
    fn the_longest_tier_that_is_reached_bills_everything() {
        let mut tariff = Tariff::flat(input(1.0));
        for (from, rate) in [(101, 2.0), (201, 3.0)] {
            let row = input(rate);
            tariff.standard.0.push(Tier { from, row });
        }
        for (tokens, cost) in [
            (0, 0.0),
            (100, 100.0),
            (101, 202.0),
            (200, 400.0),
            (300, 900.0),
        ] {
            let usage = usage([tokens, 0, 0, 0, 0], json!(null));
            assert_eq!(tariff.cost(&usage, UNIX_EPOCH), Some(cost), "{tokens}");
        }
    }

    #[test]
    fn the_service_tier_that_was_served_decides() {
        let mut tariff = Tariff::flat(input(1.0));
        for (name, rate) in [("flex", 0.5), ("priority", 2.0)] {
            tariff.services.push((name.into(), Plan::flat(input(rate))));
        }
        for (tier, cost) in [
            (json!("flex"), 5.0),
            (json!("Flex"), 5.0),
            (json!("priority"), 20.0),
            (json!("fast"), 20.0),
            (json!("default"), 10.0),
            (json!("scale"), 10.0),
            (json!(null), 10.0),
        ] {
            let usage = usage([10, 0, 0, 0, 0], json!({SERVICE_TIER: tier}));
            assert_eq!(tariff.cost(&usage, UNIX_EPOCH), Some(cost), "{tier}");
        }
    }

    #[test]
    fn off_peak_rates_hold_in_their_windows() {
        let window = |days, from, to| Window { days, from, to };
        let tariff = Tariff {
            off_peak: Some(OffPeak {
                row: input(0.5),
                windows: vec![
                    window(0b001_1111, 22 * 60, 2 * 60),
                    window(0b001_1111, 240, 360),
                    window(0b110_0000, 0, 0),
                ],
            }),
            ..Tariff::flat(Row {
                output: Some(10.0),
                cache_read: Some(0.25),
                ..input(1.0)
            })
        };
        // Friday, the 20th of November 2026
        let friday = 1_795_132_800;
        for (hour, minute, cheap) in [
            (0, 0, true),
            (1, 59, true),
            (2, 0, false),
            (3, 59, false),
            (4, 0, true),
            (6, 0, false),
            (21, 59, false),
            (22, 0, true),
            (24 + 12, 0, true),
            (48 + 23, 59, true),
            (72 + 12, 0, false),
        ] {
            let at = UNIX_EPOCH + Duration::from_secs(friday + hour * 3600 + minute * 60);
            let usage = usage([10, 2, 0, 1, 0], json!(null));
            let expected = if cheap { 4.0 } else { 8.0 } + 0.5 + 10.0;
            assert_eq!(tariff.cost(&usage, at), Some(expected), "{hour}:{minute}");
        }
    }
}

//! One model's entry in a price file of litellm's format.
//!
//! Missing rates are inherited: a tier without a cache rate has that of the tier below, a service
//! tier without a rate has the standard one. This module resolves them as litellm's
//! `generic_cost_per_token` does; `tests/tooling/prices.py` compares the results with litellm's.

use serde_json::{Map, Value};

use super::tariff::{COLUMNS, OffPeak, Plan, Row, Tariff, Tier, Window};

/// Why an entry can't be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum EntryError {
    /// It is not an object.
    #[error("it is not an object: write it as `{{\"input_cost_per_token\": 1e-06, ...}}`")]
    NoObject,
    /// A rate is not a number of dollars.
    #[error(
        "`{key}` is {value}, which is not a price: give dollars per token, for example `1.5e-06`"
    )]
    Rate {
        /// Its key.
        key: String,
        /// Its value.
        value: String,
    },
    /// Tiers or hours in an unknown form.
    #[error(
        "`{key}` has a form that this version does not know: leave it out, or update mswea-host"
    )]
    Shape {
        /// Its key.
        key: &'static str,
    },
}

/// litellm's keys for the rates of a row.
const KEYS: [&str; COLUMNS.len()] = [
    INPUT,
    OUTPUT,
    "cache_read_input_token_cost",
    "cache_creation_input_token_cost",
    "cache_creation_input_token_cost_above_1hr",
    "cache_creation_input_token_cost_above_12hr",
    REASONING,
];
const INPUT: &str = "input_cost_per_token";
const OUTPUT: &str = "output_cost_per_token";
const REASONING: &str = "output_cost_per_reasoning_token";

/// How many of the first [`KEYS`] define tiers. The other keys are read only for tiers that these
/// define.
const OPENING: usize = 4;

/// Service tiers that may have rates of their own.
pub(super) const SERVICES: [&str; 4] = ["flex", "balanced", "priority", "ultrafast"];

/// litellm's rate for cached tokens of Fireworks models whose entry has none, as a part of the
/// input rate.
const FIREWORKS_CACHED: f64 = 0.5;

/// The provider of the model, by litellm's name.
pub fn provider(entry: &Map<String, Value>) -> Option<&str> {
    entry.get("litellm_provider").and_then(Value::as_str)
}

/// The tariff that an entry gives; none if it has no price per token.
///
/// # Errors
/// [`EntryError`] if a rate is not a number, or tiers have an unknown form.
pub fn tariff(entry: &Value) -> Result<Option<Tariff>, EntryError> {
    let entry = PriceEntry(entry.as_object().ok_or(EntryError::NoObject)?);
    let tiers = entry.tier_list()?;
    let standard = entry.plan(None)?;
    let first = standard.0[0].row;
    if first.input.or(first.output).is_none() && tiers.is_none() {
        return Ok(None);
    }
    let free = |row: &Row| row.columns().into_iter().flatten().all(|rate| rate == 0.0);
    if tiers.is_none() && standard.0.iter().all(|tier| free(&tier.row)) && entry.by_the_second() {
        return Ok(None);
    }
    let mut services = Vec::new();
    // Entries with a list of tiers have no service tiers.
    if tiers.is_none() {
        for name in SERVICES {
            let suffix = format!("_{name}");
            if entry.0.keys().any(|key| key.ends_with(&suffix)) {
                let plan = entry.plan(Some(&suffix))?;
                if plan != standard {
                    services.push((name.to_owned(), plan));
                }
            }
        }
    }
    Ok(Some(Tariff {
        standard: tiers.unwrap_or(standard),
        services,
        off_peak: entry.off_peak()?,
    }))
}

struct PriceEntry<'a>(&'a Map<String, Value>);

impl PriceEntry<'_> {
    fn rate(&self, key: &str) -> Result<Option<f64>, EntryError> {
        rate(self.0, key)
    }

    /// Whether it is billed by time and not by token.
    fn by_the_second(&self) -> bool {
        [
            "cost_per_second",
            "input_cost_per_second",
            "output_cost_per_second",
        ]
        .iter()
        .any(|key| matches!(self.rate(key), Ok(Some(rate)) if rate > 0.0))
    }

    /// The rates of the keys that end in `suffix`, with the standard ones where these are missing.
    fn plan(&self, suffix: Option<&str>) -> Result<Plan, EntryError> {
        let own = |key: &str| match suffix {
            Some(suffix) => self.rate(&format!("{key}{suffix}")),
            None => Ok(None),
        };
        let mut columns = [None; COLUMNS.len()];
        for (column, key) in columns.iter_mut().zip(KEYS) {
            *column = match own(key)? {
                Some(rate) => Some(rate),
                // A service tier with an output rate bills reasoning tokens at that rate.
                None if key == REASONING && own(OUTPUT)?.is_some() => None,
                None => self.rate(key)?,
            };
        }
        let provider = provider(self.0);
        match provider {
            Some("fireworks_ai") => {
                columns[2] = columns[2].or(columns[0].map(|input| input * FIREWORKS_CACHED));
            }
            Some("xai") => columns[6] = None,
            Some("perplexity") => {
                columns[2..6].fill(None);
                return Ok(Plan::flat(Row::of_columns(columns)));
            }
            _ => {}
        }
        let mut tiers = vec![Tier {
            from: 0,
            row: Row::of_columns(columns),
        }];
        for (threshold, name) in self.thresholds(suffix.unwrap_or_default()) {
            for (index, key) in KEYS.iter().enumerate() {
                let key = format!("{key}_above_{name}_tokens");
                let rate = match own(&key)? {
                    Some(rate) => Some(rate),
                    // litellm takes rates of long-lived cache entries only from the same service
                    // tier.
                    None if suffix.is_some() && index >= OPENING => None,
                    None => self.rate(&key)?,
                };
                columns[index] = rate.or(columns[index]);
            }
            tiers.push(Tier {
                // "Above" excludes the threshold, except for xAI.
                from: threshold + u64::from(provider != Some("xai")),
                row: Row::of_columns(columns),
            });
        }
        Ok(Plan(tiers))
    }

    /// The thresholds of tiers in ascending order: `200k` in
    /// `input_cost_per_token_above_200k_tokens`.
    fn thresholds(&self, suffix: &str) -> Vec<(u64, &str)> {
        let mut found = Vec::new();
        for key in self.0.keys() {
            let Some((base, rest)) = key.rsplit_once("_above_") else {
                continue;
            };
            let Some((name, ending)) = rest.split_once("_tokens") else {
                continue;
            };
            if !KEYS[..OPENING].contains(&base) || !(ending.is_empty() || ending == suffix) {
                continue;
            }
            let count = match name.strip_suffix('k') {
                Some(thousands) => thousands
                    .parse::<u64>()
                    .ok()
                    .and_then(|n| n.checked_mul(1000)),
                None => name.parse().ok(),
            };
            if let Some(count) = count.filter(|count| *count < u64::MAX) {
                found.push((count, name));
            }
        }
        found.sort_unstable();
        found.dedup();
        found
    }

    /// `tiered_pricing`: a list of rows, each for a range of input lengths.
    fn tier_list(&self) -> Result<Option<Plan>, EntryError> {
        const KEY: &str = "tiered_pricing";
        const SHAPE: EntryError = EntryError::Shape { key: KEY };
        let list = match self.0.get(KEY) {
            None | Some(Value::Null) => return Ok(None),
            Some(list) => list.as_array().ok_or(SHAPE)?,
        };
        let mut tiers = Vec::new();
        for tier in list {
            let tier = tier.as_object().ok_or(SHAPE)?;
            let Some(range) = tier.get("range") else {
                // Rates of searches, by the number of results.
                continue;
            };
            let above = range.get(0).and_then(Value::as_f64).ok_or(SHAPE)?;
            if !(0.0..1e15).contains(&above) || rate(tier, INPUT)?.is_none() {
                return Err(SHAPE);
            }
            let mut columns = [None; COLUMNS.len()];
            for (column, key) in columns.iter_mut().zip(KEYS) {
                *column = rate(tier, key)?;
            }
            if columns[1].is_none() {
                columns[6] = columns[6].or(self.rate(REASONING)?);
                columns[1] = self.rate(OUTPUT)?;
            }
            #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // checked above
            let above = above as u64;
            tiers.push(Tier {
                from: if above == 0 { 0 } else { above + 1 },
                row: Row::of_columns(columns),
            });
        }
        tiers.sort_by_key(|tier| tier.from);
        Ok((!tiers.is_empty()).then_some(Plan(tiers)))
    }

    /// `off_peak_pricing`: lower rates at some hours.
    fn off_peak(&self) -> Result<Option<OffPeak>, EntryError> {
        const KEY: &str = "off_peak_pricing";
        const SHAPE: EntryError = EntryError::Shape { key: KEY };
        let block = match self.0.get(KEY) {
            None | Some(Value::Null) => return Ok(None),
            Some(block) => block.as_object().ok_or(SHAPE)?,
        };
        let mut columns = [None; COLUMNS.len()];
        for (column, key) in columns.iter_mut().zip(KEYS) {
            *column = rate(block, key)?;
        }
        let mut windows = Vec::new();
        if let Some(hours) = block.get("hours_utc") {
            windows.extend(spans(hours, EVERY_DAY).ok_or(SHAPE)?);
        }
        for rule in block
            .get("windows")
            .and_then(Value::as_array)
            .into_iter()
            .flatten()
        {
            let days = match rule.get("weekdays") {
                None | Some(Value::Null) => EVERY_DAY,
                Some(days) => weekdays(days).ok_or(SHAPE)?,
            };
            let hours = rule.get("hours_utc").ok_or(SHAPE)?;
            windows.extend(spans(hours, days).ok_or(SHAPE)?);
        }
        Ok(Some(OffPeak {
            row: Row::of_columns(columns),
            windows,
        }))
    }
}

const EVERY_DAY: u8 = 0b111_1111;

fn rate(map: &Map<String, Value>, key: &str) -> Result<Option<f64>, EntryError> {
    let value = match map.get(key) {
        None | Some(Value::Null) => return Ok(None),
        Some(value) => value,
    };
    let number = match value {
        Value::Number(number) => number.as_f64(),
        // YAML reads `4e-07` as text, and some registries are made from YAML.
        Value::String(text) => text.trim().parse().ok(),
        _ => None,
    };
    match number {
        Some(rate) if rate.is_finite() && rate >= 0.0 => Ok(Some(rate)),
        _ => Err(EntryError::Rate {
            key: key.to_owned(),
            value: shown(value),
        }),
    }
}

/// A value that is not a rate, shortened for a message.
fn shown(value: &Value) -> String {
    match value {
        Value::Array(_) => "a list".to_owned(),
        Value::Object(_) => "an object".to_owned(),
        other => {
            let text: String = other.to_string().chars().take(40).collect();
            format!("`{text}`")
        }
    }
}

fn weekdays(days: &Value) -> Option<u8> {
    const NAMES: [&str; 7] = ["mon", "tue", "wed", "thu", "fri", "sat", "sun"];
    let mut bits = 0;
    for day in days.as_array()? {
        let index = match day {
            Value::String(name) => {
                let name = name.trim().to_ascii_lowercase();
                NAMES.iter().position(|known| name.starts_with(known))?
            }
            day => usize::try_from(day.as_u64()?.checked_sub(1)?).ok()?,
        };
        bits |= 1_u8
            .checked_shl(u32::try_from(index).ok()?)
            .filter(|_| index < 7)?;
    }
    Some(bits)
}

/// `"16:30-00:30"`, or a list of such spans.
fn spans(hours: &Value, days: u8) -> Option<Vec<Window>> {
    let one = |text: &Value| {
        let (from, to) = text.as_str()?.split_once('-')?;
        Some(Window {
            days,
            from: minute(from)?,
            to: minute(to)?,
        })
    };
    match hours {
        Value::Array(list) => list.iter().map(one).collect(),
        text => one(text).map(|window| vec![window]),
    }
}

fn minute(text: &str) -> Option<u16> {
    let (hour, minute) = text.trim().split_once(':')?;
    let (hour, minute): (u16, u16) = (hour.parse().ok()?, minute.parse().ok()?);
    (hour < 24 && minute < 60).then_some(hour * 60 + minute)
}

#[cfg(test)]
mod tests;

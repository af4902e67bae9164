//! Prices against litellm's; the vectors are made by `tests/tooling/prices.py`.

use std::collections::HashMap;
use std::time::{Duration, UNIX_EPOCH};

use serde::Deserialize;
use serde_json::json;

use super::{CACHE_WRITE_1H, PriceQuery, PriceSources, Quote, SERVICE_TIER};
use mswea_core::Usage;

#[derive(Debug, Deserialize)]
struct Vector {
    provider: String,
    model: String,
    /// Counts of tokens: input, read from the cache, written to it, written to it for an hour,
    /// output, reasoning.
    usage: [u64; 6],
    /// Unix seconds.
    at: u64,
    tier: Option<String>,
    cost: Option<f64>,
}

impl Vector {
    fn quote(&self) -> Option<Quote> {
        let wanted = PriceQuery::new(Some(&self.provider), &self.model);
        PriceSources::default().find(&wanted).unwrap().quote
    }

    fn our_cost(&self, quote: &Quote) -> Option<f64> {
        let [input, read, write, hour, output, reasoning] = self.usage;
        let mut usage = Usage {
            input_tokens: input,
            cache_read_tokens: read,
            cache_write_tokens: write,
            output_tokens: output,
            reasoning_tokens: reasoning,
            ..Usage::default()
        };
        usage.extra.insert(CACHE_WRITE_1H.into(), hour.into());
        usage.extra.insert(SERVICE_TIER.into(), json!(self.tier));
        let at = UNIX_EPOCH + Duration::from_secs(self.at);
        quote.tariff.cost(&usage, at)
    }

    /// Why the result differs from litellm's on purpose; none: the two must be equal.
    fn differs(&self) -> Option<&'static str> {
        let is = |providers: &[&str]| providers.contains(&self.provider.as_str());
        if self.tier.is_some() && is(SERVED_AT_ANY_TIER) {
            return Some("litellm bills every service tier of this provider at the standard rates");
        }
        if self.model == "togethercomputer/CodeLlama-34b-Instruct" {
            return Some("litellm guesses the price from the size in the name");
        }
        if self.model == "perplexity/sonar" {
            return Some("litellm uses the price of Perplexity's own model of a similar name");
        }
        None
    }
}

/// Providers whose service tiers litellm's cost functions ignore, although its price file has rates
/// for these tiers.
const SERVED_AT_ANY_TIER: &[&str] = &["fireworks_ai"];

#[test]
fn prices_are_those_of_litellm() {
    let (text, whole) = match std::env::var("MSWEA_PRICE_VECTORS") {
        Ok(path) => (std::fs::read_to_string(path).unwrap(), true),
        Err(_) => (include_str!("vectors.jsonl").to_owned(), false),
    };
    let vectors: Vec<Vector> = text
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    assert!(vectors.len() >= 500, "{}", vectors.len());
    let mut wrong = Vec::new();
    let mut quotes = HashMap::new();
    for vector in &vectors {
        let quote = quotes
            .entry((&vector.provider, &vector.model))
            .or_insert_with(|| vector.quote());
        let ours = quote.as_ref().and_then(|quote| vector.our_cost(quote));
        let same = match (ours, vector.cost) {
            (Some(ours), Some(theirs)) => (ours - theirs).abs() <= 1e-9 * theirs.max(1e-6),
            // mini-swe-agent treats a cost of 0 like a missing price.
            (None, theirs) => theirs.is_none_or(|cost| cost == 0.0),
            (Some(_), None) => false,
        };
        if !same && vector.differs().is_none() {
            wrong.push(format!("{vector:?}: {ours:?}"));
        }
    }
    assert!(
        wrong.is_empty(),
        "{} of {} differ (whole table: {whole}):\n{}",
        wrong.len(),
        vectors.len(),
        wrong.join("\n")
    );
}

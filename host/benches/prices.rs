//! The size of the table of prices, and the time to find a price.
//!
//! `cargo bench --bench prices`

#![allow(clippy::unwrap_used, reason = "a benchmark that can't measure ends")]

mod shared;

use std::hint::black_box;
use std::process::ExitCode;
use std::time::SystemTime;

use mswea_host::provider::PriceQuery;
use mswea_host::provider::price::{BUILT_IN, PriceSources};
use mswea_host::roles::Usage;
use shared::{Samples, Table, timed};

const ROUNDS: usize = 200;

fn main() -> ExitCode {
    // The search of a process's first run unpacks the table, and the later runs share it.
    let sources = PriceSources::default();
    let known = PriceQuery::new(Some("anthropic"), "claude-sonnet-4-5-20250929");
    let unknown = PriceQuery::new(Some("openai"), "no-such-model-2026-01-01");
    let (first, cold) = timed(|| sources.find(&known).unwrap());
    let quote = first.quote.unwrap();
    let (mut found, mut missed, mut priced) =
        (Samples::default(), Samples::default(), Samples::default());
    let usage = Usage {
        input_tokens: 250_000,
        cache_read_tokens: 200_000,
        output_tokens: 1_000,
        ..Usage::default()
    };
    for _ in 0..ROUNDS {
        found.add_millis(timed(|| black_box(sources.find(&known).unwrap())).1);
        missed.add_millis(timed(|| black_box(sources.find(&unknown).unwrap())).1);
        let cost = || black_box(quote.tariff.cost(black_box(&usage), SystemTime::UNIX_EPOCH));
        priced.add_micros(timed(cost).1, 1);
    }

    let mut table = Table::new("prices");
    #[allow(clippy::cast_precision_loss)] // kilobytes, for the eye
    let bytes = BUILT_IN.len() as f64 / 1e3;
    table.limited("the table in the binary", "KB", &bytes.into(), 200.0);
    table.limited(
        "finding a price at start-up, the first time",
        "ms",
        &(cold.as_secs_f64() * 1e3).into(),
        1.0,
    );
    table.limited("finding a price", "ms", &found, 1.0);
    table.limited("finding that there is none", "ms", &missed, 1.0);
    table.noted("pricing a reply", "µs", &priced);
    table.finish()
}

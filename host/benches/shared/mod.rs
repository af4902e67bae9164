//! Shared by the benchmarks: samples, and the table of figures and limits.
//!
//! A figure above its limit is printed as `OVER` and is not a failure, because the machine may be
//! busy. With `MSWEA_BENCH_STRICT=1` it is a failure.

#![allow(dead_code, reason = "each benchmark uses a part of it")]

pub mod agent;
pub mod bare;
pub mod ship;
pub mod story;

use std::fmt::Write as _;
use std::io::Write as _;
use std::process::ExitCode;
use std::time::{Duration, Instant};

/// Values of one figure, in the figure's unit.
#[derive(Clone, Debug, Default)]
pub struct Samples(Vec<f64>);

impl Samples {
    /// Adds a value.
    pub fn add(&mut self, value: f64) {
        self.0.push(value);
    }

    /// Adds a duration in microseconds, divided by `count` operations.
    pub fn add_micros(&mut self, took: Duration, count: usize) {
        #[allow(clippy::cast_precision_loss)] // counts of operations
        self.add(took.as_secs_f64() * 1e6 / count as f64);
    }

    /// Adds a duration in milliseconds.
    pub fn add_millis(&mut self, took: Duration) {
        self.add(took.as_secs_f64() * 1e3);
    }

    /// All together.
    pub fn sum(&self) -> f64 {
        self.0.iter().sum()
    }

    /// The middle value.
    pub fn p50(&self) -> f64 {
        let mut sorted = self.0.clone();
        sorted.sort_by(f64::total_cmp);
        sorted.get(sorted.len() / 2).copied().unwrap_or(f64::NAN)
    }

    /// The least value.
    pub fn min(&self) -> f64 {
        self.0.iter().copied().fold(f64::INFINITY, f64::min)
    }
}

impl From<f64> for Samples {
    fn from(value: f64) -> Self {
        Self(vec![value])
    }
}

impl FromIterator<f64> for Samples {
    fn from_iter<T: IntoIterator<Item = f64>>(values: T) -> Self {
        Self(values.into_iter().collect())
    }
}

/// Times one call.
pub fn timed<T>(work: impl FnOnce() -> T) -> (T, Duration) {
    let started = Instant::now();
    let value = work();
    (value, started.elapsed())
}

/// The figures of one benchmark, each printed when it is known.
pub struct Table {
    over: bool,
}

/// The widths of the columns: figure, measured, limit.
const WIDTHS: [usize; 3] = [64, 22, 12];

impl Table {
    /// An empty table.
    pub fn new(title: &str) -> Self {
        print(&format!("\n{title}"));
        row(["figure", "measured (p50, min)", "limit", ""]);
        Self { over: false }
    }

    /// Prints a figure with an upper limit for its median.
    pub fn limited(&mut self, figure: &str, unit: &str, samples: &Samples, limit: f64) {
        let fits = samples.p50() <= limit;
        self.over |= !fits;
        let verdict = if fits { "ok" } else { "OVER" };
        let limit = format!("≤ {limit} {unit}");
        row([figure, &shown(samples, unit), &limit, verdict]);
    }

    /// Prints a figure with a lower limit for its median.
    pub fn at_least(&mut self, figure: &str, unit: &str, samples: &Samples, limit: f64) {
        let fits = samples.p50() >= limit;
        self.over |= !fits;
        let verdict = if fits { "ok" } else { "UNDER" };
        let limit = format!("≥ {limit} {unit}");
        row([figure, &shown(samples, unit), &limit, verdict]);
    }

    /// Prints a figure without a limit.
    pub fn noted(&mut self, figure: &str, unit: &str, samples: &Samples) {
        row([figure, &shown(samples, unit), "", ""]);
    }

    /// Prints a line between the figures: a remark, or the current measurement.
    pub fn note(&mut self, text: impl AsRef<str>) {
        note(text.as_ref());
    }

    /// Whether the program has succeeded.
    pub fn finish(self) -> ExitCode {
        let strict = std::env::var_os("MSWEA_BENCH_STRICT").is_some_and(|value| value == "1");
        if strict && self.over {
            ExitCode::FAILURE
        } else {
            ExitCode::SUCCESS
        }
    }
}

/// As [`Table::note`], from any thread.
pub fn note(text: &str) {
    print(&format!("    {text}"));
}

fn row(cells: [&str; 4]) {
    let mut line = String::from("  ");
    for (width, cell) in WIDTHS.into_iter().chain([0]).zip(cells) {
        let _ = write!(line, "{cell:width$}   ");
    }
    print(line.trim_end());
}

/// Prints a line. A closed pipe is not an error.
fn print(line: &str) {
    let mut out = std::io::stdout().lock();
    let _ = writeln!(out, "{line}").and_then(|()| out.flush());
}

fn shown(samples: &Samples, unit: &str) -> String {
    let number = |value: f64| {
        if value >= 100.0 {
            format!("{value:.0}")
        } else if value >= 10.0 {
            format!("{value:.1}")
        } else {
            format!("{value:.2}")
        }
    };
    let middle = number(samples.p50());
    if samples.0.len() < 2 {
        return format!("{middle} {unit}");
    }
    format!("{middle} {unit} ({})", number(samples.min()))
}

//! What the benchmarks share: samples, and the table in which each figure stands beside its
//! limit.
//!
//! A figure over its limit is printed as `OVER` and is no failure: these are measurements, and
//! the machine may be busy. `MSWEA_BENCH_STRICT=1` makes it one.

#![allow(dead_code, reason = "each benchmark uses a part of it")]

pub mod agent;
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

    /// Adds a duration in microseconds, shared out over `count` operations.
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

/// The figures of one benchmark.
pub struct Table {
    title: &'static str,
    rows: Vec<[String; 4]>,
    notes: Vec<String>,
    over: bool,
}

impl Table {
    /// An empty table.
    pub fn new(title: &'static str) -> Self {
        Self {
            title,
            rows: Vec::new(),
            notes: Vec::new(),
            over: false,
        }
    }

    /// A figure with a limit; its middle value is what counts.
    pub fn limited(&mut self, figure: &str, unit: &str, samples: &Samples, limit: f64) {
        let fits = samples.p50() <= limit;
        self.over |= !fits;
        let verdict = if fits { "ok" } else { "OVER" };
        self.rows.push([
            figure.to_owned(),
            shown(samples, unit),
            format!("≤ {limit} {unit}"),
            verdict.to_owned(),
        ]);
    }

    /// A figure without one.
    pub fn noted(&mut self, figure: &str, unit: &str, samples: &Samples) {
        self.rows.push([
            figure.to_owned(),
            shown(samples, unit),
            String::new(),
            String::new(),
        ]);
    }

    /// A line below the table.
    pub fn note(&mut self, text: impl Into<String>) {
        self.notes.push(text.into());
    }

    /// Prints the table.
    pub fn finish(self) -> ExitCode {
        let heads = ["figure", "measured (p50, min)", "limit", ""];
        let mut widths = heads.map(str::len);
        for row in &self.rows {
            for (width, cell) in widths.iter_mut().zip(row) {
                *width = (*width).max(cell.chars().count());
            }
        }
        let mut text = format!("\n{}\n", self.title);
        for row in std::iter::once(&heads.map(str::to_owned)).chain(&self.rows) {
            let mut line = String::from("  ");
            for (width, cell) in widths.iter().zip(row) {
                let _ = write!(line, "{cell:width$}   ");
            }
            let _ = writeln!(text, "{}", line.trim_end());
        }
        for note in &self.notes {
            let _ = writeln!(text, "  {note}");
        }
        // A reader that closed the pipe has seen enough.
        let _ = std::io::stdout().write_all(text.as_bytes());
        let strict = std::env::var_os("MSWEA_BENCH_STRICT").is_some_and(|value| value == "1");
        if strict && self.over {
            ExitCode::FAILURE
        } else {
            ExitCode::SUCCESS
        }
    }
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

//! The lines about a batch that `batch run` and `batch watch` share.

use std::collections::VecDeque;
use std::fmt::Write as _;
use std::time::{Duration, Instant};

use super::words::dollars_text;

/// The time over which the rate is measured.
const RECENT: Duration = Duration::from_secs(300);
const BAR: usize = 30;

/// The number of results per time.
#[derive(Debug, Default)]
pub(in crate::cli) struct ResultRate(VecDeque<(Instant, usize)>);

impl ResultRate {
    /// Records that there are `done` results now.
    pub(in crate::cli) fn see(&mut self, done: usize) {
        self.0.push_back((Instant::now(), done));
        while self.0.len() > 2 && self.0.front().is_some_and(|it| it.0.elapsed() > RECENT) {
            self.0.pop_front();
        }
    }

    /// Results per second; none if there are too few for an estimate.
    #[allow(clippy::cast_precision_loss, reason = "a figure for people")]
    pub(in crate::cli) fn per_second(&self) -> Option<f64> {
        let (first, last) = (self.0.front()?, self.0.back()?);
        let seconds = last.0.duration_since(first.0).as_secs_f64();
        (last.1 > first.1 && seconds > 0.0).then(|| (last.1 - first.1) as f64 / seconds)
    }
}

/// A sum of costs, some of which may be unknown.
#[derive(Clone, Copy, Debug, Default)]
pub(in crate::cli) struct CostSum {
    /// The sum of the known costs.
    pub(in crate::cli) dollars: f64,
    pub(in crate::cli) count: usize,
    pub(in crate::cli) unknown: usize,
}

impl CostSum {
    pub(in crate::cli) fn add(&mut self, cost: Option<f64>) {
        self.dollars += cost.unwrap_or_default();
        self.count += 1;
        self.unknown += usize::from(cost.is_none());
    }

    /// The sum; none if no cost is known.
    pub(in crate::cli) fn known(&self) -> Option<f64> {
        (self.count == 0 || self.unknown < self.count).then_some(self.dollars)
    }

    pub(in crate::cli) fn text(&self) -> String {
        match self.known() {
            None => "cost unknown".to_owned(),
            Some(dollars) if self.unknown > 0 => format!("at least {}", dollars_text(dollars)),
            Some(dollars) => dollars_text(dollars),
        }
    }
}

/// A bar, the number of results, the cost so far and in all, the rate, and the estimated time of
/// the end. `cost` includes the instances that are `done` and those that run; `of_done` only the
/// former.
#[allow(clippy::cast_precision_loss, reason = "figures for people")]
pub(in crate::cli) fn progress_line(
    done: usize,
    all: usize,
    cost: &CostSum,
    of_done: f64,
    rate: Option<f64>,
) -> String {
    let full = BAR * done.min(all) / all.max(1);
    let projected = match done {
        done if done == 0 || done >= all || cost.unknown > 0 => String::new(),
        done => format!(
            " of about {}",
            dollars_text(of_done / done as f64 * all as f64)
        ),
    };
    let mut line = format!(
        "{}{} {done}/{all} · {}{projected}",
        "#".repeat(full),
        ".".repeat(BAR - full),
        cost.text()
    );
    if let Some(rate) = rate.filter(|_| done < all) {
        let left = Duration::try_from_secs_f64(all.saturating_sub(done) as f64 / rate);
        let left = left.map_or_else(|_| "?".to_owned(), clock);
        // Writing into a string does not fail.
        let _ = write!(line, " · {:.1} a minute · about {left} left", rate * 60.0);
    }
    line
}

/// `12 s`, `3 min 5 s`, `2 h 5 min`.
pub(in crate::cli) fn clock(time: Duration) -> String {
    let seconds = time.as_secs();
    match (seconds / 3600, seconds / 60 % 60, seconds % 60) {
        (0, 0, seconds) => format!("{seconds} s"),
        (0, minutes, seconds) => format!("{minutes} min {seconds} s"),
        (hours, minutes, _) => format!("{hours} h {minutes} min"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clocks() {
        for (seconds, expected) in [
            (0, "0 s"),
            (59, "59 s"),
            (185, "3 min 5 s"),
            (7500, "2 h 5 min"),
        ] {
            assert_eq!(clock(Duration::from_secs(seconds)), expected);
        }
    }

    #[test]
    fn progress() {
        let bar = "#".repeat(7) + &".".repeat(23);
        for (done, all, unknown, rate, expected) in [
            (
                10,
                40,
                0,
                Some(0.5),
                format!(
                    "{bar} 10/40 · $5.0000 of about $16.0000 · 30.0 a minute · about 1 min 0 s left"
                ),
            ),
            (
                10,
                40,
                0,
                None,
                format!("{bar} 10/40 · $5.0000 of about $16.0000"),
            ),
            (10, 40, 3, None, format!("{bar} 10/40 · at least $5.0000")),
            (10, 40, 9, None, format!("{bar} 10/40 · cost unknown")),
            (
                40,
                40,
                0,
                Some(0.5),
                format!("{} 40/40 · $5.0000", "#".repeat(30)),
            ),
            (0, 0, 0, None, format!("{} 0/0 · $5.0000", ".".repeat(30))),
        ] {
            let cost = CostSum {
                dollars: 5.0,
                count: 9,
                unknown,
            };
            assert_eq!(progress_line(done, all, &cost, 4.0, rate), expected);
        }
    }
}

//! The sums and the end of a run, which more than one fold over its events makes.

use mswea_core::{Object, Usage};

/// The tokens, the cost and the time that a run has used.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Account {
    /// The number of queries, failed ones included.
    pub queries: u32,
    /// The number of questions of history processors, failed ones included.
    pub questions: u32,
    /// The sum of the known costs, in dollars.
    pub cost: f64,
    /// Whether something was billed whose price is unknown.
    pub cost_unknown: bool,
    /// Tokens.
    pub usage: Usage,
    /// Malformed replies in a row.
    pub format_errors: u32,
    /// The run's time until its last event in seconds, without the time between two of its
    /// processes.
    pub seconds: f64,
    /// Unix seconds of the last event.
    pub last: Option<f64>,
}

impl Account {
    /// The cost in dollars, if all prices are known.
    pub fn known_cost(&self) -> Option<f64> {
        (!self.cost_unknown).then_some(self.cost)
    }

    /// The run's time until `now` (Unix seconds) in seconds. It does not decrease if the clock is
    /// set back.
    pub fn elapsed(&self, now: f64) -> f64 {
        self.seconds + self.last.map_or(0.0, |last| (now - last).max(0.0))
    }

    /// Adds what a query has used. A reply is always billed, a failed query only if it has a usage.
    pub fn charge(&mut self, usage: Option<&Usage>, cost: Option<f64>, is_reply: bool) {
        if let Some(usage) = usage {
            self.usage.add(usage);
        }
        match plausible_cost(cost) {
            Some(cost) => self.cost = (self.cost + cost).min(f64::MAX),
            None => self.cost_unknown |= is_reply || usage.is_some(),
        }
    }

    /// Counts the time up to an event at `t` (Unix seconds).
    pub fn take_time(&mut self, t: f64) {
        self.seconds = self.elapsed(t);
        self.last = Some(t);
    }
}

/// The end of a run, according to its journal.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Ending {
    /// `Submitted`, `LimitsExceeded`, ...
    pub exit_status: String,
    /// The submission.
    pub submission: String,
    /// The failure that ended the run, if one did.
    pub extra: Object,
}

/// A cost that can be charged. A negative or infinite one, which a server or an edited journal may
/// claim, counts as unknown.
pub fn plausible_cost(cost: Option<f64>) -> Option<f64> {
    cost.filter(|cost| cost.is_finite() && *cost >= 0.0)
}

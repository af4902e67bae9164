//! What a run has used, and how much it may use.

use std::time::{Duration, Instant};

use super::Interrupt;
use crate::roles::Usage;

/// Puts a price on a reply.
pub trait Pricing: Send + Sync {
    /// Dollars for `usage`; `None` if the price is unknown.
    fn cost(&self, usage: &Usage) -> Option<f64>;
}

/// The limits of a run; zero or less means none.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Limits {
    /// Queries, and questions of history processors.
    pub steps: i64,
    /// Dollars.
    pub cost: f64,
    /// Seconds.
    pub wall_time_seconds: i64,
    /// Malformed replies in a row.
    pub consecutive_format_errors: i64,
}

/// What a run has used.
#[derive(Clone, Debug)]
pub struct Account {
    /// Queries, failed ones included.
    pub queries: u32,
    /// Questions of history processors, failed ones included.
    pub questions: u32,
    /// Dollars, as far as known.
    pub cost: f64,
    /// Whether there was a reply whose price is unknown.
    pub cost_unknown: bool,
    /// Tokens.
    pub usage: Usage,
    /// Malformed replies in a row.
    pub format_errors: u32,
    started: Instant,
}

impl Account {
    /// A fresh account; the clock starts now.
    pub fn open() -> Self {
        Self {
            queries: 0,
            questions: 0,
            cost: 0.0,
            cost_unknown: false,
            usage: Usage::default(),
            format_errors: 0,
            started: Instant::now(),
        }
    }

    /// Charges a reply; returns its price.
    pub fn charge(&mut self, usage: Option<&Usage>, pricing: &dyn Pricing) -> Option<f64> {
        let Some(usage) = usage else {
            self.cost_unknown = true;
            return None;
        };
        self.usage.add(usage);
        let cost = pricing.cost(usage);
        match cost {
            Some(cost) => self.cost += cost,
            None => self.cost_unknown = true,
        }
        cost
    }

    /// Dollars, if all prices are known.
    pub fn known_cost(&self) -> Option<f64> {
        (!self.cost_unknown).then_some(self.cost)
    }

    /// Seconds since the run began, rounded down.
    pub fn elapsed_seconds(&self) -> u64 {
        self.started.elapsed().as_secs()
    }

    /// Whether another query is allowed.
    ///
    /// # Errors
    /// With the limit that is used up.
    pub fn check(&self, limits: &Limits) -> Result<(), Interrupt> {
        let asked = i64::from(self.queries) + i64::from(self.questions);
        let steps_gone = limits.steps > 0 && limits.steps <= asked;
        let money_gone = limits.cost > 0.0 && limits.cost <= self.cost;
        if steps_gone || money_gone {
            return Err(Interrupt::LimitsExceeded);
        }
        match self.time_left(limits) {
            Some(left) if left.is_zero() => Err(Interrupt::TimeExceeded),
            _ => Ok(()),
        }
    }

    /// Time left; `None` without a limit.
    pub fn time_left(&self, limits: &Limits) -> Option<Duration> {
        let limit = u64::try_from(limits.wall_time_seconds)
            .ok()
            .filter(|seconds| *seconds > 0)?;
        Some(Duration::from_secs(limit).saturating_sub(self.started.elapsed()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct PerCall(Option<f64>);

    impl Pricing for PerCall {
        fn cost(&self, _: &Usage) -> Option<f64> {
            self.0
        }
    }

    #[test]
    fn limits() {
        // (step limit, cost limit) -> queries made at one dollar each
        for (steps, cost, made) in [
            (2, 0.0, 2),
            (0, 2.0, 2),
            (0, 2.5, 3),
            (-1, -1.0, 9),
            (4, 3.0, 3),
        ] {
            let limits = Limits {
                steps,
                cost,
                ..Limits::default()
            };
            let mut account = Account::open();
            while account.check(&limits).is_ok() && account.queries < 9 {
                account.queries += 1;
                account.charge(Some(&Usage::default()), &PerCall(Some(1.0)));
            }
            assert_eq!(account.queries, made, "{limits:?}");
        }
    }

    #[test]
    fn an_unknown_price_stays_unknown() {
        let mut account = Account::open();
        account.charge(Some(&Usage::default()), &PerCall(Some(1.0)));
        assert_eq!(account.known_cost(), Some(1.0));
        account.charge(Some(&Usage::default()), &PerCall(None));
        assert_eq!((account.known_cost(), account.cost), (None, 1.0));
    }
}

//! The common limits of all agents of one process: `MSWEA_GLOBAL_COST_LIMIT` and
//! `MSWEA_GLOBAL_CALL_LIMIT`.

use std::sync::{Mutex, PoisonError};

use mswea_core::{End, Event};

/// The limits; zero or less means none.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct GlobalLimits {
    /// Dollars.
    pub cost: f64,
    /// Replies of models.
    pub calls: i64,
}

/// A variable whose value is no limit.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "`{name}` is `{value}`, which is no {wanted}: set it to a number, 0 for no limit, or unset it"
)]
pub struct LimitError {
    name: &'static str,
    value: String,
    wanted: &'static str,
}

impl GlobalLimits {
    /// The limits that environment variables set.
    ///
    /// # Errors
    /// [`LimitError`] if one of them is not a number.
    pub fn of_variables(var: impl Fn(&str) -> Option<String>) -> Result<Self, LimitError> {
        fn read<T: std::str::FromStr>(
            name: &'static str,
            wanted: &'static str,
            value: Option<String>,
        ) -> Result<Option<T>, LimitError> {
            let Some(value) = value.filter(|value| !value.trim().is_empty()) else {
                return Ok(None);
            };
            match value.trim().parse() {
                Ok(number) => Ok(Some(number)),
                Err(_) => Err(LimitError {
                    name,
                    value,
                    wanted,
                }),
            }
        }
        const COST: &str = "MSWEA_GLOBAL_COST_LIMIT";
        const CALLS: &str = "MSWEA_GLOBAL_CALL_LIMIT";
        let dollars = "number of dollars";
        let cost: f64 = read(COST, dollars, var(COST))?.unwrap_or_default();
        if cost.is_nan() {
            return Err(LimitError {
                name: COST,
                value: "NaN".to_owned(),
                wanted: dollars,
            });
        }
        Ok(Self {
            cost,
            calls: read(CALLS, "whole number of calls", var(CALLS))?.unwrap_or_default(),
        })
    }
}

/// The cost and the calls of all agents of this process.
#[derive(Debug, Default)]
pub struct GlobalAccount {
    limits: GlobalLimits,
    used: Mutex<(f64, i64)>,
}

impl GlobalAccount {
    /// An account with nothing used yet.
    #[must_use]
    pub fn new(limits: GlobalLimits) -> Self {
        Self {
            limits,
            used: Mutex::default(),
        }
    }

    /// Dollars and replies so far.
    pub fn used(&self) -> (f64, i64) {
        *self.used.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Checks before a query that the limits are not reached. So an agent does not pay for a
    /// further reply if others have reached a limit since its last reply.
    ///
    /// # Errors
    /// [`End::GlobalLimit`] if a limit is reached.
    pub fn check(&self) -> Result<(), End> {
        let used = self.used();
        if self.exceeded(used) {
            return Err(self.end(used));
        }
        Ok(())
    }

    /// Adds the cost of a query without a reply.
    pub fn add(&self, failed: &Event) {
        if let Event::QueryFailed {
            cost: Some(cost), ..
        } = failed
        {
            self.used.lock().unwrap_or_else(PoisonError::into_inner).0 += cost;
        }
    }

    /// Adds a reply. As in mini-swe-agent, the reply that reaches a limit ends the run although it
    /// is paid: the cost must exceed the cost limit, and the number of calls must equal the call
    /// limit.
    ///
    /// # Errors
    /// [`End::GlobalLimit`] if a limit is reached.
    pub fn charge(&self, cost: Option<f64>) -> Result<(), End> {
        let used = {
            let mut used = self.used.lock().unwrap_or_else(PoisonError::into_inner);
            used.0 += cost.unwrap_or(0.0);
            used.1 = used.1.saturating_add(1);
            *used
        };
        if self.exceeded(used) {
            return Err(self.end(used));
        }
        Ok(())
    }

    fn exceeded(&self, (cost, calls): (f64, i64)) -> bool {
        let money_gone = self.limits.cost > 0.0 && self.limits.cost < cost;
        let calls_gone = self.limits.calls > 0 && self.limits.calls <= calls;
        money_gone || calls_gone
    }

    /// The name and the beginning of the message are those in mini-swe-agent's trajectories.
    fn end(&self, (cost, calls): (f64, i64)) -> End {
        End::GlobalLimit {
            message: format!(
                "Global cost/call limit exceeded: ${cost:.4} / {calls}: raise \
                 `MSWEA_GLOBAL_COST_LIMIT` or `MSWEA_GLOBAL_CALL_LIMIT` to go on"
            ),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits() {
        // (cost limit, call limit) -> the reply at one dollar that ends it
        for (cost, calls, last) in [
            (0.0, 0, None),
            (2.0, 0, Some(3)),
            (2.5, 0, Some(3)),
            (0.0, 3, Some(3)),
            (0.0, 1, Some(1)),
            (5.0, 3, Some(3)),
            (-1.0, -1, None),
        ] {
            let account = GlobalAccount::new(GlobalLimits { cost, calls });
            let ended = (1..=9).find(|_| {
                assert_eq!(account.check(), Ok(()));
                account.charge(Some(1.0)).is_err()
            });
            assert_eq!(ended, last, "{cost} {calls}");
            assert_eq!(account.check().is_err(), last.is_some());
        }
    }

    #[test]
    fn the_end_is_that_of_mini() {
        let limits = GlobalLimits {
            cost: 0.0,
            calls: 2,
        };
        let account = GlobalAccount::new(limits);
        account.charge(None).unwrap();
        let end = account.charge(Some(1.25)).unwrap_err();
        assert_eq!(end.exit_status(), "RuntimeError");
        let text = end.error().unwrap_or_default().to_owned();
        assert!(
            text.starts_with("Global cost/call limit exceeded: $1.2500 / 2"),
            "{text}"
        );
        assert_eq!(account.used(), (1.25, 2));
    }

    #[test]
    fn variables() {
        let of = |cost: Option<&str>, calls: Option<&str>| {
            GlobalLimits::of_variables(|name| {
                let value = if name.contains("COST") { cost } else { calls };
                value.map(str::to_owned)
            })
            .map(|limits| (limits.cost, limits.calls))
            .map_err(|error| error.to_string())
        };
        assert_eq!(of(None, None), Ok((0.0, 0)));
        assert_eq!(of(Some(""), Some(" ")), Ok((0.0, 0)));
        assert_eq!(of(Some("2.5"), Some(" 7 ")), Ok((2.5, 7)));
        for (cost, calls, part) in [
            (
                Some("$2"),
                None,
                "`MSWEA_GLOBAL_COST_LIMIT` is `$2`, which is no number of dollars",
            ),
            (Some("nan"), None, "`MSWEA_GLOBAL_COST_LIMIT` is `NaN`"),
            (
                None,
                Some("2.5"),
                "`MSWEA_GLOBAL_CALL_LIMIT` is `2.5`, which is no whole number",
            ),
        ] {
            let error = of(cost, calls).unwrap_err();
            assert!(error.contains(part), "{error}");
        }
    }
}

//! Whether a further attempt is made, and its cost limit.

/// The limits of the number and the cost of attempts.
#[derive(Clone, Debug, PartialEq)]
pub struct AttemptBudget {
    /// The largest number of attempts; 0: no limit.
    pub max_attempts: u32,
    /// The limit of dollars for all attempts and reviews; 0: no limit.
    pub cost_limit: f64,
    /// The least number of dollars that must be left for a new attempt; 0: any.
    pub min_budget: f64,
    /// After so many accepted attempts there is no further one; 0: no limit.
    pub max_accepts: u32,
}

/// The attempts so far.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct AttemptTally {
    /// Attempts that have ended.
    pub attempts: u32,
    /// Attempts that were accepted.
    pub accepted: u32,
    /// Dollars.
    pub cost: f64,
    /// Dollars of the last attempt and its review.
    pub last_cost: f64,
}

/// Why no further attempt is made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NoMore {
    /// `cost_limit` is reached.
    Cost,
    /// `max_attempts` have ended.
    Attempts,
    /// `max_accepts` were accepted.
    Accepted,
    /// Less than `min_budget_for_new_attempt` is left.
    Budget,
    /// Only `cost_limit` would end the attempts, and the last one cost nothing.
    Free,
}

impl NoMore {
    /// The reason as text.
    pub fn words(self) -> &'static str {
        match self {
            Self::Cost => "`cost_limit` is reached",
            Self::Attempts => "`max_attempts` have ended",
            Self::Accepted => "`max_accepts` were accepted",
            Self::Budget => "less than `min_budget_for_new_attempt` is left",
            Self::Free => {
                "the last one has cost nothing, so `cost_limit` would not end them: set `max_attempts`"
            }
        }
    }
}

impl AttemptBudget {
    /// Why no further attempt follows; none if one does.
    pub fn over(&self, tally: AttemptTally) -> Option<NoMore> {
        let reached = |count: u32, limit: u32| limit > 0 && count >= limit;
        let left = self.cost_limit - tally.cost;
        if self.cost_limit > 0.0 && left <= 0.0 {
            Some(NoMore::Cost)
        } else if reached(tally.attempts, self.max_attempts) {
            Some(NoMore::Attempts)
        } else if reached(tally.accepted, self.max_accepts) {
            Some(NoMore::Accepted)
        } else if self.cost_limit > 0.0 && self.min_budget > 0.0 && left < self.min_budget {
            Some(NoMore::Budget)
        } else if self.max_attempts == 0 && tally.attempts > 0 && tally.last_cost <= 0.0 {
            // The model is free, or fails, or there is no environment.
            Some(NoMore::Free)
        } else {
            None
        }
    }

    /// The cost limit of the next attempt, whose own limit is `own`; 0 is no limit.
    pub fn limit(&self, spent: f64, own: f64) -> f64 {
        if self.cost_limit <= 0.0 {
            return own;
        }
        // The rest of a spent budget must not become 0, which means "no limit".
        let left = (self.cost_limit - spent).max(f64::MIN_POSITIVE);
        match own > 0.0 {
            true => own.min(left),
            false => left,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn budget(cost_limit: f64, min_budget: f64) -> AttemptBudget {
        AttemptBudget {
            max_attempts: 3,
            cost_limit,
            min_budget,
            max_accepts: 1,
        }
    }

    #[test]
    fn what_is_left_limits_the_next_attempt() {
        let budget = budget(2.5, 0.0);
        let limits = [0.0, 1.1, 2.2].map(|spent| budget.limit(spent, 2.0));
        for (limit, expected) in limits.iter().zip([2.0, 1.4, 0.3]) {
            assert!((limit - expected).abs() < 1e-9, "{limits:?}");
        }
        assert_eq!(budget.limit(1.0, 0.0), 1.5);
        assert!(budget.limit(2.5, 2.0) > 0.0);
        let unlimited = AttemptBudget {
            cost_limit: 0.0,
            ..budget
        };
        assert_eq!(unlimited.limit(7.0, 2.0), 2.0);
    }

    #[test]
    fn the_first_reason_ends_the_attempts() {
        let tally = |attempts, accepted, cost| AttemptTally {
            attempts,
            accepted,
            cost,
            last_cost: cost,
        };
        for (budget, tally, expected) in [
            (budget(3.0, 1.5), tally(1, 0, 1.0), None),
            (budget(3.0, 1.5), tally(2, 0, 2.0), Some(NoMore::Budget)),
            (budget(3.0, 0.0), tally(2, 0, 2.0), None),
            (budget(3.0, 0.0), tally(2, 0, 3.5), Some(NoMore::Cost)),
            (budget(3.0, 0.0), tally(2, 0, 3.0), Some(NoMore::Cost)),
            (budget(3.0, 0.0), tally(3, 1, 1.0), Some(NoMore::Attempts)),
            (budget(3.0, 0.0), tally(1, 1, 1.0), Some(NoMore::Accepted)),
            (budget(0.0, 0.0), tally(1, 0, 99.0), None),
            (budget(0.0, 1.5), tally(1, 0, 99.0), None),
            (
                AttemptBudget {
                    max_attempts: 0,
                    max_accepts: 0,
                    ..budget(0.0, 0.0)
                },
                tally(99, 99, 99.0),
                None,
            ),
        ] {
            assert_eq!(budget.over(tally), expected, "{budget:?} {tally:?}");
        }
        let without = AttemptBudget {
            max_attempts: 0,
            ..budget(3.0, 0.0)
        };
        let free = AttemptTally {
            last_cost: 0.0,
            ..tally(1, 0, 1.0)
        };
        assert_eq!(without.over(free), Some(NoMore::Free));
        assert_eq!(without.over(tally(1, 0, 1.0)), None);
        assert_eq!(without.over(tally(0, 0, 0.0)), None);
        assert_eq!(budget(3.0, 0.0).over(free), None);
    }
}

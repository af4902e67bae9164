//! The trajectory of several attempts: all of them, with the chosen one at its top.

use serde_json::{Value, json};

/// The account of the models, as SWE-agent writes it.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct ModelStats {
    /// Dollars.
    pub cost: f64,
    /// Input tokens.
    pub sent: u64,
    /// Output tokens.
    pub received: u64,
    /// Queries.
    pub calls: u32,
}

impl ModelStats {
    /// The account in a trajectory.
    pub fn of(trajectory: &Value) -> Self {
        let stats = &trajectory["info"]["model_stats"];
        let whole = |key: &str| stats[key].as_u64().unwrap_or_default();
        Self {
            cost: stats["instance_cost"].as_f64().unwrap_or_default(),
            sent: whole("tokens_sent"),
            received: whole("tokens_received"),
            calls: u32::try_from(whole("api_calls")).unwrap_or(u32::MAX),
        }
    }

    /// The sum of both.
    #[must_use]
    pub fn plus(self, other: Self) -> Self {
        Self {
            cost: self.cost + other.cost,
            sent: self.sent.saturating_add(other.sent),
            received: self.received.saturating_add(other.received),
            calls: self.calls.saturating_add(other.calls),
        }
    }

    /// The account as JSON, as in a trajectory.
    pub fn value(self) -> Value {
        json!({
            "instance_cost": self.cost,
            "tokens_sent": self.sent,
            "tokens_received": self.received,
            "api_calls": self.calls,
        })
    }
}

/// Combines the trajectories of these attempts. `chosen`: the chosen attempt, once it is known.
/// `reviews`: the account of the reviewer. `choice`: the data about the choice.
pub fn combined(
    attempts: &[Value],
    chosen: Option<usize>,
    reviews: ModelStats,
    choice: Option<&Value>,
    environment: &str,
) -> Value {
    let total = attempts.iter().map(ModelStats::of);
    let total = total.fold(reviews, ModelStats::plus);
    let mut made = match chosen.and_then(|place| attempts.get(place)) {
        Some(best) => best.clone(),
        None => json!({"trajectory": [], "history": [], "info": {}}),
    };
    // SWE-agent can't replay it either, because it does not tell to which agent its actions belong.
    made["replay_config"] = Value::Null;
    made["environment"] = environment.into();
    made["attempts"] = attempts.into();
    let info = &mut made["info"];
    info["model_stats"] = total.value();
    info["rloop_model_stats"] = reviews.value();
    if let Some(place) = chosen {
        info["best_attempt_idx"] = place.into();
    }
    if let Some(choice) = choice {
        info["chooser"] = choice.clone();
    }
    made
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_chosen_attempt_is_at_the_top_and_the_sums_are_of_all() {
        let attempt = |status: &str| {
            json!({
                "trajectory": [status], "history": [], "replay_config": "{}", "environment": "main",
                "info": {
                    "exit_status": status,
                    "model_stats": {"instance_cost": 1.5, "tokens_sent": 10, "tokens_received": 2, "api_calls": 3},
                },
            })
        };
        let attempts = [attempt("a"), attempt("b")];
        let reviews = ModelStats {
            cost: 0.5,
            sent: 1,
            received: 1,
            calls: 2,
        };
        let made = combined(&attempts, Some(1), reviews, None, "main");
        assert_eq!(made["trajectory"], json!(["b"]));
        assert_eq!(made["info"]["exit_status"], "b");
        assert_eq!(made["info"]["best_attempt_idx"], 1);
        assert_eq!(
            made["info"]["model_stats"],
            json!({"instance_cost": 3.5, "tokens_sent": 21, "tokens_received": 5, "api_calls": 8})
        );
        assert_eq!(made["info"]["rloop_model_stats"]["api_calls"], 2);
        assert_eq!(made["attempts"], json!(attempts));
        assert_eq!(made["replay_config"], Value::Null);
        let open = combined(&attempts, None, reviews, None, "main");
        assert_eq!(open["info"].get("exit_status"), None);
        assert_eq!(open["attempts"].as_array().map(Vec::len), Some(2));
    }
}

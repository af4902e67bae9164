//! A comparison as JSON, complete.
//!
//! Keys: `kind`; `old` and `new` (`label`, `name`, `version`, `sha256`, `config`, `as_recorded`,
//! `asked`, `unanswered`, and `latency`: `calls`, `p50`, `p90`, `p99`, `max`, `total` in seconds (null without a call),
//! `buckets`); `runs`, `steps`; `compared`, `agreeing`, `agreement` (0 to 1, null if nothing was
//! compared); `counts`, by degree:
//! `same`, `wording`, `different`, `one_failed`, `both_failed`; `by_step`, a list of `step` with
//! the counts of that step number; `not_compared`, from reason to count; `recorded`, for how many
//! answers the record has the run's own; `alike`, a list of `degree`, `what` and
//! `disagreements` (places in the list that follows), the worst and largest first; `disagreements`, a list of `run`, `step`, `action`
//! (from 0, or null), `degree`, `input`, `old`, `new`, with long texts shortened;
//! `disagreements_left_out`; `warnings`; `threads`; `seconds`.

use serde_json::{Value, json};

use super::comparison::{Comparison, Side};

impl Comparison {
    /// All of the comparison; the keys are in this module's documentation.
    pub fn to_json(&self) -> Value {
        let by_step = self.by_step.iter().map(|(step, counts)| {
            let mut one = counts.to_json();
            one["step"] = (*step).into();
            one
        });
        let cases = self.cases.iter().map(|case| {
            json!({
                "run": case.run,
                "step": case.step,
                "action": case.index,
                "degree": case.degree.as_str(),
                "input": case.input,
                "old": case.old,
                "new": case.new,
            })
        });
        let groups = self.groups().into_iter().map(|group| {
            json!({
                "degree": group.degree.as_str(),
                "what": group.what,
                "disagreements": group.cases,
            })
        });
        json!({
            "kind": self.kind,
            "old": side(&self.old),
            "new": side(&self.new),
            "runs": self.runs,
            "steps": self.steps,
            "compared": self.counts.compared(),
            "agreeing": self.counts.agreeing(),
            "agreement": self.counts.agreement(),
            "counts": self.counts.to_json(),
            "by_step": by_step.collect::<Vec<_>>(),
            "not_compared": self.not_compared,
            "recorded": self.recorded,
            "alike": groups.collect::<Vec<_>>(),
            "disagreements": cases.collect::<Vec<_>>(),
            "disagreements_left_out": self.cases_left_out,
            "warnings": self.warnings,
            "threads": self.threads,
            "seconds": self.elapsed.as_secs_f64(),
        })
    }
}

fn side(side: &Side) -> Value {
    json!({
        "label": side.label,
        "name": side.name,
        "version": side.version,
        "sha256": side.digest,
        "config": side.config,
        "as_recorded": side.as_recorded,
        "asked": side.asked,
        "unanswered": side.unanswered,
        "latency": side.latency.to_json(),
    })
}

//! Two batches over the same instances, compared instance by instance.

use std::collections::{BTreeMap, HashSet};

use serde::Serialize;

use crate::folder::FolderState;
use crate::outcome::BatchResult;

/// Two batches.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct BatchComparison {
    /// Instances with a result in both.
    pub compared: usize,
    /// Instances with a result in the first batch only.
    pub only_in_first: usize,
    /// Instances with a result in the second batch only.
    pub only_in_second: usize,
    /// Compared instances that both have solved.
    pub both: usize,
    /// Compared instances that neither has solved.
    pub neither: usize,
    /// Ids that the first batch has solved and the second one has not.
    pub first: Vec<String>,
    /// Ids that the second batch has solved and the first one has not.
    pub second: Vec<String>,
    /// The probability of a difference at least as large if both were equally good: an exact sign test, two-sided.
    pub p_value: f64,
    /// Dollars of the compared instances in the first and in the second batch.
    pub cost: [f64; 2],
    /// How many of their costs are unknown.
    pub cost_unknown: [usize; 2],
    /// Queries of the compared instances in the first and in the second batch.
    pub steps: [u64; 2],
}

impl BatchComparison {
    /// Compares them. An instance is solved if the evaluation of its batch says so; without an evaluation, if
    /// its run has submitted something.
    pub fn of(batches: [&FolderState; 2], resolved: [Option<&HashSet<String>>; 2]) -> Self {
        let by_id = |state: &FolderState| -> BTreeMap<String, BatchResult> {
            let results = state.results.iter();
            results
                .map(|it| (it.instance_id.clone(), it.clone()))
                .collect()
        };
        let [first, second] = batches.map(by_id);
        let is_solved = |which: usize, result: &BatchResult| match resolved[which] {
            Some(resolved) => resolved.contains(&result.instance_id),
            None => !result.has_failed() && !result.submission.trim().is_empty(),
        };
        let mut made = Self {
            only_in_first: first.keys().filter(|id| !second.contains_key(*id)).count(),
            only_in_second: second.keys().filter(|id| !first.contains_key(*id)).count(),
            ..Self::default()
        };
        for (id, one) in &first {
            let Some(other) = second.get(id) else {
                continue;
            };
            made.compared += 1;
            for (place, result) in [one, other].into_iter().enumerate() {
                made.cost[place] += result.cost.unwrap_or_default();
                made.cost_unknown[place] += usize::from(result.cost.is_none());
                made.steps[place] += u64::from(result.steps);
            }
            match (is_solved(0, one), is_solved(1, other)) {
                (true, true) => made.both += 1,
                (false, false) => made.neither += 1,
                (true, false) => made.first.push(id.clone()),
                (false, true) => made.second.push(id.clone()),
            }
        }
        made.p_value = sign_test(made.first.len(), made.second.len());
        made
    }
}

/// The two-sided exact sign test: the probability that, of all pairs that differ, at least as many
/// are on one side.
#[allow(clippy::cast_precision_loss, reason = "counts of instances")]
fn sign_test(one: usize, other: usize) -> f64 {
    let pairs = one + other;
    // The logarithm of the number of ways to choose `k` of the pairs, from k to k + 1.
    let (mut ways, mut sum) = (0.0_f64, 0.0_f64);
    let half = -(pairs as f64) * std::f64::consts::LN_2;
    for k in 0..=one.min(other) {
        sum += (ways + half).exp();
        ways += ((pairs - k) as f64).ln() - ((k + 1) as f64).ln();
    }
    (2.0 * sum).min(1.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_sign_test_is_exact() {
        // By hand: 2 * (C(n,0) + .. + C(n,k)) / 2^n.
        for (one, other, expected) in [
            (0, 0, 1.0),
            (1, 0, 1.0),
            (5, 0, 0.0625),
            (0, 5, 0.0625),
            (8, 2, 0.109_375),
            (3, 3, 1.0),
            (10, 1, 0.011_718_75),
        ] {
            let found = sign_test(one, other);
            assert!((found - expected).abs() < 1e-12, "{one} {other}: {found}");
        }
        assert!(sign_test(5000, 4600) < 1e-4);
    }

    #[test]
    fn instances_are_compared() {
        let state = |results: &[(&str, &str, &str)]| FolderState {
            results: results
                .iter()
                .map(|(id, status, submission)| BatchResult {
                    instance_id: (*id).to_owned(),
                    exit_status: (*status).to_owned(),
                    submission: (*submission).to_owned(),
                    cost: Some(0.5),
                    steps: 2,
                    ..BatchResult::default()
                })
                .collect(),
            ..FolderState::default()
        };
        let first = state(&[
            ("a", "Submitted", "diff"),
            ("b", "Submitted", "diff"),
            ("c", "Submitted", " "),
            ("d", "Submitted", "diff"),
        ]);
        let second = state(&[
            ("a", "Submitted", "diff"),
            ("b", "PluginError", "diff"),
            ("c", "LimitsExceeded", ""),
            ("e", "Submitted", "diff"),
        ]);
        let made = BatchComparison::of([&first, &second], [None, None]);
        assert_eq!((made.compared, made.both, made.neither), (3, 1, 1));
        assert_eq!((made.only_in_first, made.only_in_second), (1, 1));
        assert_eq!(
            (made.first, made.second),
            (vec!["b".to_owned()], Vec::new())
        );
        assert_eq!((made.cost, made.steps), ([1.5, 1.5], [6, 6]));
        let resolved = HashSet::from(["a".to_owned(), "c".to_owned()]);
        let made = BatchComparison::of([&first, &second], [Some(&resolved), None]);
        assert_eq!((made.both, made.first), (1, vec!["c".to_owned()]));
    }
}

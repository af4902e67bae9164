//! The score of an attempt, computed from the number in each reply of the reviewer.

/// The score of an attempt for which no reply was usable.
const NO_SCORE: f64 = -100.0;

/// A larger number in a reply is ignored: it would outweigh all others, and the sum of such numbers
/// would be infinite.
const LARGEST: f64 = 1e100;

/// The tolerances within which two scores are equal.
const SAME: (f64, f64) = (1e-8, 1e-5);

/// How the score is computed from replies.
#[derive(Clone, Debug, PartialEq)]
pub struct ScoreRules {
    /// The amount that is subtracted if the status is not `submitted`.
    pub failure_penalty: f64,
    /// How many standard deviations are subtracted.
    pub reduce_by_std: f64,
    /// The least and the largest valid number.
    pub range: (Option<f64>, Option<f64>),
}

impl ScoreRules {
    /// The number in a reply: the last one in its last line, if it is in the range.
    pub fn number(&self, reply: &str) -> Option<f64> {
        let line = reply.trim().lines().next_back()?;
        let number = last_number(line)?;
        let (least, largest) = self.range;
        let fits = least.is_none_or(|it| number >= it) && largest.is_none_or(|it| number <= it);
        (fits && number.abs() <= LARGEST).then_some(number)
    }

    /// The score of an attempt that ended with `status` and got these numbers.
    pub fn score(&self, numbers: &[f64], status: &str) -> f64 {
        let numbers = match numbers {
            [] => &[NO_SCORE],
            numbers => numbers,
        };
        let penalty = match status.trim() {
            "submitted" => 0.0,
            _ => self.failure_penalty,
        };
        let count = numbers.len() as f64;
        let mean = numbers.iter().sum::<f64>() / count;
        let variance = numbers.iter().map(|it| (it - mean).powi(2)).sum::<f64>() / count;
        let score = mean - penalty - self.reduce_by_std.max(0.0) * variance.sqrt();
        // Penalties may be infinite.
        score.clamp(f64::MIN, f64::MAX)
    }
}

/// The last number of a line: `-`, digits, a point, digits.
fn last_number(line: &str) -> Option<f64> {
    let bytes = line.as_bytes();
    let mut found = None;
    let mut at = 0;
    while at < bytes.len() {
        let is_digit = |at: usize| bytes.get(at).is_some_and(u8::is_ascii_digit);
        let starts = is_digit(at) || (bytes[at] == b'-' && is_digit(at + 1));
        if !starts {
            at += 1;
            continue;
        }
        let begin = at;
        at += 1;
        while is_digit(at) {
            at += 1;
        }
        if bytes.get(at) == Some(&b'.') {
            at += 1;
            while is_digit(at) {
                at += 1;
            }
        }
        found = line[begin..at].parse().ok();
    }
    found
}

/// The attempt with the best score; of several, the one with the fewest queries, then the first.
/// `attempts` are pairs of score and queries. None if there are no attempts.
pub fn best_of(attempts: &[(f64, u32)]) -> Option<usize> {
    let best = attempts.iter().map(|(score, _)| *score);
    let best = best.max_by(f64::total_cmp)?;
    let is_near = |score: f64| (score - best).abs() <= SAME.0 + SAME.1 * best.abs();
    // An attempt without a query is the last choice.
    let queries = |place: usize| match attempts[place].1 {
        0 => u32::MAX,
        queries => queries,
    };
    let near = (0..attempts.len()).filter(|place| is_near(attempts[*place].0));
    near.min_by_key(|place| queries(*place))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rules(range: (Option<f64>, Option<f64>)) -> ScoreRules {
        ScoreRules {
            failure_penalty: 2.5,
            reduce_by_std: 1.0,
            range,
        }
    }

    #[test]
    fn the_last_number_of_the_last_line_is_the_score() {
        let ten = (Some(0.0), Some(10.0));
        let all = (None, None);
        let endless = "9".repeat(400);
        for (reply, range, expected) in [
            ("1", ten, Some(1.0)),
            ("11", ten, None),
            ("-1", ten, None),
            ("x", ten, None),
            ("", ten, None),
            ("good\nscore: 7.5 of 10", all, Some(10.0)),
            ("3\n  7.5  \n\n", all, Some(7.5)),
            ("9\nnone", all, None),
            ("1-2", all, Some(-2.0)),
            ("score -4.", all, Some(-4.0)),
            ("1.2.3", all, Some(3.0)),
            ("10/10", (Some(0.0), None), Some(10.0)),
            ("é 5 é", all, Some(5.0)),
            (&endless, all, None),
            (&format!("-{endless}"), all, None),
        ] {
            assert_eq!(rules(range).number(reply), expected, "{reply:?}");
        }
    }

    #[test]
    fn a_score_is_the_mean_less_penalty_and_deviation() {
        let rules = rules((Some(0.0), Some(10.0)));
        let replies = ["1", "3", "11", "x"];
        let numbers: Vec<f64> = replies.iter().filter_map(|it| rules.number(it)).collect();
        for (numbers, status, expected) in [
            (&numbers[..], "submitted", 1.0),
            (&numbers, " submitted ", 1.0),
            (&numbers, "submitted (exit_cost)", -1.5),
            (&[4.0], "submitted", 4.0),
            (&[4.0], "", 1.5),
            (&[], "submitted", -100.0),
            (&[], "exit_error", -102.5),
            (&[1e100, -1e100], "submitted", -1e100),
        ] {
            let score = rules.score(numbers, status);
            let is_near = (score - expected).abs() <= 1e-9 * expected.abs().max(1.0);
            assert!(is_near, "{numbers:?}: {score}");
        }
        let endless = ScoreRules {
            failure_penalty: f64::INFINITY,
            ..rules
        };
        assert_eq!(endless.score(&[4.0], ""), f64::MIN);
    }

    #[test]
    fn the_best_score_and_then_the_fewest_queries_win() {
        for (attempts, expected) in [
            (&[(1.0, 1), (3.0, 1), (2.0, 1)][..], Some(1)),
            (&[(3.0, 1), (3.0, 1), (3.0, 1)], Some(0)),
            (&[(3.0, 9), (3.0, 4), (2.0, 1)], Some(1)),
            (&[(3.0, 0), (3.000_001, 4)], Some(1)),
            (&[(-100.0, 2), (-102.5, 1)], Some(0)),
            (&[(f64::MIN, 2), (f64::MIN, 1)], Some(1)),
            (&[], None),
        ] {
            assert_eq!(best_of(attempts), expected, "{attempts:?}");
        }
    }
}

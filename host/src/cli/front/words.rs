//! Costs and numbers as text.

use std::collections::BTreeMap;

use mswea_core::Usage;

/// Dollars, or a text that the cost is unknown.
pub(super) fn cost(cost: Option<f64>) -> String {
    match cost {
        Some(cost) => dollars_text(cost),
        None => "cost unknown".to_owned(),
    }
}

/// Dollars. An implausible sum, which only an edited journal or a faulty server can claim, is
/// shortened.
pub(in crate::cli) fn dollars_text(cost: f64) -> String {
    match cost.abs() < 1e9 {
        true => format!("${cost:.4}"),
        false => format!("${cost:.1e}"),
    }
}

/// `1 step`, `7 steps`.
pub(super) fn plural(count: u64, noun: &str) -> String {
    let s = if count == 1 { "" } else { "s" };
    format!("{} {noun}{s}", number(count))
}

/// How often which plugins have failed: runs go on without them, so that their ends do not show it.
pub(in crate::cli) fn faults_line(place: &str, counts: &BTreeMap<String, u32>) -> Option<String> {
    let counts = counts.iter().map(|(plugin, count)| match count {
        1 => format!("`{plugin}` once"),
        count => format!("`{plugin}` {count} times"),
    });
    let counts = counts.collect::<Vec<_>>().join(", ");
    (!counts.is_empty()).then(|| {
        format!("plugins have failed in {place}: {counts}; `info.mswea.plugin_faults` of a trajectory has the messages")
    })
}

/// A number with commas between thousands.
pub(super) fn number(value: u64) -> String {
    let digits = value.to_string();
    let mut out = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

/// Steps, cost and tokens of a run; tokens only if the provider has counted any.
pub fn account(steps: u32, dollars: Option<f64>, usage: &Usage) -> String {
    let mut parts = vec![plural(u64::from(steps), "step"), cost(dollars)];
    if usage.input_tokens > 0 || usage.output_tokens > 0 {
        let of_these = |counts: &[(u64, &str)]| {
            let counts = counts.iter().filter(|(count, _)| *count > 0);
            let words: Vec<String> = counts
                .map(|(count, word)| format!("{} {word}", number(*count)))
                .collect();
            match words.as_slice() {
                [] => String::new(),
                words => format!(" ({})", words.join(", ")),
            }
        };
        let cached = of_these(&[
            (usage.cache_read_tokens, "cached"),
            (usage.cache_write_tokens, "written to the cache"),
        ]);
        let reasoning = of_these(&[(usage.reasoning_tokens, "reasoning")]);
        parts.push(format!("{} tokens in{cached}", number(usage.input_tokens)));
        parts.push(format!("{} out{reasoning}", number(usage.output_tokens)));
    }
    parts.join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers() {
        let vectors = [
            (0, "0"),
            (999, "999"),
            (1000, "1,000"),
            (12_345, "12,345"),
            (1_234_567, "1,234,567"),
        ];
        for (value, expected) in vectors {
            assert_eq!(number(value), expected);
        }
        assert_eq!(plural(1, "step"), "1 step");
        assert_eq!(plural(1200, "line"), "1,200 lines");
    }

    #[test]
    fn accounts() {
        let usage = Usage {
            input_tokens: 12_345,
            cache_read_tokens: 10_000,
            output_tokens: 678,
            ..Usage::default()
        };
        assert_eq!(
            account(6, Some(0.01234), &usage),
            "6 steps, $0.0123, 12,345 tokens in (10,000 cached), 678 out"
        );
        let all = Usage {
            cache_write_tokens: 1_500,
            reasoning_tokens: 400,
            ..usage
        };
        assert_eq!(
            account(1, Some(0.0), &all),
            "1 step, $0.0000, 12,345 tokens in (10,000 cached, 1,500 written to the cache), \
             678 out (400 reasoning)"
        );
        assert_eq!(account(1, None, &Usage::default()), "1 step, cost unknown");
    }
}

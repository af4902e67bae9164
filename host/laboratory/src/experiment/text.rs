//! A comparison as text for a terminal, and the parts of it that the page has as well.

use std::fmt::Write;

use serde_json::Value;
use unicode_width::UnicodeWidthChar;

use super::answer::Degree;
use super::comparison::{Case, Comparison, Side, share};
use super::excerpt::{self, number, one_line};
use super::lines::{self, ComparisonRow};

/// The layout.
#[derive(Clone, Copy, Debug)]
pub struct TextOptions {
    /// Columns of the terminal.
    pub width: usize,
    /// How many disagreements are shown.
    pub max_shown: usize,
}

/// Lines of the input, rows of a disagreement, and groups; the other reports have more.
const INPUT_LINES: usize = 8;
const ROWS: usize = 60;
const GROUPS: usize = 20;

impl Comparison {
    /// The whole report. Recorded texts can't affect the terminal.
    pub fn to_text(&self, options: TextOptions) -> String {
        let width = options.width.max(40);
        let mut out = String::new();
        for side in [&self.old, &self.new] {
            let _ = writeln!(out, "{:<10} {}", side.label, described(side));
        }
        let _ = writeln!(out, "{:<10} {}\n", self.kind, self.amount());
        let agreement = agreement(self);
        let degrees = Degree::ALL.into_iter().filter(|_| agreement.is_some());
        let _ = writeln!(
            out,
            "agreement  {}",
            agreement.as_deref().unwrap_or(NOTHING)
        );
        for degree in degrees {
            let _ = writeln!(
                out,
                "  {:<18} {:>8}",
                degree.label(),
                self.counts.of(degree)
            );
        }
        for note in self.notes() {
            let _ = writeln!(out, "{note}");
        }
        for (at, [label, times @ ..]) in self.times().into_iter().enumerate() {
            let label = if at == 0 {
                "\nlatency   "
            } else {
                &*format!("{label:<10}")
            };
            let times = times.map(|time| format!(" {time:>9}")).concat();
            let _ = writeln!(out, "{label}{times}");
        }
        for warning in &self.warnings {
            let _ = writeln!(out, "warning: {}", one_line(warning));
        }
        let groups = self.groups();
        let is_alike = groups.iter().any(|group| group.cases.len() > 1);
        if is_alike {
            out.push_str("\nalike\n");
            for group in groups.iter().take(GROUPS) {
                let (count, degree) = (group.cases.len(), group.degree.label());
                let line = format!("  {count:>6}  {degree:<16} {}", one_line(&group.what));
                let _ = writeln!(out, "{}", fit(&line, width).0);
            }
        }
        if is_alike && groups.len() > GROUPS {
            let _ = writeln!(out, "  and {} other groups", groups.len() - GROUPS);
        }
        // One case of each group is shown before a second case of any group.
        let firsts = groups.iter().map(|group| group.cases[0]);
        let others = groups.iter().flat_map(|group| group.cases.iter().skip(1));
        let order = firsts.chain(others.copied());
        for (number, index) in order.take(options.max_shown).enumerate() {
            self.case(&mut out, number + 1, &self.cases[index], width);
        }
        let more = self.disagreements() - self.cases.len().min(options.max_shown) as u64;
        if more > 0 {
            let all = match self.cases_left_out {
                0 => "all are in `--json` and `--html`, and here with a larger `--max-shown`"
                    .to_owned(),
                left => format!("{left} of them are only counted"),
            };
            let _ = writeln!(out, "\n{more} more disagreements are not shown; {all}.");
        }
        out
    }

    fn case(&self, out: &mut String, number: usize, case: &Case, width: usize) {
        let (of, title) = (self.disagreements(), one_line(&title(case)));
        let _ = writeln!(out, "\n── {number} of {of}: {title}");
        let input = shown(&case.input);
        for line in input.iter().take(INPUT_LINES) {
            let _ = writeln!(out, "   {}", fit(line, width - 3).0);
        }
        if input.len() > INPUT_LINES {
            let _ = writeln!(out, "   [... {} more lines]", input.len() - INPUT_LINES);
        }
        let column = (width - 5) / 2;
        let mut row = |mark: char, left: &str, right: &str| {
            let (left, right) = (wrapped(left, column), wrapped(right, column));
            for index in 0..left.len().max(right.len()) {
                let piece = |side: &[String]| side.get(index).cloned().unwrap_or_default();
                let left = piece(&left);
                let pad = " ".repeat(column - fit(&left, column).1);
                let line = format!("{mark} {left}{pad} │ {}", piece(&right));
                let _ = writeln!(out, "{}", line.trim_end());
            }
        };
        row(' ', &self.old.label, &self.new.label);
        let (old, new) = (shown(&case.old), shown(&case.new));
        let rows = lines::rows(&old, &new, 3);
        for shown in rows.iter().take(ROWS) {
            match shown {
                ComparisonRow::Same(text) => row(' ', text, text),
                ComparisonRow::Skipped(count) => {
                    let text = format!("[{count} lines are the same]");
                    row(' ', &text, &text);
                }
                ComparisonRow::Changed(old, new) => row('≠', old.unwrap_or(""), new.unwrap_or("")),
            }
        }
        if rows.len() > ROWS {
            let _ = writeln!(out, "   [... {} more rows]", rows.len() - ROWS);
        }
    }

    /// What was compared, in words.
    pub(super) fn amount(&self) -> String {
        let amount = format!(
            "{} in {}",
            number(self.steps, "step"),
            number(self.runs, "run")
        );
        if self.seconds == 0.0 {
            return amount;
        }
        let (took, threads) = (time(self.seconds), number(self.threads as u64, "thread"));
        format!("{amount}, {took} on {threads}")
    }

    /// Remarks on the counts, each in one line.
    pub(super) fn notes(&self) -> Vec<String> {
        let missed = missed(self)
            .into_iter()
            .map(|why| format!("not compared: {why}"));
        let mut notes: Vec<String> = missed.collect();
        let sides = [&self.old, &self.new];
        if self.recorded > 0 {
            let shares = sides.map(|side| {
                format!(
                    "{} {}",
                    one_line(&side.label),
                    percent(side.as_recorded, self.recorded)
                )
            });
            notes.push(format!(
                "as the recorded run did, of {}: {}",
                number(self.recorded, "answer"),
                shares.join(", ")
            ));
        }
        for side in sides.into_iter().filter(|side| side.asked > 0) {
            notes.push(format!(
                "{} asked the model {}, {} without a recorded answer",
                one_line(&side.label),
                number(side.asked, "time"),
                side.unanswered
            ));
        }
        notes
    }

    /// The table of latencies, with a head; empty without a call.
    pub(super) fn times(&self) -> Vec<[String; 7]> {
        let called = [&self.old, &self.new].into_iter();
        let called = called.filter(|side| side.latency.calls > 0);
        let rows = called.map(|side| {
            let own = &side.latency;
            let [p50, p90, p99, max, total] =
                [own.p50, own.p90, own.p99, own.max, own.total].map(time);
            let label = one_line(&side.label);
            [label, p50, p90, p99, max, total, own.calls.to_string()]
        });
        let rows: Vec<_> = rows.collect();
        let head = ["", "p50", "p90", "p99", "max", "total", "calls"].map(str::to_owned);
        let head = (!rows.is_empty()).then_some(head);
        head.into_iter().chain(rows).collect()
    }
}

/// The step and run of a case, and its degree.
pub(super) fn title(case: &Case) -> String {
    let action = case
        .index
        .map(|index| format!(", action {}", u64::from(index) + 1));
    let (run, step, degree) = (&case.run, case.step, case.degree.label());
    format!("{run}, step {step}{}: {degree}", action.unwrap_or_default())
}

/// The lines of a value, without control characters.
pub(super) fn shown(value: &Value) -> Vec<String> {
    let lines = excerpt::lines(value);
    lines.iter().map(|line| excerpt::printable(line)).collect()
}

/// A plugin in one line.
pub(super) fn described(side: &Side) -> String {
    let mut out = one_line(&side.name);
    if !side.version.is_empty() {
        let _ = write!(out, " {}", one_line(&side.version));
    }
    if let Some(digest) = side.digest.get(..12) {
        let _ = write!(out, " (sha256 {})", one_line(digest));
    }
    if !side.config.is_null() && side.config.as_object().is_none_or(|keys| !keys.is_empty()) {
        let config = excerpt::shortened(&side.config, &Value::Null, 120);
        let _ = write!(out, " with {}", one_line(&config.to_string()));
    }
    out
}

/// Shown in place of figures if there are none.
pub(super) const NOTHING: &str = "nothing was compared";

/// How many answers agree; none if nothing was compared.
pub(super) fn agreement(own: &Comparison) -> Option<String> {
    let (agreeing, compared) = (own.counts.agreeing(), own.counts.compared());
    (compared > 0).then(|| {
        let all = number(compared, "answer");
        format!(
            "{agreeing} of {all} agree ({})",
            percent(agreeing, compared)
        )
    })
}

/// The reasons for inputs that were not compared, each with its count.
pub(super) fn missed(own: &Comparison) -> Vec<String> {
    let reasons = own.not_compared.iter();
    reasons
        .map(|(why, count)| format!("{} ({})", one_line(why), number(*count, "time")))
        .collect()
}

/// A percentage; `100 %` only if `part` equals `whole`.
pub(super) fn percent(part: u64, whole: u64) -> String {
    let share = share(part, whole) * 100.0;
    let shown = if part == whole {
        share
    } else {
        share.min(99.9)
    };
    format!("{shown:.1} %")
}

/// A duration in seconds with about three digits.
pub(super) fn time(seconds: impl Into<Option<f64>>) -> String {
    let seconds = seconds.into().unwrap_or_default();
    let (value, unit) = match seconds {
        s if s >= 1.0 => (s, "s"),
        s if s >= 1e-3 => (s * 1e3, "ms"),
        s if s >= 1e-6 => (s * 1e6, "µs"),
        s => (s * 1e9, "ns"),
    };
    match value {
        v if v >= 100.0 || v == 0.0 => format!("{v:.0} {unit}"),
        v if v >= 10.0 => format!("{v:.1} {unit}"),
        v => format!("{v:.2} {unit}"),
    }
}

/// The longest beginning that fits, and its width in columns.
fn fit(text: &str, width: usize) -> (&str, usize) {
    let mut used = 0;
    for (at, c) in text.char_indices() {
        let columns = c.width().unwrap_or(1);
        if used + columns > width {
            return (&text[..at], used);
        }
        used += columns;
    }
    (text, used)
}

/// The text in the first few pieces that fit; the other reports have the rest.
fn wrapped(text: &str, width: usize) -> Vec<String> {
    let mut pieces = Vec::new();
    let mut rest = text;
    while pieces.is_empty() || !rest.is_empty() && pieces.len() < 20 {
        let (piece, _) = fit(rest, width);
        pieces.push(piece.to_owned());
        rest = &rest[piece.len()..];
    }
    pieces
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::experiment::testing;

    #[test]
    fn times_and_shares() {
        let table = [
            (0.0, "0 ns"),
            (1.234e-6, "1.23 µs"),
            (0.0123, "12.3 ms"),
            (1.0, "1.00 s"),
            (250.0, "250 s"),
        ];
        for (seconds, text) in table {
            assert_eq!(time(seconds), text);
        }
        assert_eq!(percent(99_999, 100_000), "99.9 %");
        assert_eq!(percent(3, 3), "100.0 %");
    }

    #[test]
    fn nothing_compared_has_no_figures() {
        let mut nothing = Comparison::default();
        nothing.skip("a query without a reply");
        let text = nothing.to_text(TextOptions {
            width: 100,
            max_shown: 9,
        });
        for part in [
            "agreement  nothing was compared\n",
            "not compared: a query without a reply (1 time)\n",
        ] {
            assert!(text.contains(part), "{text}");
        }
        for part in ["%", "p50", "0 ns", "same"] {
            assert!(!text.contains(part), "{text}");
        }
        let json = nothing.to_json();
        assert!(json["agreement"].is_null() && json["compared"] == 0);
        assert!(json["new"]["latency"]["p50"].is_null(), "{json}");
    }

    #[test]
    fn no_line_is_too_wide_and_nothing_acts() {
        let comparison = testing::hostile();
        for width in [40, 79, 80, 120, 200] {
            let text = comparison.to_text(TextOptions {
                width,
                max_shown: 9,
            });
            for line in text.lines().skip_while(|line| !line.starts_with("──")) {
                let used: usize = line.chars().map(|c| c.width().unwrap_or(1)).sum();
                let is_row = !line.starts_with("──") && !line.contains("more disagreements");
                assert!(used <= width || !is_row, "{width}: {line}");
            }
            assert!(
                !text.contains('\x1b') && !text.contains('\u{202e}'),
                "{text}"
            );
            assert!(text.contains("rm -rf") && text.contains("old") && text.contains("new"));
        }
    }

    #[test]
    fn what_is_not_shown_is_said() {
        let comparison = testing::hostile();
        let text = comparison.to_text(TextOptions {
            width: 100,
            max_shown: 1,
        });
        let more = comparison.cases.len() - 1;
        assert!(
            text.contains(&format!("{more} more disagreements are not shown")),
            "{text}"
        );
        assert!(text.contains("agreement  "), "{text}");
        assert_eq!(text.matches("── ").count(), 1);
    }
}

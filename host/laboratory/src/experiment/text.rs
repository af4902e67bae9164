//! A comparison as text for a terminal.

use std::fmt::Write;
use std::time::Duration;

use serde_json::Value;

use super::answer::Degree;
use super::comparison::{Case, Comparison, Counts, Side};
use super::excerpt;
use super::groups::DisagreementGroup;
use super::lines::{self, ComparisonRow};

/// The layout.
#[derive(Clone, Copy, Debug)]
pub struct TextOptions {
    /// Columns of the terminal; below 80 the sides of a disagreement are shown one below the other.
    pub width: usize,
    /// How many disagreements are shown.
    pub max_shown: usize,
}

/// Lines of the input, and rows of a disagreement; the other reports have more.
const INPUT_LINES: usize = 8;
const ROWS: usize = 60;

/// The narrowest terminal with two columns.
const TWO_COLUMNS: usize = 80;

impl Comparison {
    /// The whole report. Recorded texts can't affect the terminal.
    pub fn to_text(&self, options: TextOptions) -> String {
        let mut out = self.table();
        let width = options.width.max(40);
        let groups = self.groups();
        if let Some(list) = alike(&groups, width) {
            out.push_str(&list);
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

    /// The number of answers that are not equal.
    pub(super) fn disagreements(&self) -> u64 {
        self.cases.len() as u64 + self.cases_left_out
    }

    /// Agreement, counts and latencies.
    fn table(&self) -> String {
        let mut out = String::new();
        for side in [&self.old, &self.new] {
            let _ = writeln!(out, "{:<10} {}", side.label, described(side));
        }
        let elapsed = match self.elapsed {
            Duration::ZERO => String::new(),
            elapsed => format!(
                ", {} on {}",
                time(elapsed),
                number(self.threads as u64, "thread")
            ),
        };
        let _ = writeln!(
            out,
            "{:<10} {} in {}{elapsed}\n",
            self.kind,
            number(self.steps, "step"),
            number(self.runs, "run"),
        );
        let agreement = agreement(&self.counts);
        let is_compared = agreement.is_some();
        let agreement = agreement.unwrap_or_else(|| NOTHING.to_owned());
        let _ = writeln!(out, "agreement  {agreement}");
        for degree in Degree::ALL.into_iter().filter(|_| is_compared) {
            let _ = writeln!(
                out,
                "  {:<18} {:>8}",
                degree.label(),
                self.counts.of(degree)
            );
        }
        for reason in missed(self) {
            let _ = writeln!(out, "not compared: {reason}");
        }
        if self.recorded > 0 {
            let of = |side: &Side| {
                format!(
                    "{} {}",
                    side.label,
                    percent(side.as_recorded, self.recorded)
                )
            };
            let _ = writeln!(
                out,
                "as the recorded run did, of {}: {}, {}",
                number(self.recorded, "answer"),
                of(&self.old),
                of(&self.new),
            );
        }
        for side in [&self.old, &self.new] {
            if side.asked > 0 {
                let _ = writeln!(
                    out,
                    "{} asked the model {}, {} without a recorded answer",
                    side.label,
                    number(side.asked, "time"),
                    side.unanswered
                );
            }
        }
        let called = [&self.old, &self.new];
        let called = called.into_iter().filter(|side| side.latency.calls() > 0);
        let called: Vec<&Side> = called.collect();
        if !called.is_empty() {
            let _ = writeln!(
                out,
                "\n{:<10} {:>9} {:>9} {:>9} {:>9} {:>9} {:>8}",
                "latency", "p50", "p90", "p99", "max", "total", "calls"
            );
        }
        for side in called {
            let own = &side.latency;
            let _ = writeln!(
                out,
                "{:<10} {:>9} {:>9} {:>9} {:>9} {:>9} {:>8}",
                side.label,
                time(own.quantile(0.5)),
                time(own.quantile(0.9)),
                time(own.quantile(0.99)),
                time(own.max()),
                time(own.total()),
                own.calls()
            );
        }
        for warning in &self.warnings {
            let _ = writeln!(out, "warning: {}", one_line(warning));
        }
        out
    }

    fn case(&self, out: &mut String, number: usize, case: &Case, width: usize) {
        let _ = writeln!(
            out,
            "\n── {number} of {}: {}",
            self.disagreements(),
            one_line(&title(case))
        );
        let input = shown(&case.input);
        for line in input.iter().take(INPUT_LINES) {
            let _ = writeln!(out, "   {}", fit(line, width - 3).0);
        }
        if input.len() > INPUT_LINES {
            let _ = writeln!(out, "   [... {} more lines]", input.len() - INPUT_LINES);
        }
        let (old, new) = (shown(&case.old), shown(&case.new));
        let rows = lines::rows(&old, &new, 3);
        if width < TWO_COLUMNS {
            self.unified(out, &rows, width);
        } else {
            self.two_columns(out, &rows, width);
        }
        if rows.len() > ROWS {
            let _ = writeln!(out, "   [... {} more rows]", rows.len() - ROWS);
        }
    }

    fn unified(&self, out: &mut String, rows: &[ComparisonRow<'_>], width: usize) {
        let _ = writeln!(out, "--- {}\n+++ {}", self.old.label, self.new.label);
        let mut added = Vec::new();
        let mut line = |mark: char, text: &str| {
            for piece in wrapped(text, width - 1) {
                let _ = writeln!(out, "{mark}{piece}");
            }
        };
        for row in rows.iter().take(ROWS) {
            if !matches!(row, ComparisonRow::Changed(..)) {
                added.drain(..).for_each(|text| line('+', text));
            }
            match row {
                ComparisonRow::Same(text) => line(' ', text),
                ComparisonRow::Skipped(count) => {
                    line(' ', &format!("[{count} lines are the same]"));
                }
                ComparisonRow::Changed(old, new) => {
                    old.iter().for_each(|text| line('-', text));
                    added.extend(new);
                }
            }
        }
        added.drain(..).for_each(|text| line('+', text));
    }

    fn two_columns(&self, out: &mut String, rows: &[ComparisonRow<'_>], width: usize) {
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
        row(' ', self.old.label, self.new.label);
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
    }
}

/// The groups, if they are fewer than the disagreements.
fn alike(groups: &[DisagreementGroup], width: usize) -> Option<String> {
    const MOST: usize = 20;
    if groups.iter().all(|group| group.cases.len() < 2) {
        return None;
    }
    let mut out = "\nalike\n".to_owned();
    for group in groups.iter().take(MOST) {
        let line = format!(
            "  {:>6}  {:<16} {}",
            group.cases.len(),
            group.degree.label(),
            one_line(&group.what)
        );
        let _ = writeln!(out, "{}", fit(&line, width).0);
    }
    if groups.len() > MOST {
        let _ = writeln!(out, "  and {} other groups", groups.len() - MOST);
    }
    Some(out)
}

/// The step and run of a case, and its degree.
pub(super) fn title(case: &Case) -> String {
    let action = case
        .index
        .map_or_else(String::new, |index| format!(", action {}", index + 1));
    format!(
        "{}, step {}{action}: {}",
        case.run,
        case.step,
        case.degree.label()
    )
}

/// The lines of a value, without control characters.
pub(super) fn shown(value: &Value) -> Vec<String> {
    let lines = excerpt::lines(value);
    lines.iter().map(|line| excerpt::printable(line)).collect()
}

pub(super) fn one_line(text: &str) -> String {
    excerpt::printable(&text.replace('\n', " "))
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
    let is_empty = match &side.config {
        Value::Null => true,
        Value::Object(map) => map.is_empty(),
        _ => false,
    };
    if !is_empty {
        let mut config = side.config.clone();
        excerpt::one(&mut config, 120);
        let _ = write!(out, " with {}", one_line(&config.to_string()));
    }
    out
}

pub(super) fn number(count: u64, of: &str) -> String {
    match count {
        1 => format!("1 {of}"),
        count => format!("{count} {of}s"),
    }
}

/// Shown in place of figures if there are none.
pub(super) const NOTHING: &str = "nothing was compared";

/// How many answers agree; none if nothing was compared.
pub(super) fn agreement(counts: &Counts) -> Option<String> {
    let (agreeing, compared) = (counts.agreeing(), counts.compared());
    (compared > 0).then(|| {
        format!(
            "{agreeing} of {} agree ({})",
            number(compared, "answer"),
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
    let share = super::comparison::share(part, whole) * 100.0;
    let shown = match part == whole {
        true => share,
        false => share.min(99.9),
    };
    format!("{shown:.1} %")
}

/// A duration with about three digits.
pub(super) fn time(duration: Duration) -> String {
    let seconds = duration.as_secs_f64();
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

/// The width of a character in columns, roughly: East Asian wide characters and pictures take two.
fn columns(c: char) -> usize {
    match c {
        '\u{300}'..='\u{36f}' | '\u{fe00}'..='\u{fe0f}' => 0,
        '\u{1100}'..='\u{115f}'
        | '\u{2e80}'..='\u{a4cf}'
        | '\u{ac00}'..='\u{d7a3}'
        | '\u{f900}'..='\u{faff}'
        | '\u{fe30}'..='\u{fe6f}'
        | '\u{ff00}'..='\u{ff60}'
        | '\u{ffe0}'..='\u{ffe6}'
        | '\u{1f300}'..='\u{1f64f}'
        | '\u{1f680}'..='\u{1faff}'
        | '\u{20000}'..='\u{3fffd}' => 2,
        _ => 1,
    }
}

/// The longest beginning that fits, and its width in columns.
fn fit(text: &str, width: usize) -> (&str, usize) {
    let mut used = 0;
    for (at, c) in text.char_indices() {
        if used + columns(c) > width {
            return (&text[..at], used);
        }
        used += columns(c);
    }
    (text, used)
}

/// The text in the first few pieces that fit; the other reports have the rest.
fn wrapped(text: &str, width: usize) -> Vec<String> {
    let mut pieces = Vec::new();
    let mut rest = text;
    while !rest.is_empty() && pieces.len() < 20 {
        let (piece, _) = fit(rest, width);
        let piece = match piece.is_empty() {
            true => &rest[..rest.chars().next().map_or(0, char::len_utf8)],
            false => piece,
        };
        pieces.push(piece.to_owned());
        rest = &rest[piece.len()..];
    }
    if pieces.is_empty() {
        pieces.push(String::new());
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
            assert_eq!(time(Duration::from_secs_f64(seconds)), text);
        }
        assert_eq!(percent(99_999, 100_000), "99.9 %");
        assert_eq!(percent(3, 3), "100.0 %");
    }

    #[test]
    fn nothing_compared_has_no_figures() {
        let mut nothing = Comparison::default();
        nothing.skip("a query without a reply");
        let text = nothing.table();
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
                let used: usize = line.chars().map(columns).sum();
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

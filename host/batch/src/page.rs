//! The report of a batch as one page without external resources: figures, plots and the instances.

use std::collections::HashSet;
use std::fmt::Write as _;

use mswea_text::{as_html, harmless};

use crate::folder::FolderState;
use crate::outcome::BatchResult;
use crate::report::{BatchReport, StatusLine};

/// The size of a plot.
const WIDTH: f64 = 420.0;
const HEIGHT: f64 = 200.0;
/// How many bars a histogram has at most.
const BARS: usize = 24;
/// How many characters of a text a cell shows.
const SHOWN: usize = 160;

const HEAD: &str = "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\
<meta name=\"viewport\" content=\"width=device-width\">\
<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'\">\
<title>Batch</title><style>\
:root{color-scheme:light dark}body{font:14px/1.4 system-ui,sans-serif;margin:2em auto;max-width:70em;padding:0 1em}\
table{border-collapse:collapse;width:100%}td,th{padding:.2em .6em;text-align:left;border-bottom:1px solid #8884;\
vertical-align:top}td.n,th.n{text-align:right;font-variant-numeric:tabular-nums}\
figure{display:inline-block;margin:1em 1em 1em 0}figcaption{font-weight:600}\
rect,circle{fill:#4a7fd4}.bad{fill:#d4684a}text{font:11px system-ui;fill:currentColor}line{stroke:#8888}\
td.t{max-width:30em;overflow-wrap:anywhere}</style></head><body>\n";

/// Makes the page of a batch from its report.
pub fn report_page(
    name: &str,
    state: &FolderState,
    report: &BatchReport,
    resolved: Option<&HashSet<String>>,
) -> String {
    let mut out = HEAD.to_owned();
    let _ = write!(
        out,
        "<h1>{}</h1>\n<p>{} of {} instances have a result",
        escaped(name),
        report.done,
        report.instances
    );
    if !state.model.is_empty() {
        let _ = write!(out, " · model {}", escaped(&state.model));
    }
    let _ = write!(out, " · cost {}", dollars(&report.total));
    if let Some(resolved) = resolved {
        let count = state
            .results
            .iter()
            .filter(|it| resolved.contains(&it.instance_id))
            .count();
        let _ = write!(out, " · resolved {count}");
    }
    if let Some(lost) = report.lost.filter(|lost| lost.queries > 0) {
        let cost = StatusLine {
            count: lost.attempts,
            cost: lost.cost,
            cost_unknown: lost.cost_unknown,
            ..StatusLine::default()
        };
        let _ = write!(
            out,
            " · lost, and not in the sums: {} queries (cost {}) of {} attempts that ended without a result",
            lost.queries,
            dollars(&cost),
            lost.attempts
        );
    }
    out.push_str("</p>\n");
    statuses(&mut out, report);
    let values =
        |of: fn(&BatchResult) -> f64| -> Vec<f64> { state.results.iter().map(of).collect() };
    let cost: Vec<f64> = state.results.iter().filter_map(|it| it.cost).collect();
    let steps = values(|it| f64::from(it.steps));
    let seconds = values(|it| it.seconds);
    histogram(&mut out, "Cost of an instance ($)", &cost);
    histogram(&mut out, "Steps of an instance", &steps);
    histogram(&mut out, "Time of an instance (s)", &seconds);
    scatter(&mut out, &state.results);
    instances(&mut out, state, resolved);
    out.push_str("</body></html>\n");
    out
}

/// Escapes text for HTML, also in an attribute, and removes control characters.
fn escaped(text: &str) -> String {
    as_html(&harmless(text))
}

/// The sum of the known costs.
fn dollars(line: &StatusLine) -> String {
    match (line.count - line.cost_unknown, line.cost_unknown) {
        (_, 0) => format!("${:.2}", line.cost),
        (0, _) => "unknown".to_owned(),
        (_, unknown) => format!("${:.2} and {unknown} unknown", line.cost),
    }
}

#[allow(clippy::cast_precision_loss, reason = "figures for people")]
fn statuses(out: &mut String, report: &BatchReport) {
    out.push_str("<h2>Exit statuses</h2>\n<table><tr><th>status</th><th class=n>count</th><th></th><th class=n>cost</th><th class=n>steps</th><th class=n>tokens in</th><th class=n>tokens out</th></tr>\n");
    let most = report
        .by_status
        .iter()
        .map(|it| it.count)
        .max()
        .unwrap_or(1)
        .max(1);
    for line in &report.by_status {
        let StatusLine {
            exit_status,
            count,
            steps,
            input_tokens,
            output_tokens,
            ..
        } = line;
        let width = 200.0 * *count as f64 / most as f64;
        let _ = writeln!(
            out,
            "<tr><td>{}</td><td class=n>{count}</td><td><svg width=200 height=12><rect width={width:.1} height=12 /></svg></td><td class=n>{}</td><td class=n>{steps}</td><td class=n>{input_tokens}</td><td class=n>{output_tokens}</td></tr>",
            escaped(exit_status),
            dollars(line)
        );
    }
    out.push_str("</table>\n");
}

#[allow(
    clippy::cast_precision_loss,
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "figures for people"
)]
fn histogram(out: &mut String, name: &str, values: &[f64]) {
    let largest = values.iter().copied().fold(0.0, f64::max);
    if values.is_empty() || largest <= 0.0 {
        return;
    }
    let mut counts = [0_usize; BARS];
    for value in values {
        let bar = (value / largest * BARS as f64) as usize;
        counts[bar.min(BARS - 1)] += 1;
    }
    let most = counts.iter().copied().max().unwrap_or(1).max(1);
    begin(out, name);
    let width = WIDTH / BARS as f64;
    for (bar, count) in counts.iter().enumerate() {
        let height = HEIGHT * *count as f64 / most as f64;
        let (x, y) = (bar as f64 * width, HEIGHT - height);
        let _ = write!(
            out,
            "<rect x={x:.1} y={y:.1} width={:.1} height={height:.1}><title>{count}</title></rect>",
            width - 1.0
        );
    }
    end(out, largest, most as f64);
}

/// A plot of cost against steps.
fn scatter(out: &mut String, results: &[BatchResult]) {
    let points = results
        .iter()
        .filter_map(|it| Some((f64::from(it.steps), it.cost?, it)));
    let most_steps = points.clone().map(|it| it.0).fold(0.0, f64::max);
    let most_cost = points.clone().map(|it| it.1).fold(0.0, f64::max);
    if most_steps <= 0.0 || most_cost <= 0.0 {
        return;
    }
    begin(out, "Cost ($) against steps");
    for (steps, cost, result) in points {
        let class = if result.has_failed() {
            " class=bad"
        } else {
            ""
        };
        let _ = write!(
            out,
            "<circle cx={:.1} cy={:.1} r=3{class}><title>{}: {steps} steps, ${cost:.4}</title></circle>",
            steps / most_steps * WIDTH,
            HEIGHT - cost / most_cost * HEIGHT,
            escaped(&result.instance_id)
        );
    }
    end(out, most_steps, most_cost);
}

fn begin(out: &mut String, name: &str) {
    let _ = write!(
        out,
        "<figure><figcaption>{name}</figcaption><svg width={} height={} viewBox=\"-40 -14 {} {}\">",
        WIDTH + 60.0,
        HEIGHT + 40.0,
        WIDTH + 60.0,
        HEIGHT + 40.0
    );
}

fn end(out: &mut String, right: f64, top: f64) {
    let number = |value: f64| match value {
        value if value >= 100.0 => format!("{value:.0}"),
        value => format!("{value:.3}")
            .trim_end_matches('0')
            .trim_end_matches('.')
            .to_owned(),
    };
    let _ = writeln!(
        out,
        "<line x1=0 y1={HEIGHT} x2={WIDTH} y2={HEIGHT} /><line x1=0 y1=0 x2=0 y2={HEIGHT} /><text x=0 y={0}>0</text><text x={WIDTH} y={0} text-anchor=end>{1}</text><text x=-4 y=8 text-anchor=end>{2}</text></svg></figure>",
        HEIGHT + 16.0,
        number(right),
        number(top)
    );
}

fn instances(out: &mut String, state: &FolderState, resolved: Option<&HashSet<String>>) {
    out.push_str("<h2>Instances</h2>\n<table><tr><th>instance</th><th>status</th>");
    if resolved.is_some() {
        out.push_str("<th>resolved</th>");
    }
    out.push_str(
        "<th class=n>cost</th><th class=n>steps</th><th class=n>seconds</th><th>error</th></tr>\n",
    );
    for result in &state.results {
        let cost = result
            .cost
            .map_or_else(|| "?".to_owned(), |cost| format!("${cost:.4}"));
        let error: String = result
            .error
            .as_deref()
            .unwrap_or_default()
            .chars()
            .take(SHOWN)
            .collect();
        let _ = write!(
            out,
            "<tr><td>{}</td><td>{}</td>",
            escaped(&result.instance_id),
            escaped(&result.exit_status)
        );
        if let Some(resolved) = resolved {
            let word = if resolved.contains(&result.instance_id) {
                "yes"
            } else {
                "no"
            };
            let _ = write!(out, "<td>{word}</td>");
        }
        let _ = writeln!(
            out,
            "<td class=n>{cost}</td><td class=n>{}</td><td class=n>{:.1}</td><td class=t>{}</td></tr>",
            result.steps,
            result.seconds,
            escaped(&error)
        );
    }
    out.push_str("</table>\n");
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lost::LostAttempts;

    #[test]
    fn hostile_text_is_text_and_every_instance_is_there() {
        let state = FolderState {
            results: (0..50)
                .map(|number| BatchResult {
                    instance_id: format!("i{number}"),
                    exit_status: if number == 7 { "<b>'x" } else { "Submitted" }.to_owned(),
                    error: (number == 7)
                        .then(|| "</table><script>alert(1)</script>\u{1b}[2J".to_owned()),
                    cost: Some(f64::from(number) / 10.0),
                    steps: number,
                    seconds: 1.5,
                    ..BatchResult::default()
                })
                .collect(),
            ..FolderState::default()
        };
        let resolved = HashSet::from(["i3".to_owned()]);
        let report = BatchReport {
            lost: Some(LostAttempts {
                attempts: 2,
                queries: 7,
                cost: 0.5,
                cost_unknown: 1,
            }),
            ..BatchReport::of(&state)
        };
        let page = report_page("a <dir>", &state, &report, Some(&resolved));
        for there in [
            "a &lt;dir&gt;",
            "&lt;b&gt;&#39;x",
            "&lt;script&gt;",
            "<td>i49</td>",
            "<td>yes</td>",
            "resolved 1",
            "lost, and not in the sums: 7 queries (cost $0.50 and 1 unknown) of 2 attempts",
            "<circle",
        ] {
            assert!(page.contains(there), "{there}");
        }
        for absent in ["<script", "</table><", "\u{1b}", "http://", "https://"] {
            assert!(!page.contains(absent), "{absent}");
        }
        // Without a result there are no plots.
        let empty = FolderState::default();
        let page = report_page("x", &empty, &BatchReport::of(&empty), None);
        assert!(!page.contains("<figure>") && page.ends_with("</body></html>\n"));
    }
}

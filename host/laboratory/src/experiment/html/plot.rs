//! The plots, as SVG inside the page. They contain only numbers, and names that are escaped.

use std::fmt::Write;

use super::super::answer::Degree;
use super::super::comparison::{Comparison, Counts, Side};
use super::super::latency::Latency;
use super::super::text::time;
use super::escape;

const WIDTH: f64 = 960.0;
/// The left and right edges of the plot.
const LEFT: f64 = 52.0;
const RIGHT: f64 = 12.0;

fn open(out: &mut String, height: f64, what: &str) {
    let _ = writeln!(
        out,
        "<svg viewBox=\"0 0 {WIDTH} {height}\" role=\"img\" aria-label=\"{}\">",
        escape(what)
    );
}

#[expect(clippy::cast_precision_loss, reason = "a plot needs no exact numbers")]
fn float(count: u64) -> f64 {
    count as f64
}

/// One bar, with a part for each degree.
pub(super) fn agreement(out: &mut String, counts: &Counts) {
    let what = format!(
        "{} of {} answers agree",
        counts.agreeing(),
        counts.compared()
    );
    open(out, 28.0, &what);
    let mut x = 0.0;
    let compared = float(counts.compared()).max(1.0);
    for degree in Degree::ALL {
        let count = counts.of(degree);
        if count == 0 {
            continue;
        }
        let width = WIDTH * float(count) / compared;
        // A small part is drawn with a visible width.
        let seen = width.max(2.0).min(WIDTH - x);
        let _ = writeln!(
            out,
            "<rect class=\"{}\" x=\"{:.2}\" y=\"0\" width=\"{seen:.2}\" height=\"28\"/>",
            degree.as_str(),
            x.min(WIDTH - 2.0),
        );
        x += width;
    }
    out.push_str("</svg>\n");
}

/// For both plugins: the share of calls over the time that they took at most, on a logarithmic
/// axis.
pub(super) fn latencies(out: &mut String, old: &Side, new: &Side) {
    let (height, top, bottom) = (250.0, 14.0, 214.0);
    open(
        out,
        height,
        "share of calls that took no longer than a time, for both plugins",
    );
    let sides = [("old", old), ("new", new)];
    let times = || {
        let all = sides
            .iter()
            .flat_map(|(_, side)| side.latency.distribution());
        all.map(|(time, _)| time.as_secs_f64().max(1e-9))
    };
    let low = times().fold(f64::INFINITY, f64::min);
    let high = times().fold(0.0, f64::max);
    let (low, high) = match low.is_finite() {
        true => (low.log10().floor(), high.log10().ceil()),
        false => (-6.0, -3.0),
    };
    let high = high.max(low + 1.0);
    let x = |seconds: f64| {
        let share = (seconds.max(1e-9).log10() - low) / (high - low);
        LEFT + share * (WIDTH - LEFT - RIGHT)
    };
    let y = |share: f64| bottom - share * (bottom - top);
    for share in [0.0, 0.5, 0.9, 0.99] {
        let at = y(share);
        let _ = writeln!(
            out,
            "<line class=\"axis\" x1=\"{LEFT}\" x2=\"{:.1}\" y1=\"{at:.1}\" y2=\"{at:.1}\"/>",
            WIDTH - RIGHT
        );
    }
    // Both labels at the top would be close together, so one is at the other end.
    for (share, label, at, anchor) in [
        (0.0, "0 %", LEFT - 8.0, "end"),
        (0.5, "50 %", LEFT - 8.0, "end"),
        (0.9, "90 %", LEFT - 8.0, "end"),
        (0.99, "99 %", LEFT - 8.0, "end"),
    ] {
        let shift = if share == 0.99 { -2.0 } else { 4.0 };
        let _ = writeln!(
            out,
            "<text x=\"{at:.1}\" y=\"{:.1}\" text-anchor=\"{anchor}\">{label}</text>",
            y(share) + shift
        );
    }
    #[expect(clippy::cast_possible_truncation, reason = "a power of ten of seconds")]
    for power in low as i32..=high as i32 {
        let seconds = 10_f64.powi(power);
        let at = x(seconds);
        let anchor = match power {
            _ if f64::from(power) == low => "start",
            _ if f64::from(power) == high => "end",
            _ => "middle",
        };
        let label = time(std::time::Duration::from_secs_f64(seconds));
        let label = label.replace(".00", "").replace(".0 ", " ");
        let _ = writeln!(
            out,
            "<line class=\"axis\" x1=\"{at:.1}\" x2=\"{at:.1}\" y1=\"{top}\" y2=\"{bottom}\"/>\
             <text x=\"{at:.1}\" y=\"{:.1}\" text-anchor=\"{anchor}\">{label}</text>",
            bottom + 18.0
        );
    }
    for (row, (class, side)) in sides.into_iter().enumerate() {
        if side.latency.calls() > 0 {
            curve(out, class, &side.latency, &x, &y);
        }
        let at = bottom - 26.0 + 17.0 * float(row as u64);
        let _ = writeln!(
            out,
            "<path class=\"curve {class}\" d=\"M{:.1} {:.1}h28\"/>\
             <text class=\"{class}\" x=\"{:.1}\" y=\"{at:.1}\" text-anchor=\"end\">{}</text>",
            WIDTH - RIGHT - 36.0,
            at - 4.0,
            WIDTH - RIGHT - 42.0,
            escape(side.label)
        );
    }
    out.push_str("</svg>\n");
}

fn curve(
    out: &mut String,
    class: &str,
    latency: &Latency,
    x: &impl Fn(f64) -> f64,
    y: &impl Fn(f64) -> f64,
) {
    let mut path = String::new();
    for (time, share) in latency.distribution() {
        let at = x(time.as_secs_f64());
        if path.is_empty() {
            let _ = write!(path, "M{at:.1} {:.1}", y(0.0));
        }
        let _ = write!(path, "H{at:.1}V{:.1}", y(share));
    }
    let _ = writeln!(out, "<path class=\"curve {class}\" d=\"{path}\"/>");
}

/// The most bars; with more steps, each bar stands for several.
const BARS: u32 = 80;

/// The share of answers that are not equal, over the number of the step.
pub(super) fn over_steps(out: &mut String, own: &Comparison) {
    let (height, top, bottom) = (200.0, 14.0, 164.0);
    open(
        out,
        height,
        "share of disagreements over the number of the step",
    );
    let last = own.by_step.keys().next_back().copied().unwrap_or(1).max(1);
    let per_bar = last.div_ceil(BARS);
    let bars = last.div_ceil(per_bar);
    let mut sums = vec![[0_u64; 5]; bars as usize];
    for (step, counts) in &own.by_step {
        let bar = (step.saturating_sub(1) / per_bar).min(bars - 1) as usize;
        for (sum, count) in sums[bar].iter_mut().zip(counts.0) {
            *sum += count;
        }
    }
    let share =
        |count: u64, sums: &[u64; 5]| float(count) / float(sums.iter().sum::<u64>()).max(1.0);
    let most = sums
        .iter()
        .map(|sums| share(sums[1..].iter().sum(), sums))
        .fold(0.0, f64::max);
    let scale = [0.05, 0.1, 0.25, 0.5, 1.0];
    let full = scale.into_iter().find(|full| most <= *full).unwrap_or(1.0);
    for part in [0.0, 0.5, 1.0] {
        let at = bottom - part * (bottom - top);
        let _ = writeln!(
            out,
            "<line class=\"axis\" x1=\"{LEFT}\" x2=\"{:.1}\" y1=\"{at:.1}\" y2=\"{at:.1}\"/>\
             <text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"end\">{} %</text>",
            WIDTH - RIGHT,
            LEFT - 8.0,
            at + 4.0,
            full * part * 100.0,
        );
    }
    let wide = (WIDTH - LEFT - RIGHT) / f64::from(bars);
    for (bar, sums) in sums.iter().enumerate() {
        let mut base = bottom;
        for degree in Degree::ALL.into_iter().skip(1) {
            let high = share(sums[degree.index()], sums) / full * (bottom - top);
            if high > 0.0 {
                base -= high;
                let _ = writeln!(
                    out,
                    "<rect class=\"{}\" x=\"{:.2}\" y=\"{base:.2}\" width=\"{:.2}\" height=\"{high:.2}\"/>",
                    degree.as_str(),
                    LEFT + wide * float(bar as u64) + 0.5,
                    (wide - 1.0).clamp(0.5, 48.0),
                );
            }
        }
    }
    let each = match per_bar {
        1 => String::new(),
        many => format!(" (each bar: {many} steps)"),
    };
    let _ = writeln!(
        out,
        "<text x=\"{LEFT}\" y=\"{:.1}\">step 1</text>\
         <text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"end\">step {last}{each}</text>\n</svg>",
        bottom + 18.0,
        WIDTH - RIGHT,
        bottom + 18.0,
    );
}

//! The plots, as SVG inside the page. They contain only numbers, and names that are escaped.

use super::super::answer::Degree;
use super::super::comparison::{Comparison, Counts, share};
use super::escape;

const WIDTH: f64 = 960.0;
/// The edges of the plot.
const LEFT: f64 = 52.0;
const RIGHT: f64 = WIDTH - 12.0;
const TOP: f64 = 14.0;

/// The most bars; with more steps, each bar stands for several.
const BARS: u32 = 80;

/// A plot with this content.
fn svg(height: f64, what: &str, content: &str) -> String {
    format!(
        "<svg viewBox=\"0 0 {WIDTH} {height}\" role=\"img\" aria-label=\"{}\">\n{content}</svg>\n",
        escape(what)
    )
}

fn bar(class: &str, [x, y, width, height]: [f64; 4]) -> String {
    format!(
        "<rect class=\"{class}\" x=\"{x:.2}\" y=\"{y:.2}\" width=\"{width:.2}\" height=\"{height:.2}\"/>\n"
    )
}

fn line([x1, y1, x2, y2]: [f64; 4]) -> String {
    format!("<line class=\"axis\" x1=\"{x1:.1}\" y1=\"{y1:.1}\" x2=\"{x2:.1}\" y2=\"{y2:.1}\"/>\n")
}

fn label(x: f64, y: f64, anchor: &str, text: &str) -> String {
    let text = escape(text);
    format!("<text x=\"{x:.1}\" y=\"{y:.1}\" text-anchor=\"{anchor}\">{text}</text>\n")
}

/// One bar, with a part for each degree.
pub(super) fn agreement(counts: Counts) -> String {
    let (mut out, mut x) = (String::new(), 0.0);
    for degree in Degree::ALL {
        let width = WIDTH * share(counts.of(degree), counts.compared());
        if width > 0.0 {
            // A small part is drawn with a visible width.
            let seen = width.max(2.0).min(WIDTH - x);
            out.push_str(&bar(degree.as_str(), [x.min(WIDTH - 2.0), 0.0, seen, 28.0]));
        }
        x += width;
    }
    let (agreeing, compared) = (counts.agreeing(), counts.compared());
    svg(
        28.0,
        &format!("{agreeing} of {compared} answers agree"),
        &out,
    )
}

/// The share of answers that are not equal, over the number of the step.
pub(super) fn over_steps(own: &Comparison) -> String {
    let bottom = 164.0;
    let last = own.by_step.keys().next_back().copied().unwrap_or(1).max(1);
    let per_bar = last.div_ceil(BARS);
    let mut bars = vec![Counts::default(); last.div_ceil(per_bar) as usize];
    for (step, counts) in &own.by_step {
        bars[(step.saturating_sub(1) / per_bar) as usize].merge(*counts);
    }
    let differing = |bar: &Counts| 1.0 - share(bar.of(Degree::Same), bar.compared());
    let most = bars.iter().map(differing).fold(0.0, f64::max);
    let scale = [0.05, 0.1, 0.25, 0.5, 1.0];
    let full = scale.into_iter().find(|full| most <= *full).unwrap_or(1.0);
    let mut out = String::new();
    for part in [0.0, 0.5, 1.0] {
        let at = bottom - part * (bottom - TOP);
        out.push_str(&line([LEFT, at, RIGHT, at]));
        out.push_str(&label(
            LEFT - 8.0,
            at + 4.0,
            "end",
            &format!("{} %", full * part * 100.0),
        ));
    }
    let wide = (RIGHT - LEFT) / f64::from(last.div_ceil(per_bar));
    let mut x = LEFT + 0.5;
    for counts in bars {
        let mut y = bottom;
        for degree in Degree::ALL
            .into_iter()
            .skip(1)
            .filter(|degree| counts.of(*degree) > 0)
        {
            let high = share(counts.of(degree), counts.compared()) / full * (bottom - TOP);
            y -= high;
            out.push_str(&bar(
                degree.as_str(),
                [x, y, (wide - 1.0).clamp(0.5, 48.0), high],
            ));
        }
        x += wide;
    }
    let each = match per_bar {
        1 => String::new(),
        many => format!(" (each bar: {many} steps)"),
    };
    out.push_str(&label(LEFT, bottom + 18.0, "start", "step 1"));
    out.push_str(&label(
        RIGHT,
        bottom + 18.0,
        "end",
        &format!("step {last}{each}"),
    ));
    svg(
        200.0,
        "share of disagreements over the number of the step",
        &out,
    )
}

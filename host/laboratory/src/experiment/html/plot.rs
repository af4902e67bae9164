//! The plots, as SVG inside the page. They contain only numbers, and names that are escaped.

use std::fmt::Write;
use std::time::Duration;

use super::super::answer::Degree;
use super::super::comparison::{Comparison, Counts, share};
use super::super::text::time;
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

/// For both plugins: the share of calls over the time that they took at most, on a logarithmic
/// axis.
pub(super) fn latencies(own: &Comparison) -> String {
    let bottom = 214.0;
    let sides = [("old", &own.old), ("new", &own.new)];
    let power = |time: Duration| time.as_secs_f64().max(1e-9).log10();
    let times = sides
        .iter()
        .flat_map(|(_, side)| side.latency.distribution());
    let powers: Vec<f64> = times.map(|(time, _)| power(time)).collect();
    let low = powers.iter().copied().fold(f64::INFINITY, f64::min).floor();
    let high = powers.iter().copied().fold(low + 1.0, f64::max).ceil();
    let x = |power: f64| LEFT + (power - low) / (high - low) * (RIGHT - LEFT);
    let y = |share: f64| bottom - share * (bottom - TOP);
    let mut out = String::new();
    for (share, name, shift) in [
        (0.0, "0 %", 4.0),
        (0.5, "50 %", 4.0),
        (0.9, "90 %", 4.0),
        (0.99, "99 %", -2.0),
    ] {
        out.push_str(&line([LEFT, y(share), RIGHT, y(share)]));
        out.push_str(&label(LEFT - 8.0, y(share) + shift, "end", name));
    }
    let mut power_of_ten = low;
    while power_of_ten <= high {
        let at = x(power_of_ten);
        let anchor = match power_of_ten {
            power if power == low => "start",
            power if power == high => "end",
            _ => "middle",
        };
        let name = time(Duration::from_secs_f64(10_f64.powf(power_of_ten)));
        let name = name.replace(".00", "").replace(".0 ", " ");
        out.push_str(&line([at, TOP, at, bottom]));
        out.push_str(&label(at, bottom + 18.0, anchor, &name));
        power_of_ten += 1.0;
    }
    for ((class, side), at) in sides.into_iter().zip([188.0, 205.0]) {
        let mut path = format!("M{:.1} {at:.1}h28", RIGHT - 36.0);
        for (index, (time, share)) in side.latency.distribution().into_iter().enumerate() {
            let at = x(power(time));
            if index == 0 {
                let _ = write!(path, "M{at:.1} {bottom:.1}");
            }
            let _ = write!(path, "H{at:.1}V{:.1}", y(share));
        }
        let _ = writeln!(out, "<path class=\"curve {class}\" d=\"{path}\"/>");
        out.push_str(&label(RIGHT - 42.0, at + 4.0, "end", &side.label));
    }
    svg(
        250.0,
        "share of calls that took no longer than a time, for both plugins",
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

//! A tariff as one line of text, the format of price tables.
//!
//! `1.5e-6,6e-6,1.5e-7;272001@3e-6,9e-6|flex:7.5e-7,3e-6|off/31*960-30:1e-7`: plans are separated
//! by `|`, tiers by `;`, rates by `,` in the order of [`super::tariff::COLUMNS`]; empty ones at the
//! end are left out.

use std::fmt::Write as _;

use super::tariff::{COLUMNS, OffPeak, Plan, Row, Tariff, Tier, Window};

/// Begins the off-peak plan; names of service tiers contain no `/`.
const OFF: &str = "off/";

/// The line of a tariff.
pub(super) fn write(tariff: &Tariff) -> String {
    let mut out = plan(&tariff.standard);
    for (name, service) in &tariff.services {
        let _ = write!(out, "|{name}:{}", plan(service));
    }
    if let Some(off_peak) = &tariff.off_peak {
        let windows: Vec<String> = off_peak
            .windows
            .iter()
            .map(|window| format!("{}*{}-{}", window.days, window.from, window.to))
            .collect();
        let _ = write!(out, "|{OFF}{}:{}", windows.join("+"), row(&off_peak.row));
    }
    out
}

fn plan(plan: &Plan) -> String {
    let tiers = plan.tiers().iter().map(|tier| match tier.from {
        0 => row(&tier.row),
        from => format!("{from}@{}", row(&tier.row)),
    });
    tiers.collect::<Vec<_>>().join(";")
}

fn row(row: &Row) -> String {
    let columns = row.columns();
    let used = columns
        .iter()
        .rposition(Option::is_some)
        .map_or(0, |last| last + 1);
    let rates = columns[..used].iter().map(|rate| match rate {
        // The shortest digits that parse to the same number.
        Some(rate) => format!("{rate:e}"),
        None => String::new(),
    });
    rates.collect::<Vec<_>>().join(",")
}

/// The tariff of a line; none if the line is malformed.
pub(super) fn read(line: &str) -> Option<Tariff> {
    let mut parts = line.split('|');
    let mut tariff = Tariff {
        standard: read_plan(parts.next()?)?,
        ..Tariff::default()
    };
    for part in parts {
        let (name, rest) = part.split_once(':')?;
        match name.strip_prefix(OFF) {
            Some(windows) => {
                let windows = windows.split('+').filter(|window| !window.is_empty());
                tariff.off_peak = Some(OffPeak {
                    row: read_row(rest)?,
                    windows: windows.map(read_window).collect::<Option<_>>()?,
                });
            }
            None => tariff.services.push((name.to_owned(), read_plan(rest)?)),
        }
    }
    Some(tariff)
}

fn read_plan(text: &str) -> Option<Plan> {
    let tiers = text.split(';').map(|tier| {
        let (from, rates) = match tier.split_once('@') {
            Some((from, rates)) => (from.parse().ok()?, rates),
            None => (0, tier),
        };
        let row = read_row(rates)?;
        Some(Tier { from, row })
    });
    tiers.collect::<Option<_>>().map(Plan)
}

fn read_row(text: &str) -> Option<Row> {
    let mut columns = [None; COLUMNS.len()];
    for (index, rate) in text.split(',').enumerate() {
        let slot = columns.get_mut(index)?;
        if !rate.is_empty() {
            *slot = Some(rate.parse().ok().filter(|rate: &f64| rate.is_finite())?);
        }
    }
    Some(Row::of_columns(columns))
}

fn read_window(text: &str) -> Option<Window> {
    let (days, span) = text.split_once('*')?;
    let (from, to) = span.split_once('-')?;
    Some(Window {
        days: days.parse().ok()?,
        from: from.parse().ok()?,
        to: to.parse().ok()?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_and_back() {
        let full = Row::of_columns([1e-6, 2.5e-6, 0.0, 1.0, 3e-7, 1e-10, 0.1 + 0.2].map(Some));
        let sparse = Row {
            input: Some(1.5e-6),
            cache_write: Some(0.0),
            ..Row::default()
        };
        let tier = |from, row| Tier { from, row };
        let tariff = Tariff {
            standard: Plan(vec![tier(0, full), tier(200_001, sparse)]),
            services: vec![
                ("flex".into(), Plan::flat(sparse)),
                (
                    "priority".into(),
                    Plan(vec![tier(0, sparse), tier(9, full)]),
                ),
            ],
            off_peak: Some(OffPeak {
                row: sparse,
                windows: vec![
                    Window {
                        days: 31,
                        from: 960,
                        to: 30,
                    },
                    Window {
                        days: 96,
                        from: 0,
                        to: 0,
                    },
                ],
            }),
        };
        let no_hours = Tariff {
            off_peak: Some(OffPeak::default()),
            ..Tariff::flat(Row::default())
        };
        for (tariff, line) in [
            (
                tariff,
                "1e-6,2.5e-6,0e0,1e0,3e-7,1e-10,3.0000000000000004e-1;200001@1.5e-6,,,0e0\
                 |flex:1.5e-6,,,0e0\
                 |priority:1.5e-6,,,0e0;9@1e-6,2.5e-6,0e0,1e0,3e-7,1e-10,3.0000000000000004e-1\
                 |off/31*960-30+96*0-0:1.5e-6,,,0e0",
            ),
            (Tariff::flat(sparse), "1.5e-6,,,0e0"),
            (no_hours, "|off/:"),
        ] {
            assert_eq!(write(&tariff), line);
            assert_eq!(read(line), Some(tariff), "{line}");
        }
    }

    #[test]
    fn other_lines_are_refused() {
        for line in [
            "x",
            "1,2,3,4,5,6,7,8",
            "1;x@2",
            "1;2@x",
            "1|flex",
            "1|flex:x",
            "1|off/1:2",
            "1|off/1*2:3",
            "1|off/1*2-x:3",
            "1|off/256*2-3:3",
            "NaN",
            "inf",
        ] {
            assert_eq!(read(line), None, "{line}");
        }
    }
}

//! A comparison as one HTML file without scripts, and without fonts or images from elsewhere.
//!
//! Recorded texts may be hostile: every text goes through [`escape`], and the page's content
//! security policy allows nothing but its own style.

mod plot;

use std::fmt::Write;

use super::answer::Degree;
use super::comparison::{Case, Comparison};
use super::excerpt::{number, one_line, printable};
use super::lines::{self, ComparisonRow};
use super::text::{NOTHING, described, percent, shown, title};

/// A page that is larger than this shows no further disagreements, for the sake of browsers.
const MOST: usize = 4 << 20;

/// The most rows of one disagreement.
const ROWS: usize = 400;

const STYLE: &str = include_str!("html/style.css");

impl Comparison {
    /// The report as a page.
    pub fn to_html(&self) -> String {
        Self::page(std::slice::from_ref(self))
    }

    /// Several reports on one page: the shadows of a run.
    pub fn page(all: &[Self]) -> String {
        let title = all.first().map_or_else(
            || "nothing compared".to_owned(),
            |one| format!("{} and {}", one.old.name, one.new.name),
        );
        let mut out = format!(
            "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
             <meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'\">\n\
             <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
             <meta name=\"color-scheme\" content=\"light dark\">\n\
             <title>{}</title>\n<style>\n{STYLE}</style>\n</head>\n<body>\n<main>\n",
            escape(&one_line(&title))
        );
        all.iter().for_each(|one| section(&mut out, one));
        out.push_str("</main>\n</body>\n</html>\n");
        out
    }
}

/// A text for content and quoted attributes, without markup and control characters.
pub(super) fn escape(text: &str) -> String {
    mswea_text::as_html(&printable(text))
}

fn section(out: &mut String, own: &Comparison) {
    let [old, new] = [&own.old, &own.new].map(|side| escape(&one_line(&side.name)));
    let _ = writeln!(
        out,
        "<section>\n<p class=\"kind\">{}</p>\n\
         <h1><span class=\"old\">{old}</span> and <span class=\"new\">{new}</span></h1>\n\
         <p class=\"what\">{}.</p>\n<dl class=\"sides\">",
        escape(&own.kind),
        own.amount(),
    );
    for (class, side) in [("old", &own.old), ("new", &own.new)] {
        let (label, described) = (escape(&side.label), escape(&described(side)));
        let _ = writeln!(
            out,
            "<dt class=\"{class}\">{label}</dt><dd>{described}</dd>"
        );
    }
    out.push_str("</dl>\n");
    for warning in &own.warnings {
        let _ = writeln!(
            out,
            "<p class=\"warning\">{}</p>",
            escape(&one_line(warning))
        );
    }
    out.push_str("<h2>Agreement</h2>\n");
    let (agreeing, compared) = (own.counts.agreeing(), own.counts.compared());
    if compared == 0 {
        let _ = writeln!(out, "<p class=\"figure\">{NOTHING}</p>");
    } else {
        let _ = writeln!(
            out,
            "<p class=\"figure\"><strong>{}</strong> {agreeing} of {compared} answers</p>\n<figure>\n{}<ul class=\"legend\">",
            percent(agreeing, compared),
            plot::agreement(own.counts)
        );
        for degree in Degree::ALL {
            let (word, label, count) = (degree.as_str(), degree.label(), own.counts.of(degree));
            let _ = writeln!(
                out,
                "<li><i class=\"{word}\"></i>{label} <b>{count}</b></li>"
            );
        }
        out.push_str("</ul>\n</figure>\n");
    }
    let notes: Vec<String> = own.notes().iter().map(|note| escape(note)).collect();
    let _ = writeln!(out, "<p>{}</p>", notes.join("<br>"));
    let times = own.times();
    if !times.is_empty() {
        out.push_str("<h2>Latency of a call</h2>\n<div class=\"wide\"><table class=\"times\">\n");
        for (row, cell) in times.iter().zip(["th", "td", "td"]) {
            let [label, times @ ..] = row;
            let class = if *label == own.new.label {
                "new"
            } else {
                "old"
            };
            let times = times.iter().map(|time| format!("<{cell}>{time}</{cell}>"));
            let (label, times) = (escape(label), times.collect::<String>());
            let _ = writeln!(out, "<tr><th class=\"{class}\">{label}</th>{times}</tr>");
        }
        out.push_str("</table></div>\n");
    }
    if own.disagreements() > 0 {
        let plot = plot::over_steps(own);
        let _ = writeln!(
            out,
            "<h2>Disagreements over the steps</h2>\n<figure>\n{plot}</figure>"
        );
        cases(out, own);
    }
    out.push_str("</section>\n");
}

fn cases(out: &mut String, own: &Comparison) {
    let all = own.disagreements();
    // Without a script: the style hides the cases that are not chosen.
    let _ = writeln!(
        out,
        "<h2>{}</h2>\n<div class=\"cases\">\n<p class=\"filter\">",
        number(all, "disagreement")
    );
    let there = |degree: &Degree| own.cases.iter().any(|case| case.degree == *degree);
    for degree in Degree::ALL.into_iter().filter(there) {
        let (word, label) = (degree.as_str(), degree.label());
        let _ = writeln!(
            out,
            "<label><input type=\"checkbox\" class=\"{word}\" checked>{label}</label>"
        );
    }
    out.push_str("</p>\n");
    let mut written = 0;
    for group in own.groups() {
        let (word, label) = (group.degree.as_str(), group.degree.label());
        let (count, what) = (group.cases.len(), escape(&one_line(&group.what)));
        let _ = writeln!(
            out,
            "<div class=\"{word} alike\">\n<h3><i class=\"{word}\"></i>{count} {label}: {what}</h3>"
        );
        for index in group.cases {
            if out.len() > MOST {
                break;
            }
            one_case(out, own, &own.cases[index], written == 0);
            written += 1;
        }
        out.push_str("</div>\n");
    }
    out.push_str("</div>\n");
    if all > written {
        let _ = writeln!(
            out,
            "<p class=\"warning\">{} more are not shown here; those that were kept are in the JSON report.</p>",
            all - written
        );
    }
}

fn one_case(out: &mut String, own: &Comparison, case: &Case, open: bool) {
    let (old, new) = (shown(&case.old), shown(&case.new));
    let rows = lines::rows(&old, &new, 4);
    let _ = writeln!(
        out,
        "<details{}><summary><i class=\"{}\"></i>{}{}</summary>\n<p class=\"label\">Input</p>\n<pre>{}</pre>\n\
         <div class=\"wide\"><table class=\"diff\">\n<tr><th class=\"old\">{}</th><th class=\"new\">{}</th></tr>",
        if open { " open" } else { "" },
        case.degree.as_str(),
        escape(&one_line(&title(case))),
        preview(&rows),
        escape(&shown(&case.input).join("\n")),
        escape(&own.old.label),
        escape(&own.new.label)
    );
    for row in rows.iter().take(ROWS) {
        let row = match row {
            ComparisonRow::Same(line) => {
                let line = escape(line);
                format!("<tr><td>{line}</td><td>{line}</td></tr>")
            }
            ComparisonRow::Skipped(count) => {
                format!("<tr class=\"gap\"><td colspan=\"2\">{count} lines are the same</td></tr>")
            }
            ComparisonRow::Changed(old, new) => {
                let (left, right) = match (old, new) {
                    (Some(old), Some(new)) => lines::marks(old, new),
                    _ => (0..old.map_or(0, str::len), 0..new.map_or(0, str::len)),
                };
                let (old, new) = (cell("old", *old, left), cell("new", *new, right));
                format!("<tr>{old}{new}</tr>")
            }
        };
        let _ = writeln!(out, "{row}");
    }
    out.push_str("</table></div>\n");
    if rows.len() > ROWS {
        let _ = writeln!(
            out,
            "<p class=\"warning\">{} more rows</p>",
            rows.len() - ROWS
        );
    }
    out.push_str("</details>\n");
}

/// The first line in which the answers differ, which is shown while the case is closed.
fn preview(rows: &[ComparisonRow<'_>]) -> String {
    let side = |line: &Option<&str>| {
        let line = line.unwrap_or("–").trim();
        let short: String = line.chars().take(60).collect();
        let more = if short.len() < line.len() { "…" } else { "" };
        escape(&format!("{short}{more}"))
    };
    let changed = rows.iter().find_map(|row| match row {
        ComparisonRow::Changed(old, new) => Some((side(old), side(new))),
        _ => None,
    });
    changed.map_or_else(String::new, |(old, new)| {
        format!("<br><span class=\"old\">{old}</span> → <span class=\"new\">{new}</span>")
    })
}

/// A line of one side with a mark on the part that differs.
fn cell(class: &str, line: Option<&str>, part: std::ops::Range<usize>) -> String {
    let Some(line) = line else {
        return "<td class=\"none\"></td>".to_owned();
    };
    let (before, after) = (escape(&line[..part.start]), escape(&line[part.end..]));
    let inside = match &line[part] {
        "" => String::new(),
        inside => format!("<mark>{}</mark>", escape(inside)),
    };
    format!("<td class=\"{class}\">{before}{inside}{after}</td>")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::experiment::testing;

    /// The tags of a page, without attributes.
    fn tags(page: &str) -> std::collections::BTreeMap<String, usize> {
        let mut found = std::collections::BTreeMap::new();
        for piece in page.split('<').skip(1) {
            let name: String = piece
                .chars()
                .take_while(|c| !c.is_whitespace() && *c != '>')
                .collect();
            *found.entry(name).or_default() += 1;
        }
        found
    }

    const KNOWN: &[&str] = &[
        "!doctype", "html", "head", "meta", "title", "style", "body", "main", "section", "p", "h1",
        "h2", "span", "dl", "dt", "dd", "figure", "ul", "li", "i", "b", "strong", "br", "div",
        "table", "tr", "th", "td", "details", "summary", "pre", "mark", "svg", "g", "rect", "path",
        "line", "text", "h3", "label", "input",
    ];

    #[test]
    fn no_recorded_tag_survives() {
        let page = testing::hostile().to_html();
        for (tag, _) in tags(&page) {
            let name = tag.trim_start_matches('/');
            assert!(KNOWN.contains(&name), "{tag}");
        }
        // Texts contain no `>` after escaping, so everything between angle brackets is the page's
        // own. Nothing in it loads, runs or links to something else.
        for piece in page.split('<').skip(1) {
            let tag = piece.split('>').next().unwrap_or_default();
            for word in ["src=", "href=", "style=", " on", "url("] {
                assert!(!tag.contains(word), "{tag}");
            }
        }
        for word in ["@import", "url(", "\u{202e}", "\0", "\u{1b}"] {
            assert!(!page.contains(word), "{word}");
        }
        assert!(page.contains("&lt;script&gt;"));
        // Every tag that is opened is closed.
        let tags = tags(&page);
        for name in KNOWN
            .iter()
            .filter(|name| tags.contains_key(&format!("/{name}")))
        {
            let is_void = matches!(*name, "rect" | "path" | "line" | "input");
            assert!(
                is_void || tags.get(*name) == tags.get(&format!("/{name}")),
                "{name}"
            );
        }
    }

    #[test]
    fn disagreements_are_grouped_previewed_and_can_be_hidden() {
        let page = testing::hostile().to_html();
        let groups = testing::hostile().groups();
        assert_eq!(page.matches("<h3>").count(), groups.len());
        let own = testing::hostile();
        let differing = own.cases.iter().filter(|case| case.old != case.new);
        let previews = page.matches("<br><span class=\"old\">").count();
        assert_eq!(previews, differing.count());
        for degree in ["wording", "different", "one_failed", "both_failed"] {
            assert!(
                page.contains(&format!("class=\"{degree}\" checked")),
                "{degree}"
            );
            let rule = format!(".cases:has(input.{degree}:not(:checked)) .alike.{degree}");
            assert!(page.contains(&rule), "{rule}");
        }
    }

    #[test]
    fn parts_are_marked() {
        let page = testing::hostile().to_html();
        assert!(page.contains("<mark>"), "{page}");
        assert!(page.contains("prefers-color-scheme: dark"));
    }

    #[test]
    fn a_page_of_nothing_is_one() {
        let page = Comparison::default().to_html();
        assert!(page.contains(NOTHING) && page.ends_with("</html>\n"));
        let (_, body) = page.split_once("</style>").unwrap();
        for word in ["NaN", "inf", "%", "p50", "0 ns"] {
            assert!(!body.contains(word), "{word}: {body}");
        }
    }

    /// `PAGE=/tmp/page.html cargo test -- --ignored a_page_to_look_at`
    #[test]
    #[ignore = "writes a page for a person to look at, and checks nothing"]
    fn a_page_to_look_at() {
        let path = std::env::var("PAGE").unwrap();
        std::fs::write(path, testing::hostile().to_html()).unwrap();
    }
}

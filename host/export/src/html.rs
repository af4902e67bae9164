//! A run as one page without external resources.
//!
//! The page has no script, and its content policy forbids scripts and all requests. So text of a
//! model or a command could do nothing even if it were not escaped.

use std::fmt::Write as _;

use mswea_text::{as_html, harmless};

use crate::conversation::{Conversation, ConversationStep, ShownResult, StepSource};
use crate::images::embedded;
use crate::markdown::{command, facts, headline, result_title, title};
use crate::patches::{PatchLine, parts};
use crate::readable::readable;

const STYLE: &str = include_str!("page.css");
const POLICY: &str = "default-src 'none'; style-src 'unsafe-inline'; img-src data:; base-uri 'none'; \
                      form-action 'none'";
/// Texts with more lines or bytes are folded.
const LINES: usize = 25;
const BYTES: usize = 4_000;
/// What the model wrote is folded if it is longer.
const SAID: usize = 16 << 10;
/// Longer texts are in parts, each folded, because a browser needs seconds for the lines of a large one.
const PART: usize = 256 << 10;

/// The run as a page; focused: without the prompts and the model's reasoning.
pub fn to_html(run: &Conversation, is_focused: bool) -> String {
    let name = escaped(&headline(run));
    let mut out = format!(
        "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta http-equiv=\"Content-Security-Policy\" content=\"{POLICY}\">\n\
         <meta name=\"viewport\" content=\"width=device-width,initial-scale=1\">\n\
         <title>{name}</title>\n<style>\n{STYLE}</style>\n</head>\n<body>\n<h1>{name}</h1>\n<dl>\n"
    );
    for (name, value) in facts(run) {
        let _ = writeln!(out, "<dt>{name}</dt><dd>{}</dd>", escaped(&value));
    }
    out.push_str("</dl>\n");
    for (number, step) in (1..).zip(&*run.told()) {
        if !(is_focused && step.source == StepSource::System) {
            write_step(&mut out, number, step, is_focused);
        }
    }
    if !run.submission.is_empty() {
        out.push_str("<section id=\"submission\">\n<h2>Submission</h2>\n");
        long(&mut out, "Submission", &run.submission);
        out.push_str("</section>\n");
    }
    out.push_str("</body>\n</html>\n");
    out
}

fn write_step(out: &mut String, number: usize, step: &ConversationStep, is_focused: bool) {
    let class = match step.rejected {
        Some(_) => " class=\"refused\"",
        None => "",
    };
    let title = escaped(&title(step));
    let _ = writeln!(
        out,
        "<section id=\"step-{number}\"{class}>\n<h2><a href=\"#step-{number}\">{number}</a> {title}</h2>"
    );
    if !is_focused && !step.reasoning.is_empty() {
        folded(out, "Reasoning", &step.reasoning);
    }
    match step.source {
        StepSource::System => folded(out, "System prompt", &step.text),
        StepSource::User => long(out, "Message", &step.text),
        StepSource::Agent if step.text.is_empty() => {}
        StepSource::Agent if step.text.len() > SAID => folded(out, "Text", &step.text),
        StepSource::Agent => {
            let _ = writeln!(out, "<div class=\"said\">{}</div>", escaped(&step.text));
        }
    }
    write_images(out, &step.images);
    for call in &step.calls {
        let text = match call.name.as_str() {
            "bash" => command(&call.arguments),
            name => format!("{name} {}", command(&call.arguments)),
        };
        if text.len() > SAID {
            folded(out, "Call", &text);
        } else {
            let _ = writeln!(out, "<pre class=\"call\">{}</pre>", escaped(&text));
        }
    }
    for shown in &step.shown {
        write_result(out, shown);
    }
    out.push_str("</section>\n");
}

fn write_result(out: &mut String, shown: &ShownResult) {
    long(out, &result_title(shown), &readable(&shown.text));
    write_images(out, &shown.images);
}

/// Shows embedded images. An image with an external URL is named, and never fetched.
fn write_images(out: &mut String, images: &[String]) {
    for url in images {
        let _ = match embedded(url) {
            Some(_) => writeln!(out, "<img alt=\"image\" src=\"{url}\">"),
            None => writeln!(out, "<p>image: <code>{}</code></p>", escaped(url)),
        };
    }
}

/// Writes a text, folded if it is long.
fn long(out: &mut String, title: &str, text: &str) {
    if text.len() > BYTES || text.lines().count() > LINES {
        folded(out, title, text);
        return;
    }
    let open = format!("<details open><summary>{}</summary>", escaped(title));
    let _ = writeln!(out, "{open}{}</details>", pre(text));
}

fn folded(out: &mut String, title: &str, text: &str) {
    let lines = text.lines().count();
    let (title, noun) = (escaped(title), if lines == 1 { "line" } else { "lines" });
    let open = format!("<details><summary>{title} · {lines} {noun}</summary>");
    let _ = writeln!(out, "{open}{}</details>", body(text));
}

/// The text, in parts if it is large.
fn body(text: &str) -> String {
    if text.len() <= PART {
        return pre(text);
    }
    let (mut out, mut rest, mut number) = (String::new(), text, 0);
    let count = text.len().div_ceil(PART);
    while !rest.is_empty() {
        let most = rest.floor_char_boundary(PART);
        let line = rest[..most].rfind('\n').filter(|_| most < rest.len());
        // A line end in the second half, so that there are no more than twice as many parts.
        let end = line.map(|it| it + 1).filter(|it| *it > PART / 2);
        let (part, after) = rest.split_at(end.unwrap_or(most));
        (rest, number) = (after, number + 1);
        let _ = write!(
            out,
            "<details><summary>Part {number} of about {count}</summary>{}</details>",
            pre(part)
        );
    }
    out
}

/// The text, with colours if it has a patch.
fn pre(text: &str) -> String {
    let text = harmless(text);
    let mut out = "<pre>".to_owned();
    for (kind, part) in parts(&text) {
        let class = match kind {
            PatchLine::Plain => {
                out.push_str(&as_html(part));
                continue;
            }
            PatchLine::Head => "head",
            PatchLine::Added => "added",
            PatchLine::Removed => "removed",
        };
        let _ = write!(out, "<span class=\"{class}\">{}</span>", as_html(part));
    }
    out.push_str("</pre>");
    out
}

/// Escapes text for HTML, also in an attribute, and removes control characters.
fn escaped(text: &str) -> String {
    as_html(&harmless(text))
}

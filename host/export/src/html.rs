//! A run as one page without external resources.
//!
//! The page has no script, and its content policy forbids scripts and all requests. So text of a
//! model or a command could do nothing even if it were not escaped.

use std::fmt::Write as _;

use mswea_text::{as_html, harmless};

use crate::conversation::{Conversation, ConversationStep, ShownResult, StepSource};
use crate::images::embedded;
use crate::markdown::{command, facts, result_title, title};

const STYLE: &str = include_str!("page.css");
const POLICY: &str = "default-src 'none'; style-src 'unsafe-inline'; img-src data:; base-uri 'none'; \
                      form-action 'none'";
/// Texts with more lines or bytes are folded.
const LINES: usize = 25;
const BYTES: usize = 4_000;

/// The run as a page; focused: without the prompts and the model's reasoning.
pub fn to_html(run: &Conversation, is_focused: bool) -> String {
    let id = escaped(&run.run_id);
    let mut out = format!(
        "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta http-equiv=\"Content-Security-Policy\" content=\"{POLICY}\">\n\
         <meta name=\"viewport\" content=\"width=device-width,initial-scale=1\">\n\
         <title>Run {id}</title>\n<style>\n{STYLE}</style>\n</head>\n<body>\n<h1>Run {id}</h1>\n<dl>\n"
    );
    for (name, value) in facts(run) {
        let _ = writeln!(out, "<dt>{name}</dt><dd>{}</dd>", escaped(&value));
    }
    out.push_str("</dl>\n");
    for (number, step) in (1..).zip(&run.steps) {
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
        let _ = writeln!(out, "<pre class=\"call\">{}</pre>", escaped(&text));
    }
    for shown in &step.shown {
        write_result(out, shown);
    }
    out.push_str("</section>\n");
}

fn write_result(out: &mut String, shown: &ShownResult) {
    long(out, &result_title(shown), &shown.text);
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
    let _ = writeln!(out, "{open}<pre>{}</pre></details>", escaped(text));
}

fn folded(out: &mut String, title: &str, text: &str) {
    let lines = text.lines().count();
    let _ = writeln!(
        out,
        "<details><summary>{} · {lines} lines</summary><pre>{}</pre></details>",
        escaped(title),
        escaped(text)
    );
}

/// Escapes text for HTML, also in an attribute, and removes control characters.
fn escaped(text: &str) -> String {
    as_html(&harmless(text))
}

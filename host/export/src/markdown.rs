//! A run as Markdown.

use std::fmt::Write as _;

use mswea_text::harmless;

use crate::conversation::{Conversation, ConversationStep, StepSource};
use crate::patches::is_patch;
use crate::readable::readable;
use crate::time::iso;

/// The longest title, in bytes.
const HEADLINE: usize = 120;

/// The run as Markdown; focused: without the prompts and the model's reasoning.
pub fn to_markdown(run: &Conversation, is_focused: bool) -> String {
    let mut out = format!("# {}\n\n", plain(&headline(run)));
    for (name, value) in facts(run) {
        let _ = writeln!(out, "- {name}: {}", plain(&value));
    }
    for (number, step) in (1..).zip(&*run.told()) {
        if is_focused && step.source == StepSource::System {
            continue;
        }
        let _ = writeln!(out, "\n## {number}. {}\n", plain(&title(step)));
        if !is_focused {
            quote(&mut out, &step.reasoning);
        }
        match step.source {
            StepSource::Agent => own(&mut out, &step.text),
            _ => block(&mut out, &step.text),
        }
        for call in &step.calls {
            let _ = writeln!(out, "\n**{}**", plain(&call.name));
            block(&mut out, &command(&call.arguments));
        }
        for shown in &step.shown {
            let _ = writeln!(out, "\n{}", plain(&result_title(shown)));
            block(&mut out, &readable(&shown.text));
        }
    }
    if !run.submission.is_empty() {
        out.push_str("\n## Submission\n");
        block(&mut out, &run.submission);
    }
    out
}

/// The first line of the task, shortened; without a task, the id of the run.
pub(crate) fn headline(run: &Conversation) -> String {
    let asked = || run.steps.iter().find(|it| it.source == StepSource::User);
    let task = match run.task.is_empty() {
        true => asked().map(|it| it.text.as_str()).unwrap_or_default(),
        false => &run.task,
    };
    let line = task.lines().map(str::trim).find(|it| !it.is_empty());
    match line {
        None => format!("Run {}", one_line(&run.run_id)),
        Some(line) if line.len() <= HEADLINE => one_line(line),
        Some(line) => {
            let cut = &line[..line.floor_char_boundary(HEADLINE)];
            format!("{}…", one_line(cut).trim_end())
        }
    }
}

/// Facts about the whole run, as names and values.
pub(crate) fn facts(run: &Conversation) -> Vec<(&'static str, String)> {
    let usage = &run.usage;
    let mut facts = vec![
        ("run", run.run_id.clone()),
        ("program", format!("{} {}", run.program.0, run.program.1)),
    ];
    if let Some(model) = &run.model {
        facts.push(("model", model.clone()));
    }
    let status = run.exit_status.as_deref().unwrap_or("no end is recorded");
    facts.push(("end", status.to_owned()));
    if let Some(failure) = &run.failure {
        facts.push(("error", failure.clone()));
    }
    let times = run.steps.iter().filter_map(|it| it.time);
    if let Some(start) = run.started.or_else(|| times.clone().next()).and_then(iso) {
        facts.push(("start", start));
    }
    let spans = || times.clone().next_back().zip(times.clone().next());
    let seconds = run
        .seconds
        .or_else(|| spans().map(|(end, start)| end - start));
    if let Some(seconds) = seconds.filter(|it| *it >= 0.0) {
        facts.push(("duration", duration(seconds)));
    }
    if let Some(queries) = run.queries {
        facts.push(("queries", queries.to_string()));
    }
    if usage.input_tokens > 0 || usage.output_tokens > 0 {
        let cached = usage.cache_read_tokens;
        facts.push((
            "tokens",
            format!(
                "{} in ({cached} cached), {} out",
                usage.input_tokens, usage.output_tokens
            ),
        ));
    }
    if let Some(cost) = run.cost {
        facts.push(("cost", format!("${cost:.4}")));
    }
    facts
}

fn duration(seconds: f64) -> String {
    let whole = seconds.round() as u64;
    match whole {
        0..60 => format!("{seconds:.1} s"),
        60..3_600 => format!("{} min {} s", whole / 60, whole % 60),
        _ => format!("{} h {} min", whole / 3_600, whole / 60 % 60),
    }
}

/// The title of a step: its author and cost.
pub(crate) fn title(step: &ConversationStep) -> String {
    let mut title = match step.source {
        StepSource::System => "System",
        StepSource::User => "User",
        StepSource::Agent => "Model",
    }
    .to_owned();
    if let Some(usage) = &step.usage {
        let (input, output) = (usage.input_tokens, usage.output_tokens);
        let _ = write!(title, " · {input} tokens in, {output} out");
    }
    if let Some(cost) = step.cost {
        let _ = write!(title, " · ${cost:.4}");
    }
    if let Some(code) = &step.rejected {
        let _ = write!(title, " · not accepted: {}", one_line(code));
    }
    title
}

/// The title of the result of a call.
pub(crate) fn result_title(shown: &crate::ShownResult) -> String {
    let mut title = "Result".to_owned();
    if let Some(code) = shown.returncode {
        let _ = write!(title, " · exit code {code}");
    }
    if let Some(seconds) = shown.seconds {
        let _ = write!(title, " · {seconds:.1} s");
    }
    if let Some(exception) = &shown.exception {
        let _ = write!(title, " · {}", one_line(exception));
    }
    if shown.is_unseen {
        title.push_str(" · not shown to the model");
    }
    title
}

/// The command of a call; for other tools, all arguments.
pub(crate) fn command(arguments: &serde_json::Value) -> String {
    let fields = arguments.as_object();
    let only = fields.filter(|it| it.len() == 1);
    match only.and_then(|it| it.get("command")?.as_str()) {
        Some(command) => command.to_owned(),
        None => serde_json::to_string_pretty(arguments).unwrap_or_default(),
    }
}

fn one_line(text: &str) -> String {
    mswea_text::one_line(text).to_string()
}

/// A line in which nothing is HTML, a link or a picture.
fn plain(text: &str) -> String {
    let mut out = String::new();
    for c in one_line(text).chars() {
        if matches!(c, '\\' | '<' | '[') {
            out.push('\\');
        }
        out.push(c);
    }
    out
}

/// What the model wrote, which is Markdown already; but as it is if it could be HTML, a picture from
/// elsewhere, or a fence that does not end.
fn own(out: &mut String, text: &str) {
    // An escape sequence may stand between two characters of a mark.
    let text = harmless(text);
    let is_more = ["<", "![", "```", "~~~"].iter().any(|it| text.contains(it));
    match is_more {
        true => block(out, &text),
        false => {
            let _ = writeln!(out, "{}", text.trim_end());
        }
    }
}

fn quote(out: &mut String, text: &str) {
    if text.is_empty() {
        return;
    }
    let mut quoted = String::new();
    own(&mut quoted, text);
    for line in quoted.lines() {
        let _ = writeln!(out, "> {line}");
    }
    out.push('\n');
}

/// A code block with the text, between fences that do not occur in it.
fn block(out: &mut String, text: &str) {
    let text = harmless(text);
    let longest = text.split(|c| c != '`').map(str::len).max().unwrap_or(0);
    let fence = "`".repeat(longest.max(2) + 1);
    let kind = if is_patch(&text) { "diff" } else { "text" };
    let text = text.trim_end_matches('\n');
    let _ = writeln!(out, "{fence}{kind}\n{text}\n{fence}");
}

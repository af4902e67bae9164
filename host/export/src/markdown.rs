//! A run as Markdown.

use std::fmt::Write as _;

use mswea_text::harmless;

use crate::conversation::{Conversation, ConversationStep, StepSource};

/// The run as Markdown; focused: without the prompts and the model's reasoning.
pub fn to_markdown(run: &Conversation, is_focused: bool) -> String {
    let mut out = format!("# Run {}\n\n", plain(&run.run_id));
    for (name, value) in facts(run) {
        let _ = writeln!(out, "- {name}: {}", plain(&value));
    }
    for (number, step) in (1..).zip(&run.steps) {
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
            block(&mut out, &shown.text);
        }
    }
    if !run.submission.is_empty() {
        out.push_str("\n## Submission\n");
        block(&mut out, &run.submission);
    }
    out
}

/// Facts about the whole run, as names and values.
pub(crate) fn facts(run: &Conversation) -> Vec<(&'static str, String)> {
    let usage = &run.usage;
    let mut facts = vec![("program", format!("{} {}", run.program.0, run.program.1))];
    if let Some(model) = &run.model {
        facts.push(("model", model.clone()));
    }
    let status = run.exit_status.as_deref().unwrap_or("no end is recorded");
    facts.push(("end", status.to_owned()));
    if usage.input_tokens + usage.output_tokens > 0 {
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
    let is_more = ["<", "![", "```", "~~~"].iter().any(|it| text.contains(it));
    match is_more {
        true => block(out, text),
        false => {
            let _ = writeln!(out, "{}", harmless(text.trim_end()));
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
    let _ = writeln!(out, "{fence}text\n{}\n{fence}", text.trim_end_matches('\n'));
}

//! A run as a recording of a terminal (asciicast, version 2) for `asciinema play` and other
//! players: the model's text, its commands and their outputs, at the times when they came.

use std::fmt::Write as _;

use mswea_text::{harmless, one_line};
use serde_json::json;

use crate::conversation::{Conversation, ConversationStep, StepSource};
use crate::markdown::{command, title};
use crate::readable::readable;

/// The size of the terminal.
const SIZE: (u32, u32) = (100, 30);
/// A player shortens longer pauses to this many seconds.
const LONGEST_PAUSE: f64 = 2.0;
/// The pause before a step without a time, in seconds.
const PAUSE: f64 = 1.0;

/// The recording; focused: without the system prompt and the model's reasoning.
pub fn to_asciinema(run: &Conversation, is_focused: bool) -> String {
    let begin = run.steps.iter().find_map(|step| step.asked.or(step.time));
    let mut header = json!({
        "version": 2,
        "width": SIZE.0,
        "height": SIZE.1,
        "idle_time_limit": LONGEST_PAUSE,
        "title": one_line(&format!("Run {}", run.run_id)).to_string(),
    });
    if let Some(begin) = begin {
        header["timestamp"] = json!(begin.max(0.0) as u64);
    }
    let mut screen = CastWriter {
        out: format!("{header}\n"),
        begin,
        now: 0.0,
    };
    for step in &*run.told() {
        if !is_focused || step.source != StepSource::System {
            screen.step(step, is_focused);
        }
    }
    let status = run.exit_status.as_deref();
    let end = format!("\n{}\n", one_line(status.unwrap_or("no end is recorded")));
    screen.event(&styled(&end, "1"));
    if let Some(failure) = &run.failure {
        screen.print(failure);
    }
    if !run.submission.is_empty() {
        screen.print(&run.submission);
    }
    screen.out
}

struct CastWriter {
    out: String,
    begin: Option<f64>,
    /// The time of the last event, in seconds since the first step.
    now: f64,
}

impl CastWriter {
    fn step(&mut self, step: &ConversationStep, is_focused: bool) {
        // The time of the reply; the model was queried before it.
        match step.time.zip(self.begin) {
            Some((time, begin)) => self.now = self.now.max(time - begin),
            None => self.now += PAUSE,
        }
        let mut said = styled(&format!("\n{}\n", title(step)), "1");
        if !is_focused && !step.reasoning.is_empty() {
            said.push_str(&styled(&ended(&step.reasoning), "2"));
        }
        said.push_str(&ended(&step.text));
        for call in &step.calls {
            let shown = format!("{} {}", prompt(&call.name), command(&call.arguments));
            said.push_str(&styled(&ended(&shown), "36"));
        }
        self.event(&said);
        for shown in &step.shown {
            self.now += shown.seconds.unwrap_or_default().max(0.0);
            self.print(&readable(&shown.text));
            if let Some(code) = shown.returncode.filter(|code| *code != 0) {
                self.event(&styled(&format!("exit code {code}\n"), "31"));
            }
        }
    }

    /// Prints text of the model or a command.
    fn print(&mut self, text: &str) {
        self.event(&ended(text));
    }

    fn event(&mut self, text: &str) {
        if !text.is_empty() {
            let text = text.replace('\n', "\r\n");
            let time = (self.now * 1e6).round() / 1e6;
            let _ = writeln!(self.out, "{}", json!([time, "o", text]));
        }
    }
}

fn prompt(tool: &str) -> String {
    match tool {
        "bash" => "$".to_owned(),
        tool => one_line(tool).to_string(),
    }
}

/// The text without control sequences, and with a newline at its end; empty if the text is empty.
fn ended(text: &str) -> String {
    let mut text = harmless(text);
    if !text.is_empty() && !text.ends_with('\n') {
        text.push('\n');
    }
    text
}

/// The text, which must have no control sequences, in a style.
fn styled(text: &str, style: &str) -> String {
    format!("\u{1b}[{style}m{}\u{1b}[0m", harmless(text))
}

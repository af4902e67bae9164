//! What is on the screen, and how each thing that happens is put there.

use std::io;
use std::time::Duration;

use serde_json::Value;

use crate::cli::front::countdown::{self, whole_seconds};
use crate::cli::front::data_urls::brief;
use crate::cli::front::ending::{submission_text, verdict};
use crate::cli::front::look::Colour;
use crate::cli::front::outlet::Drain;
use crate::cli::front::safe::{harmless, harmless_piece, one_line};
use crate::cli::front::shorten::{Size, shorten};
use crate::cli::front::sink::Sink;
use crate::cli::front::{Look, words};
use crate::roles::{Action, Delta, Message, Output, Part, Progress, Reply};

/// Width of the line between steps.
const RULE: usize = 60;
/// How many variables that commands do not see are named where nobody asked for more.
const WITHHELD: usize = 12;
/// Moves to the beginning of the line and clears it.
const CLEAR_LINE: &str = "\r\x1b[2K";

/// The state of the screen.
pub(super) struct Screen {
    err: Sink,
    out: Sink,
    look: Look,
    /// The cursor is not at the beginning of a line.
    open: bool,
    /// Anything was shown before: a blank line goes before a step.
    begun: bool,
    /// Kind of the last shown piece of the current answer.
    streaming: Option<Stream>,
    /// Text of the current answer has been shown piece by piece.
    streamed_text: bool,
    /// The current countdown; older threads see that they are not meant.
    countdown: u64,
    /// The countdown's line is on the screen.
    counting: bool,
    /// The line that counts: `retry 1 of 10`.
    retry: String,
    /// Variables that commands do not see, until that was said.
    withheld: Vec<String>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Stream {
    Text,
    Reasoning,
}

impl Screen {
    pub fn new(err: impl Drain + 'static, out: impl Drain + 'static, look: Look) -> Self {
        Self {
            err: Sink::new(err),
            out: Sink::new(out),
            look,
            open: false,
            begun: false,
            streaming: None,
            streamed_text: false,
            countdown: 0,
            counting: false,
            retry: String::new(),
            withheld: Vec::new(),
        }
    }

    pub fn show(&mut self, progress: &Progress<'_>) {
        match progress {
            Progress::Preparing(text) => {
                let text = self.look.paint(Colour::Dim, &one_line(text));
                self.line(&text);
            }
            Progress::StepStarted { step, cost } => self.step(*step, *cost),
            Progress::Delta(delta) => self.delta(delta),
            Progress::DeltaReset => self.delta_reset(),
            Progress::Replied { reply, .. } => self.replied(reply),
            Progress::Retrying {
                class,
                message,
                attempt,
                of,
                wait,
            } => {
                self.retry = format!("retry {attempt} of {of}");
                let cause = format!("{}: {}", one_line(class.as_str()), one_line(message));
                if self.look.redraw {
                    self.labelled("retrying:", Colour::Yellow, &cause);
                } else {
                    let seconds = whole_seconds(*wait);
                    let text = format!("{cause} ({} in {seconds} s)", self.retry);
                    self.labelled("retrying:", Colour::Yellow, &text);
                }
            }
            Progress::Message(message) => self.message(message),
            Progress::ActionStarted { action, index, of } => {
                let prompt = if *of > 1 {
                    format!("[{}/{of}] $ ", index + 1)
                } else {
                    "$ ".to_owned()
                };
                self.command(&prompt, action);
            }
            Progress::ActionEnded { output, .. } => self.output(output),
            Progress::Asked { processor, purpose } if self.look.verbose > 0 => {
                let text = format!(
                    "{} asks the model: {}",
                    one_line(processor),
                    one_line(purpose)
                );
                self.line(&self.look.paint(Colour::Dim, &text));
            }
            Progress::Answered {
                processor, cost, ..
            } if self.look.verbose > 0 => {
                let cost = cost.map_or_else(String::new, |cost| {
                    format!(" ({})", words::cost(Some(cost)))
                });
                let text = format!("{} has its answer{cost}", one_line(processor));
                self.line(&self.look.paint(Colour::Dim, &text));
            }
            Progress::Asked { .. } | Progress::Answered { .. } => {}
            Progress::Rewritten {
                policy, original, ..
            } => {
                self.command("not run: $ ", original);
                let text = format!("`{}` runs this instead:", one_line(policy));
                let text = self.look.paint(Colour::Yellow, &text);
                self.line(&format!("  {text}"));
            }
            Progress::Denied {
                policy,
                action,
                reason,
            } => {
                self.command("not run: $ ", action);
                let text = format!("denied by `{}`: {}", one_line(policy), one_line(reason));
                let text = self.look.paint(Colour::Yellow, &text);
                self.line(&format!("  {text}"));
            }
            Progress::Warning(text) => {
                self.labelled("warning:", Colour::Yellow, harmless(text).trim_end());
            }
            Progress::Withheld(names) => {
                self.withheld = names.to_vec();
                if self.look.verbose > 0 {
                    self.withheld();
                }
            }
            Progress::Seen(text) => {
                for line in harmless(text).lines() {
                    self.line(line);
                }
            }
            Progress::Ended {
                exit_status,
                submission,
                cost,
                steps,
                usage,
            } => {
                self.gap();
                let text = submission_text(submission, self.look).into_owned();
                self.out.put_data(&text);
                if self.look.stdout_terminal && !text.is_empty() {
                    self.line("");
                }
                let status = verdict(exit_status, self.look);
                let account = words::account(*steps, *cost, usage);
                self.line(&format!("{status}: {account}"));
            }
        }
    }

    /// Shows the first second of a countdown, and answers its id.
    pub fn begin_countdown(&mut self, wait: Duration) -> u64 {
        self.counting = true;
        let id = self.countdown;
        self.draw_countdown(whole_seconds(wait));
        id
    }

    /// Wipes the countdown's line and turns its thread away.
    pub fn end_countdown(&mut self) {
        self.countdown += 1;
        if std::mem::take(&mut self.counting) {
            self.err.put(CLEAR_LINE);
        }
    }

    /// Leaves nothing half-shown.
    pub fn tidy(&mut self) {
        self.end_countdown();
        self.close_line();
    }

    pub fn take_output_error(&mut self) -> Option<io::Error> {
        self.out.take_error()
    }

    /// Short enough for any terminal: a line that wraps could not be written over.
    fn draw_countdown(&mut self, seconds: u64) {
        let text = format!("{} in {seconds} s", self.retry);
        let text = self.look.paint(Colour::Dim, &text);
        self.err.put(&format!("{CLEAR_LINE}{text}"));
    }

    fn step(&mut self, step: u32, cost: Option<f64>) {
        self.gap();
        self.streaming = None;
        self.streamed_text = false;
        let (title, cost) = (format!("step {step}"), words::cost(cost));
        let used = 3 + title.len() + 2 + cost.len() + 1;
        let rule = "─".repeat(RULE.saturating_sub(used));
        let line = format!(
            "{} {}  {}",
            self.look.paint(Colour::Dim, "──"),
            self.look.paint(Colour::Bold, &title),
            self.look.paint(Colour::Dim, &format!("{cost} {rule}"))
        );
        self.line(&line);
    }

    fn delta(&mut self, delta: &Delta) {
        let stream = match delta.kind.as_str() {
            "text" => Stream::Text,
            "reasoning" if self.look.verbose > 0 => Stream::Reasoning,
            // A tool call is shown as the command that comes of it.
            _ => return,
        };
        let mut text = harmless_piece(&delta.text);
        if !self.look.live || text.is_empty() {
            return;
        }
        if self.streaming != Some(stream) {
            // Many models begin with newlines.
            text = text.trim_start_matches('\n').to_owned();
            if text.is_empty() {
                return;
            }
            self.close_line();
            if stream == Stream::Reasoning {
                self.line(&self.look.paint(Colour::Dim, "thinking:"));
            }
            self.streaming = Some(stream);
        }
        self.streamed_text |= stream == Stream::Text;
        self.begun = true;
        self.open = !text.ends_with('\n');
        let shown = match stream {
            Stream::Text => text,
            Stream::Reasoning => self.look.paint(Colour::Dim, &text),
        };
        self.err.put(&shown);
    }

    fn delta_reset(&mut self) {
        if self.streaming.take().is_some() {
            self.close_line();
            let note = "(the answer broke off: it is asked for again)";
            self.line(&self.look.paint(Colour::Dim, note));
        }
        self.streamed_text = false;
    }

    fn replied(&mut self, reply: &Reply) {
        self.close_line();
        let streamed = self.streaming.take().is_some();
        if !streamed && self.look.verbose > 0 {
            for part in &reply.message.content {
                if let Part::Reasoning { text, .. } = part
                    && !text.trim().is_empty()
                {
                    self.line(&self.look.paint(Colour::Dim, "thinking:"));
                    self.paragraph(text, Colour::Dim);
                }
            }
        }
        if !std::mem::take(&mut self.streamed_text) {
            let text = reply.message.text();
            for line in harmless(&brief(&text)).trim().lines() {
                self.line(line);
            }
        }
    }

    /// Most of the history is shown in other ways, when it comes to be.
    fn message(&mut self, message: &Message) {
        let interrupt = message.extra.get("interrupt_type").and_then(Value::as_str);
        let wanted = match message.role.as_str() {
            "assistant" | "exit" => false,
            "tool" => self.look.verbose > 1,
            _ => interrupt.is_some() || self.look.verbose > 0,
        };
        if !wanted {
            return;
        }
        let title = match interrupt {
            Some(kind) => format!("told to the model ({}):", one_line(kind)),
            None => format!("message ({}):", one_line(&message.role)),
        };
        let colour = match interrupt {
            Some(_) => Colour::Yellow,
            None => Colour::Dim,
        };
        self.line(&self.look.paint(colour, &title));
        let text = harmless(&brief(&with_images(message)));
        for line in shorten(text.trim_end(), self.output_size()) {
            self.line(&format!("  {line}"));
        }
    }

    fn command(&mut self, prompt: &str, action: &Action) {
        let text = harmless(&brief(&action.command));
        let lines = shorten(text.trim_end(), self.command_size());
        let indent = " ".repeat(prompt.len());
        for (index, line) in lines.iter().enumerate() {
            let lead = if index == 0 { prompt } else { &indent };
            let line = self.look.paint(Colour::Bold, line);
            self.line(&format!("{lead}{line}"));
        }
        if lines.is_empty() {
            self.line(&format!("{prompt}(an empty command)"));
        }
    }

    fn output(&mut self, output: &Output) {
        let text = harmless(&brief(&output.output));
        let lines = shorten(text.trim_end_matches('\n'), self.output_size());
        for line in &lines {
            self.line(format!("  {line}").trim_end());
        }
        if let Some(bytes) = output.extra.get("elided_bytes").and_then(Value::as_u64)
            && bytes > 0
        {
            let note = format!(
                "  ({} of its middle were not kept)",
                words::plural(bytes, "byte")
            );
            self.line(&self.look.paint(Colour::Dim, &note));
        }
        let trouble = if !output.exception_info.trim().is_empty() {
            one_line(&output.exception_info)
        } else if output.returncode < -1 {
            format!("ended by signal {}", output.returncode.unsigned_abs())
        } else if output.returncode != 0 {
            format!("exit code {}", output.returncode)
        } else if lines.is_empty() {
            self.line(&self.look.paint(Colour::Dim, "  (no output)"));
            return;
        } else {
            return;
        };
        let trouble = self.look.paint(Colour::Red, &trouble);
        self.line(&format!("  {trouble}"));
        // A missing variable may be why.
        if output.returncode > 0 {
            self.withheld();
        }
    }

    /// Names the variables that commands do not see, once in a run.
    fn withheld(&mut self) {
        let names = std::mem::take(&mut self.withheld);
        if names.is_empty() {
            return;
        }
        let shown = if self.look.verbose > 0 {
            names.len()
        } else {
            WITHHELD
        };
        let named = names.iter().take(shown).map(|name| one_line(name));
        let mut text = format!(
            "commands do not see {}",
            named.collect::<Vec<_>>().join(", ")
        );
        if names.len() > shown {
            text.push_str(&format!(
                " and {} more (`-v` names all)",
                names.len() - shown
            ));
        }
        text.push_str("; `-c 'environment.env_allow=[\"NAME\"]'` lets one through");
        self.line(&self.look.paint(Colour::Dim, &text));
    }

    fn paragraph(&mut self, text: &str, colour: Colour) {
        for line in harmless(text).trim().lines() {
            self.line(&self.look.paint(colour, line));
        }
    }

    fn labelled(&mut self, label: &str, colour: Colour, text: &str) {
        let label = self.look.paint(colour, label);
        self.line(&format!("{label} {text}"));
    }

    /// A whole line.
    fn line(&mut self, text: &str) {
        self.close_line();
        self.begun = true;
        self.err.put(&format!("{text}\n"));
    }

    fn close_line(&mut self) {
        if std::mem::take(&mut self.open) {
            self.err.put("\n");
        }
    }

    /// A blank line, unless nothing stands above it.
    fn gap(&mut self) {
        self.close_line();
        if self.begun {
            self.line("");
        }
    }

    fn output_size(&self) -> Size {
        match self.look.verbose {
            0 => Size {
                head: 10,
                tail: 10,
                width: 300,
            },
            1 => Size {
                head: 50,
                tail: 50,
                width: 1000,
            },
            _ => Size::ALL,
        }
    }

    /// More than of output: it is what happens on this machine.
    fn command_size(&self) -> Size {
        match self.look.verbose {
            0 => Size {
                head: 30,
                tail: 10,
                width: 1000,
            },
            _ => Size::ALL,
        }
    }
}

/// The text of a message, with its images named where they stand.
fn with_images(message: &Message) -> String {
    let mut out = String::new();
    for part in &message.content {
        match part {
            Part::Text { text } => out.push_str(text),
            Part::Image { url, .. } => out.push_str(&format!("[image: {url}]")),
            Part::Reasoning { .. } | Part::Opaque { .. } => {}
        }
    }
    out
}

impl countdown::Target for Screen {
    fn tick(&mut self, id: u64, seconds: u64) -> bool {
        let current = self.counting && self.countdown == id;
        if current {
            self.draw_countdown(seconds);
        }
        current
    }
}

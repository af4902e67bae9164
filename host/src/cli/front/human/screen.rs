//! The content of the screen, and the output for each event.

mod answer;
mod attended;
mod live;

use std::io;
use std::time::{Duration, Instant};

use serde_json::Value;

use self::answer::StreamedAnswer;
use self::attended::ForUser;
use self::live::LiveLines;
use super::status::{Status, whole_seconds};
use crate::cli::front::data_urls::{brief, with_images};
use crate::cli::front::ending::{submission_text, verdict};
use crate::cli::front::highlight::ShellPaint;
use crate::cli::front::look::Colour;
use crate::cli::front::outlet::Drain;
use crate::cli::front::shorten::{Size, shorten};
use crate::cli::front::sink::Sink;
use crate::cli::front::wrap::{width, wrap};
use crate::cli::front::{Look, RunHeader, header, words};
use mswea_core::{Action, Message, Output, Progress};
use mswea_run::submission;
use mswea_text::{harmless, one_line, visible};

pub use live::InputView;
pub(in crate::cli) use live::RELEASE;

/// The width of the line between steps, if the terminal is wide enough.
const RULE: usize = 60;
/// How many names of withheld variables are shown without `-v`.
const WITHHELD: usize = 12;

/// The state of the screen.
pub(super) struct Screen {
    err: Sink,
    out: Sink,
    look: Look,
    /// Whether the cursor is not at the beginning of a line.
    open: bool,
    /// Whether there was output before: then a blank line precedes a step.
    begun: bool,
    /// The answer that is arriving.
    answer: StreamedAnswer,
    /// The part or the person for which the run is waiting.
    status: Option<Status>,
    /// The last lines, which are redrawn.
    live: LiveLines,
    attended: ForUser,
    /// Withheld variables, until they were shown.
    withheld: Vec<String>,
    /// How one of them is passed on.
    passing: &'static str,
    /// The settings of the run, until they were shown.
    header: Option<RunHeader>,
    /// Whether the output has ended.
    closed: bool,
}

impl Screen {
    pub fn new(err: impl Drain + 'static, out: impl Drain + 'static, look: Look) -> Self {
        Self {
            err: Sink::new(err),
            out: Sink::new(out),
            look,
            open: false,
            begun: false,
            answer: StreamedAnswer::new(look, look.width.columns()),
            status: None,
            live: LiveLines::default(),
            attended: ForUser::default(),
            withheld: Vec::new(),
            passing: header::PASSING,
            header: None,
            closed: false,
        }
    }

    /// Sets the header, which is shown when the run's files are known.
    pub fn announce(&mut self, header: RunHeader) {
        self.passing = header.passing;
        self.header = Some(header);
    }

    fn head(&mut self, header: &RunHeader) {
        for text in header.lines() {
            self.wrapped("", "  ", &one_line(&text), Some(Colour::Dim));
        }
        for notice in &header.notices {
            self.labelled("note:", Colour::Dim, notice);
        }
    }

    /// Prints a line of the log.
    pub fn log(&mut self, text: &str) {
        self.erase();
        let text = harmless(text);
        match text.split_once(": ") {
            Some(("warning", rest)) => self.labelled("warning:", Colour::Yellow, rest.trim_end()),
            _ => self.wrapped("", "  ", text.trim_end(), Some(Colour::Dim)),
        }
        self.draw(Instant::now());
    }

    pub fn show(&mut self, progress: &Progress<'_>) {
        if !matches!(progress, Progress::Delta(_)) {
            self.erase();
        }
        let now = Instant::now();
        match progress {
            Progress::Recording { .. } => {
                if let Some(header) = self.header.take() {
                    self.head(&header);
                }
            }
            Progress::Preparing(text) => {
                self.wrapped("", "  ", &one_line(text), Some(Colour::Dim));
                self.status = Some(Status::Preparing(now));
            }
            Progress::StepStarted { step, cost, tokens } => {
                self.step(*step, *cost, *tokens);
                self.count(*step, *cost, *tokens);
                self.status = Some(Status::asking(now));
            }
            Progress::Delta(delta) => self.delta(delta),
            Progress::DeltaReset => self.delta_reset(),
            Progress::Replied { reply, .. } => {
                self.status = None;
                self.measure(reply.usage.as_ref());
                self.replied(reply);
            }
            Progress::Retrying {
                class,
                message,
                attempt,
                of,
                wait,
            } => {
                let what = format!("retry {attempt} of {of}");
                let cause = format!("{}: {}", one_line(class.as_str()), one_line(message));
                if self.look.redraw {
                    self.labelled("retrying:", Colour::Yellow, &cause);
                    self.status = Some(Status::Retrying {
                        what,
                        end: now + *wait,
                    });
                } else {
                    let seconds = whole_seconds(*wait);
                    let text = format!("{cause} ({what} in {seconds} s)");
                    self.labelled("retrying:", Colour::Yellow, &text);
                }
            }
            Progress::HeldBack { wait } => self.held_back(*wait),
            Progress::Message(message) => self.message(message),
            Progress::ActionStarted { action, index, of } => {
                let prompt = if *of > 1 {
                    format!("[{}/{of}] $ ", index + 1)
                } else {
                    "$ ".to_owned()
                };
                if !self.was_proposed(action, *of) {
                    self.command(&prompt, action);
                }
                self.status = Some(Status::Running(now));
            }
            Progress::ActionEnded { output, .. } => {
                self.status = None;
                self.output(output);
            }
            Progress::Asked { processor, purpose } => {
                if self.look.verbose > 0 {
                    let (processor, purpose) = (one_line(processor), one_line(purpose));
                    let text = format!("{processor} asks the model: {purpose}");
                    self.wrapped("", "  ", &text, Some(Colour::Dim));
                }
                self.status = Some(Status::asking(now));
            }
            Progress::Answered {
                processor, cost, ..
            } => {
                self.status = None;
                if self.look.verbose > 0 {
                    let cost = cost.map_or_else(String::new, |cost| {
                        format!(" ({})", words::cost(Some(cost)))
                    });
                    let text = format!("{} has its answer{cost}", one_line(processor));
                    self.wrapped("", "  ", &text, Some(Colour::Dim));
                }
            }
            Progress::Rewritten {
                policy, original, ..
            } => {
                self.command("not run: $ ", original);
                let text = format!("`{}` runs this instead:", one_line(policy));
                self.wrapped("  ", "  ", &text, Some(Colour::Yellow));
            }
            Progress::Denied {
                policy,
                action,
                reason,
            } => {
                self.status = None;
                self.command("not run: $ ", action);
                let text = format!("denied by `{}`: {}", one_line(policy), one_line(reason));
                self.wrapped("  ", "  ", &text, Some(Colour::Yellow));
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
                    self.wrapped("", "  ", line, None);
                }
            }
            Progress::Ended {
                end,
                exit_status,
                submission,
                cost,
                steps,
                usage,
            } => {
                self.status = None;
                self.gap();
                let text = submission_text(submission, self.look).into_owned();
                self.out.put_data(&text);
                if self.look.stdout_terminal && !text.is_empty() {
                    self.line("");
                }
                let status = verdict(end, exit_status, self.look);
                let account = words::account(*steps, *cost, usage);
                self.labelled_as(&format!("{status}:"), &format!("{exit_status}:"), &account);
            }
        }
        if !matches!(progress, Progress::Delta(_)) {
            self.draw(now);
        }
    }

    /// Updates the line that counts seconds. Returns how long it stays valid; none if the run does
    /// not wait.
    pub fn tick(&mut self, now: Instant) -> Option<Duration> {
        if let Some(status) = &mut self.status {
            status.at(now);
        }
        self.draw(now);
        let pause = self.status.as_ref().map(|status| status.pause(now));
        pause.map(|pause| self.frame_pause(pause))
    }

    pub fn is_closed(&self) -> bool {
        self.closed
    }

    /// Ends an unfinished line; later output is dropped.
    pub fn close(&mut self) {
        self.erase();
        self.close_line();
        self.status = None;
        self.end_live();
        self.closed = true;
    }

    pub fn take_output_error(&mut self) -> Option<io::Error> {
        self.out.take_error()
    }

    fn step(&mut self, step: u32, cost: Option<f64>, tokens: u64) {
        self.gap();
        self.answer = self.new_answer();
        let title = format!("step {step}");
        let account = match cost {
            Some(_) => words::cost(cost),
            // The tokens, if the model has no price.
            None if tokens > 0 => words::plural(tokens, "token"),
            None => String::new(),
        };
        let account = match &*account {
            "" => account,
            _ => format!("{account} "),
        };
        let columns = self.look.width.columns().unwrap_or(RULE).min(RULE);
        let used = 3 + title.len() + 2 + account.len();
        let rule = "─".repeat(columns.saturating_sub(used));
        let line = format!(
            "{} {}  {}",
            self.look.paint(Colour::Dim, "──"),
            self.look.paint(Colour::Bold, &title),
            self.look.paint(Colour::Dim, &format!("{account}{rule}"))
        );
        self.line(&line);
    }

    /// Most messages of the history are shown because of other events.
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
        self.wrapped("", "  ", &title, Some(colour));
        let text = harmless(&brief(&with_images(message)));
        for line in shorten(text.trim_end(), Size::of_output(self.look.verbose)) {
            self.wrapped("  ", "  ", &line, None);
        }
    }

    fn command(&mut self, prompt: &str, action: &Action) {
        let size = Size::of_command(self.look.verbose);
        self.command_of(prompt, &brief(&action.command), size);
    }

    /// Prints a command. Escape sequences are made visible, because they are part of the command
    /// for a shell.
    fn command_of(&mut self, prompt: &str, command: &str, size: Size) {
        let text = visible(command);
        let lines = shorten(text.trim_end(), size);
        let indent = " ".repeat(prompt.len());
        let mut paint = ShellPaint::new(self.look);
        for (index, line) in lines.iter().enumerate() {
            let lead = if index == 0 { prompt } else { &indent };
            self.wrapped_as(lead, &indent, line, |piece| paint.piece(piece));
            paint.end_line();
        }
        if lines.is_empty() {
            self.line(&format!("{prompt}(an empty command)"));
        }
    }

    fn output(&mut self, output: &Output) {
        if self.look.live && self.look.stdout_terminal && submission(output).is_some() {
            // Stdout is the same terminal, which gets the whole submission at the end.
            let note = "(the submission: see below)";
            self.wrapped("  ", "  ", note, Some(Colour::Dim));
            return;
        }
        let text = harmless(&brief(&output.output));
        let lines = shorten(
            text.trim_end_matches('\n'),
            Size::of_output(self.look.verbose),
        );
        for line in &lines {
            match line.trim_end() {
                "" => self.line(""),
                line => self.wrapped("  ", "  ", line, None),
            }
        }
        if self.attended.is_there && lines.len() < text.lines().count() {
            let note = self.fold(output);
            self.wrapped("  ", "  ", &note, Some(Colour::Dim));
        }
        if let Some(bytes) = output.extra.get("elided_bytes").and_then(Value::as_u64)
            && bytes > 0
        {
            let bytes = words::plural(bytes, "byte");
            let note = format!("({bytes} of its middle were not kept)");
            self.wrapped("  ", "  ", &note, Some(Colour::Dim));
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
        self.wrapped("  ", "  ", &trouble, Some(Colour::Red));
        // A missing variable may be the cause.
        if output.returncode > 0 {
            self.withheld();
        }
    }

    /// Names the variables that commands do not get, once in a run.
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
        text.push_str("; ");
        text.push_str(self.passing);
        self.wrapped("", "  ", &text, Some(Colour::Dim));
    }

    /// Prints a label and a text of one or more lines.
    fn labelled(&mut self, label: &str, colour: Colour, text: &str) {
        self.labelled_as(&self.look.paint(colour, label), label, text);
    }

    /// The same with a label that is already coloured.
    fn labelled_as(&mut self, painted: &str, label: &str, text: &str) {
        let columns = self.text_columns();
        let lead = width(label, 0) + 1;
        for (index, text) in text.lines().enumerate() {
            let lead = if index == 0 { lead } else { 0 };
            for (part, line) in wrap(text, lead, 2, columns).iter().enumerate() {
                match index + part {
                    0 => self.line(&format!("{painted} {line}")),
                    _ => self.line(line),
                }
            }
        }
    }

    /// Prints one line of text after `lead`, wrapped to the width of the screen; the following
    /// lines have this indent.
    fn wrapped(&mut self, lead: &str, indent: &str, text: &str, colour: Option<Colour>) {
        let look = self.look;
        self.wrapped_as(lead, indent, text, |text| match colour {
            Some(colour) => look.paint(colour, text),
            None => text.to_owned(),
        });
    }

    /// The same, with the colours that `paint` adds to the pieces of the text.
    fn wrapped_as(
        &mut self,
        lead: &str,
        indent: &str,
        text: &str,
        mut paint: impl FnMut(&str) -> String,
    ) {
        let columns = self.text_columns();
        let lines = wrap(text, width(lead, 0), width(indent, 0), columns);
        for (index, line) in lines.iter().enumerate() {
            let lead = if index == 0 { lead } else { "" };
            // Blanks have no colour.
            let text = line.trim_start_matches(' ');
            let blanks = &line[..line.len() - text.len()];
            let text = paint(text);
            self.line(&format!("{lead}{blanks}{text}"));
        }
    }

    /// The column at which texts are wrapped. None with a user who may type: then the terminal
    /// wraps the lines, so that they are copied unchanged.
    fn text_columns(&self) -> Option<usize> {
        match self.attended.is_there {
            true => None,
            false => self.look.width.columns(),
        }
    }

    /// Prints a complete line.
    fn line(&mut self, text: &str) {
        self.close_line();
        self.begun = true;
        self.err.put(&format!("{text}\n"));
    }

    /// Prints a blank line, unless nothing is above it.
    fn gap(&mut self) {
        self.close_line();
        if self.begun {
            self.line("");
        }
    }
}

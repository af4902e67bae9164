//! The parts of the screen for a user who answers questions.

use std::time::{Duration, Instant};

use super::super::status::whole_seconds;
use super::{Screen, Status};
use crate::cli::front::data_urls::brief;
use crate::cli::front::look::Colour;
use crate::cli::front::shorten::{Size, shorten};
use crate::cli::front::words;
use mswea_core::{Action, Output};
use mswea_text::harmless;

/// How many shortened outputs are kept for `/expand`.
const KEPT: usize = 32;
/// The number of columns of a screen whose width is unknown.
const COLUMNS: usize = 80;

/// The data for a user who answers questions.
#[derive(Debug, Default)]
pub(super) struct ForUser {
    /// The commands that were shown before they run.
    proposed: Vec<String>,
    /// Shortened outputs with their numbers.
    outputs: Vec<(usize, String)>,
    folded: usize,
    /// Whether there is a user who answers questions.
    pub is_there: bool,
}

impl Screen {
    pub fn is_live(&self) -> bool {
        self.look.redraw
    }

    pub fn columns(&self) -> usize {
        self.look.width.columns().unwrap_or(COLUMNS)
    }

    pub fn is_written(&self) -> bool {
        self.err.is_written()
    }

    /// Prints a text of the host between two frames.
    fn between(&mut self, print: impl FnOnce(&mut Self)) {
        self.close_line();
        self.erase();
        print(self);
        self.draw(Instant::now());
    }

    pub fn note(&mut self, text: &str) {
        self.between(|screen| {
            for line in harmless(text).lines() {
                screen.wrapped("", "  ", line, Some(Colour::Dim));
            }
        });
    }

    pub fn excerpt(&mut self, text: &str) {
        self.between(|screen| {
            let text = harmless(&brief(text));
            for line in shorten(text.trim_end(), Size::of_output(screen.look.verbose)) {
                screen.wrapped("  ", "  ", &line, None);
            }
        });
    }

    pub fn typed(&mut self, mark: &str, text: &str) {
        self.between(|screen| {
            let text = harmless(text);
            let lines = shorten(text.trim_end(), Size::of_command(screen.look.verbose));
            let indent = " ".repeat(mark.len());
            for (index, line) in lines.iter().enumerate() {
                let lead = if index == 0 { mark } else { &indent };
                screen.wrapped(lead, &indent, line, None);
            }
        });
    }

    pub fn ask_plainly(&mut self, hint: &str, mark: &str) {
        self.between(|screen| {
            if !hint.is_empty() {
                screen.wrapped("", "  ", hint, Some(Colour::Yellow));
            }
            screen.err.put(mark);
        });
    }

    pub fn propose(&mut self, actions: &[Action]) {
        self.between(|screen| {
            for (index, action) in actions.iter().enumerate() {
                let prompt = match actions.len() {
                    1 => "$ ".to_owned(),
                    of => format!("[{}/{of}] $ ", index + 1),
                };
                // The complete command, because the user decides about it.
                screen.command_of(&prompt, &action.command, Size::ALL);
            }
            screen.expect(actions);
        });
    }

    /// Records that these commands are on the screen, so that they are not printed again when they
    /// begin to run.
    pub fn expect(&mut self, actions: &[Action]) {
        let commands = actions.iter().map(|action| action.command.clone());
        self.attended.proposed = commands.collect();
    }

    /// Whether a command that begins to run was printed just before.
    pub(super) fn was_proposed(&mut self, action: &Action, of: usize) -> bool {
        let proposed = std::mem::take(&mut self.attended.proposed);
        of == 1 && proposed == [action.command.clone()]
    }

    /// Shows that a request waits, because the provider has asked for a pause.
    pub(super) fn held_back(&mut self, wait: Duration) {
        let seconds = whole_seconds(wait);
        if self.look.redraw {
            self.status = Some(Status::Retrying {
                what: "rate limit: goes on".to_owned(),
                end: Instant::now() + wait,
            });
        } else if seconds > 1 {
            // After a retry, the rest of the pause is short.
            let text = format!("the provider has asked for a pause; goes on in {seconds} s");
            self.labelled("waiting:", Colour::Yellow, &text);
        }
    }

    pub fn ring(&mut self) {
        self.err.put("\x07");
    }

    /// Keeps an output that is not shown in full. Returns the remark about it.
    pub(super) fn fold(&mut self, output: &Output) -> String {
        let attended = &mut self.attended;
        attended.folded += 1;
        attended
            .outputs
            .push((attended.folded, output.output.clone()));
        if attended.outputs.len() > KEPT {
            attended.outputs.remove(0);
        }
        format!("(/expand {} shows all of it)", attended.folded)
    }

    pub fn expand(&mut self, number: Option<usize>) {
        let outputs = &self.attended.outputs;
        let found = match number {
            Some(number) => outputs.iter().find(|(known, _)| *known == number),
            None => outputs.last(),
        };
        let Some((number, text)) = found.cloned() else {
            self.note("there is no such output: only shortened outputs have a number, and the last 32 are kept");
            return;
        };
        self.between(|screen| {
            let text = harmless(&brief(&text));
            let lines = text.lines().count();
            let count = words::plural(u64::try_from(lines).unwrap_or(u64::MAX), "line");
            screen.wrapped(
                "",
                "  ",
                &format!("output {number}, {count}:"),
                Some(Colour::Dim),
            );
            for line in text.lines() {
                screen.line(&format!("  {line}"));
            }
        });
    }
}

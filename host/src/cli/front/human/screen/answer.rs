//! A reply of the model, shown as it arrives, or when it is complete.

use std::time::Instant;

use super::{Screen, Status};
use crate::cli::front::Look;
use crate::cli::front::data_urls::brief;
use crate::cli::front::highlight::MarkdownPaint;
use crate::cli::front::look::Colour;
use crate::cli::front::wrap::Flow;
use mswea_core::{Delta, Part, Reply};
use mswea_text::{SafePieces, harmless};

/// A reply that arrives in pieces.
pub(super) struct StreamedAnswer {
    /// Kind of the last shown piece.
    stream: Option<PieceKind>,
    /// Whether text has been shown in pieces.
    has_text: bool,
    pieces: SafePieces,
    flow: Flow,
    markdown: MarkdownPaint,
}

impl StreamedAnswer {
    /// `columns`: the column at which its lines are wrapped.
    pub fn new(look: Look, columns: Option<usize>) -> Self {
        Self {
            markdown: MarkdownPaint::new(look),
            stream: None,
            has_text: false,
            pieces: SafePieces::default(),
            flow: Flow::new(columns),
        }
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum PieceKind {
    Text,
    Reasoning,
}

impl Screen {
    pub(super) fn delta(&mut self, delta: &Delta) {
        if let Some(Status::Answering { characters, .. }) = &mut self.status {
            *characters += delta.text.chars().count();
        }
        let stream = match delta.kind.as_str() {
            "text" => PieceKind::Text,
            "reasoning" if self.look.verbose > 0 => PieceKind::Reasoning,
            kind => {
                // A tool call is shown as the command that is made of it; until then the line that
                // counts seconds is below the text.
                if kind == "tool-call" && self.look.redraw {
                    self.close_line();
                }
                return;
            }
        };
        if !self.look.live {
            return;
        }
        if self.answer.stream.is_some_and(|current| current != stream) {
            self.close_line();
        }
        let mut text = self.answer.pieces.push(&delta.text);
        if self.answer.stream != Some(stream) {
            // Many models begin with newlines.
            text = text.trim_start_matches('\n').to_owned();
            if text.is_empty() {
                return;
            }
            self.erase();
            if stream == PieceKind::Reasoning {
                self.line(&self.look.paint(Colour::Dim, "thinking:"));
            }
            self.answer.stream = Some(stream);
        }
        self.answer.has_text |= stream == PieceKind::Text;
        let text = self.answer.flow.push(&text);
        self.put_piece(&text);
    }

    /// Shows a piece of the reply.
    fn put_piece(&mut self, text: &str) {
        if text.is_empty() {
            return;
        }
        self.begun = true;
        self.stream(text);
    }

    pub(super) fn new_answer(&self) -> StreamedAnswer {
        StreamedAnswer::new(self.look, self.text_columns())
    }

    /// A piece of the reply in its colours. Without a user who may type, it may be a part of a
    /// line.
    pub(super) fn coloured(&mut self, text: &str, is_line: bool) -> String {
        match self.answer.stream {
            Some(PieceKind::Reasoning) => self.look.paint(Colour::Dim, text),
            _ if is_line => self.answer.markdown.line(text),
            _ => text.to_owned(),
        }
    }

    pub(super) fn delta_reset(&mut self) {
        self.close_line();
        if self.answer.stream.is_some() {
            let note = "(the reply was cut off: the query is sent again)";
            self.wrapped("", "", note, Some(Colour::Dim));
        }
        self.answer = self.new_answer();
        self.status = Some(Status::asking(Instant::now()));
    }

    pub(super) fn replied(&mut self, reply: &Reply) {
        self.close_line();
        let answer = self.new_answer();
        let answer = std::mem::replace(&mut self.answer, answer);
        if answer.stream.is_none() && self.look.verbose > 0 {
            for part in &reply.message.content {
                if let Part::Reasoning { text, .. } = part
                    && !text.trim().is_empty()
                {
                    self.line(&self.look.paint(Colour::Dim, "thinking:"));
                    for line in harmless(text).trim().lines() {
                        self.wrapped("", "", line, Some(Colour::Dim));
                    }
                }
            }
        }
        if !answer.has_text {
            let text = reply.message.text();
            let is_attended = self.attended.is_there;
            for line in harmless(&brief(&text)).trim().lines() {
                match is_attended {
                    true => {
                        let line = self.answer.markdown.line(line);
                        self.line(&line);
                    }
                    false => self.wrapped("", "", line, None),
                }
            }
        }
    }

    /// Ends the unfinished line of a reply, after the text that was held back.
    pub(super) fn close_line(&mut self) {
        let columns = self.text_columns();
        let answer = &mut self.answer;
        let held = answer.pieces.finish();
        let held = answer.flow.push(&held) + &answer.flow.finish();
        answer.flow = Flow::new(columns);
        if self.answer.stream.is_some() {
            self.put_piece(&held);
        }
        self.end_line();
    }
}

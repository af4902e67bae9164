//! The text that the user is typing, with its cursor and the history of earlier texts.
//!
//! This is own code, because a crate for line editing (rustyline, reedline) owns the terminal while
//! it reads, and writes to it itself. Here the agent's output continues above the typed text, and
//! only the output thread writes, so that a stopped terminal blocks no other thread.

use unicode_width::UnicodeWidthChar;

use super::keys::PressedKey;

/// The effect of a key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum EditorStep {
    /// The text or the cursor may have changed.
    Changed,
    /// The text is complete.
    Sent(String),
    /// Ctrl-D without a text.
    Eof,
}

/// A text with a cursor.
#[derive(Debug, Default)]
pub(super) struct Editor {
    text: String,
    /// Index of a byte of `text`.
    cursor: usize,
    /// The text that was removed last.
    killed: String,
    history: Vec<String>,
    /// The position in the history, and the text that was typed before.
    recalled: Option<(usize, String)>,
    /// The text that is searched for in the history.
    wanted: Option<String>,
    /// Whether Enter begins a new line.
    pub is_multiline: bool,
}

impl Editor {
    /// Sets the texts that can be recalled.
    pub fn remember(&mut self, history: Vec<String>) {
        self.history = history;
    }

    /// Replaces the text.
    pub fn set(&mut self, text: &str) {
        text.clone_into(&mut self.text);
        self.cursor = self.text.len();
        (self.recalled, self.wanted) = (None, None);
    }

    /// Handles a key.
    pub fn press(&mut self, key: PressedKey) -> EditorStep {
        if key != PressedKey::Search {
            self.wanted = None;
        }
        match key {
            PressedKey::Text(text) => self.insert(&text),
            PressedKey::Enter if self.is_multiline => self.insert("\n"),
            PressedKey::Eof if self.text.is_empty() => return EditorStep::Eof,
            PressedKey::Eof if !self.is_multiline => self.delete_to(self.after(self.cursor)),
            PressedKey::Enter | PressedKey::Send | PressedKey::Eof => {
                return EditorStep::Sent(self.take());
            }
            PressedKey::Backspace => self.delete_to(self.before(self.cursor)),
            PressedKey::Delete => self.delete_to(self.after(self.cursor)),
            PressedKey::Left => self.cursor = self.before(self.cursor),
            PressedKey::Right => self.cursor = self.after(self.cursor),
            PressedKey::WordLeft => self.cursor = self.word_before(),
            PressedKey::WordRight => self.cursor = self.word_after(),
            PressedKey::Home => self.cursor = self.line_start(self.cursor),
            PressedKey::End => self.cursor = self.line_end(self.cursor),
            PressedKey::Up => self.up(),
            PressedKey::Down => self.down(),
            PressedKey::KillToEnd => self.kill_to(self.line_end(self.cursor)),
            PressedKey::KillToStart => self.kill_to(self.line_start(self.cursor)),
            PressedKey::KillWord => self.kill_to(self.word_before()),
            PressedKey::Yank => {
                let killed = self.killed.clone();
                self.insert(&killed);
            }
            PressedKey::Search => self.search(),
            PressedKey::Clear
            | PressedKey::PageUp
            | PressedKey::PageDown
            | PressedKey::Escape
            | PressedKey::Interrupt => {}
        }
        EditorStep::Changed
    }

    fn take(&mut self) -> String {
        let text = std::mem::take(&mut self.text);
        self.cursor = 0;
        self.recalled = None;
        if !text.trim().is_empty() && self.history.last() != Some(&text) {
            self.history.push(text.clone());
        }
        text
    }

    fn insert(&mut self, text: &str) {
        self.text.insert_str(self.cursor, text);
        self.cursor += text.len();
    }

    fn delete_to(&mut self, place: usize) {
        let (from, to) = (self.cursor.min(place), self.cursor.max(place));
        self.text.replace_range(from..to, "");
        self.cursor = from;
    }

    fn kill_to(&mut self, place: usize) {
        let (from, to) = (self.cursor.min(place), self.cursor.max(place));
        if from < to {
            self.text[from..to].clone_into(&mut self.killed);
            self.delete_to(place);
        }
    }

    /// The position of the previous character; marks without a width belong to the character before
    /// them.
    fn before(&self, place: usize) -> usize {
        let mut chars = self.text[..place].char_indices();
        loop {
            match chars.next_back() {
                Some((at, c)) if c.width() == Some(0) && at > 0 => {}
                Some((at, _)) => return at,
                None => return 0,
            }
        }
    }

    fn after(&self, place: usize) -> usize {
        let mut chars = self.text[place..].char_indices().skip(1);
        let next = chars.find(|(_, c)| c.width() != Some(0));
        next.map_or(self.text.len(), |(at, _)| place + at)
    }

    fn word_before(&self) -> usize {
        let before = self.text[..self.cursor].trim_end();
        let start = before.rfind(char::is_whitespace);
        start.map_or(0, |at| self.after(at))
    }

    fn word_after(&self) -> usize {
        let rest = &self.text[self.cursor..];
        let blanks = rest.len() - rest.trim_start().len();
        let end = rest[blanks..].find(char::is_whitespace);
        end.map_or(self.text.len(), |at| self.cursor + blanks + at)
    }

    fn line_start(&self, place: usize) -> usize {
        self.text[..place].rfind('\n').map_or(0, |at| at + 1)
    }

    fn line_end(&self, place: usize) -> usize {
        let end = self.text[place..].find('\n');
        end.map_or(self.text.len(), |at| place + at)
    }

    /// Moves to the line above, or to the previous text in the history.
    fn up(&mut self) {
        let start = self.line_start(self.cursor);
        match start {
            0 => {
                let at = self.recalled.as_ref().map_or(self.history.len(), |it| it.0);
                if at > 0 {
                    self.recall(at - 1);
                }
            }
            start => self.cursor = self.in_line(self.line_start(start - 1), self.cursor - start),
        }
    }

    fn down(&mut self) {
        let end = self.line_end(self.cursor);
        if end < self.text.len() {
            let column = self.cursor - self.line_start(self.cursor);
            self.cursor = self.in_line(end + 1, column);
        } else if let Some((at, typed)) = self.recalled.clone() {
            if at + 1 < self.history.len() {
                self.recall(at + 1);
            } else {
                self.set(&typed);
            }
        }
    }

    /// The position of a column in the line that begins at `start`, at most the line's end.
    fn in_line(&self, start: usize, column: usize) -> usize {
        let mut place = (start + column).min(self.line_end(start));
        while !self.text.is_char_boundary(place) {
            place -= 1;
        }
        place
    }

    fn recall(&mut self, at: usize) {
        let typed = match self.recalled.take() {
            Some((_, typed)) => typed,
            None => std::mem::take(&mut self.text),
        };
        self.text = self.history[at].clone();
        self.cursor = self.text.len();
        self.recalled = Some((at, typed));
    }

    /// Recalls the last text in the history that contains the typed text; pressed again, the one
    /// before it.
    fn search(&mut self) {
        let wanted = self.wanted.take().unwrap_or_else(|| self.text.clone());
        let end = self.recalled.as_ref().map_or(self.history.len(), |it| it.0);
        let found = self.history[..end]
            .iter()
            .rposition(|it| it.contains(&wanted));
        if let Some(at) = found {
            self.recall(at);
        }
        self.wanted = Some(wanted);
    }

    /// The rows of the text on a screen of this width, at most `most` of them around the cursor,
    /// with the row and the column of the cursor. `lead` columns are used before each row.
    pub fn view(&self, columns: usize, lead: usize, most: usize) -> EditorView {
        let room = columns.saturating_sub(lead + 1).max(1);
        let mut rows: Vec<String> = vec![String::new()];
        let (mut used, mut row, mut column) = (0, 0, 0);
        // Only the lines near the cursor are used, because a pasted text may be long.
        let mut from = self.line_start(self.cursor);
        for _ in 0..most {
            from = self.line_start(from.saturating_sub(1));
        }
        for (at, c) in self.text[from..].char_indices() {
            let is_at_cursor = from + at == self.cursor;
            if is_at_cursor {
                (row, column) = (rows.len() - 1, used);
            }
            if from + at > self.cursor && rows.len() > row + most {
                break;
            }
            let (shown, width) = match c {
                '\n' => {
                    rows.push(String::new());
                    used = 0;
                    continue;
                }
                '\t' => (' ', 1),
                c => match c.width() {
                    Some(width) => (c, width),
                    None => ('\u{fffd}', 1),
                },
            };
            if used + width > room {
                rows.push(String::new());
                used = 0;
                if is_at_cursor {
                    (row, column) = (rows.len() - 1, 0);
                }
            }
            if let Some(last) = rows.last_mut() {
                last.push(shown);
            }
            used += width;
        }
        if self.cursor == self.text.len() {
            (row, column) = (rows.len() - 1, used);
        }
        let first = (row + 1).saturating_sub(most);
        let rows: Vec<String> = rows.into_iter().skip(first).take(most).collect();
        EditorView {
            row: row - first,
            column: lead + column,
            rows,
            lines: self.text.matches('\n').count() + 1,
        }
    }
}

/// The visible part of a text.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct EditorView {
    pub rows: Vec<String>,
    /// The row of the cursor.
    pub row: usize,
    /// The column of the cursor.
    pub column: usize,
    /// How many lines the whole text has.
    pub lines: usize,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::person::keys::KeyDecoder;

    /// Types the bytes; `|` in the result is the cursor.
    fn typed(bytes: &str) -> String {
        let mut editor = Editor::default();
        editor.remember(vec!["first".into(), "second one".into(), "third".into()]);
        let mut sent = String::new();
        for key in KeyDecoder::default().push(bytes.as_bytes()) {
            match editor.press(key) {
                EditorStep::Sent(text) => sent.push_str(&format!("[{text}]")),
                EditorStep::Eof => sent.push_str("[eof]"),
                EditorStep::Changed => {}
            }
        }
        let (before, after) = editor.text.split_at(editor.cursor);
        format!("{sent}{before}|{after}")
    }

    #[test]
    fn vectors() {
        for (bytes, expected) in [
            ("abc", "abc|"),
            ("abc\x1b[D\x7fX", "aX|c"),
            ("abc\x01\x04", "|bc"),
            ("\x04", "[eof]|"),
            ("one two three\x17", "one two |"),
            ("one two\x17\x19\x19", "one twotwo|"),
            ("one two\x1bb\x1bb\x1bf", "one| two"),
            ("one two\x01\x0b", "|"),
            ("one\x15\x19", "one|"),
            ("e\u{301}x\x1b[D\x7f", "|x"),
            ("日本\x1b[D", "日|本"),
            ("go\r", "[go]|"),
            ("\x1b[200~a\nb\x1b[201~\r", "[a\nb]|"),
            ("new\x1b[A", "third|"),
            ("new\x1b[A\x1b[A\x1b[B\x1b[B", "new|"),
            ("s\x12", "second one|"),
            ("ir\x12\x12", "first|"),
            ("\x1b[200~ab\ncde\nf\x1b[201~\x1b[A\x1b[A", "a|b\ncde\nf"),
            ("\x1b[200~ab\ncde\x1b[201~\x1b[A\x1b[B", "ab\ncd|e"),
        ] {
            assert_eq!(typed(bytes), expected, "{bytes:?}");
        }
        let mut editor = Editor {
            is_multiline: true,
            ..Editor::default()
        };
        let mut keys = KeyDecoder::default().push(b"a\rb\x1b\r");
        let sent = keys.pop().map(|key| {
            for key in keys {
                editor.press(key);
            }
            editor.press(key)
        });
        assert_eq!(sent, Some(EditorStep::Sent("a\nb".into())));
    }

    #[test]
    fn views() {
        let mut editor = Editor::default();
        editor.set("abcdefgh");
        let view = editor.view(7, 2, 8);
        assert_eq!(
            (view.rows, view.row, view.column),
            (vec!["abcd".into(), "efgh".into()], 1, 6)
        );
        let many: Vec<String> = (0..5000).map(|n| format!("line {n}")).collect();
        editor.set(&many.join("\n"));
        let view = editor.view(80, 2, 3);
        assert_eq!(view.rows, ["line 4997", "line 4998", "line 4999"]);
        assert_eq!((view.row, view.lines), (2, 5000));
        for _ in 0..10 {
            editor.press(PressedKey::Up);
        }
        let view = editor.view(80, 2, 3);
        assert_eq!(view.rows[view.row], "line 4989");
    }
}

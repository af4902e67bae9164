//! The characters of a document, one after the other, with line and column.

use super::{Fault, Mark};

/// Marks the end of the text; the text can't contain it.
pub(super) const END: char = '\0';

/// A position in a text.
pub(super) struct Cursor {
    chars: Vec<char>,
    mark: Mark,
}

/// A line end, or the end of the text.
pub(super) fn ends_line(char: char) -> bool {
    char == END || is_break(char)
}

/// A line end.
pub(super) fn is_break(char: char) -> bool {
    matches!(char, '\n' | '\r' | '\u{85}' | '\u{2028}' | '\u{2029}')
}

/// Whether a character may follow a word: white space or an end.
pub(super) fn ends_word(char: char) -> bool {
    ends_line(char) || matches!(char, ' ' | '\t')
}

/// As [`ends_word`], where YAML takes no tab.
pub(super) fn ends_word_untabbed(char: char) -> bool {
    ends_line(char) || char == ' '
}

/// A character of the names of anchors, handles and directives.
pub(super) fn is_name(char: char) -> bool {
    char.is_ascii_alphanumeric() || matches!(char, '-' | '_')
}

fn is_allowed(char: char) -> bool {
    matches!(char,
        '\t' | '\n' | '\r' | ' '..='~' | '\u{85}' | '\u{a0}'..='\u{d7ff}'
        | '\u{e000}'..='\u{fffd}' | '\u{10000}'..)
}

impl Cursor {
    /// At the beginning of `source`.
    pub(super) fn new(source: &str) -> Result<Self, Fault> {
        let mut cursor = Self {
            chars: source.chars().collect(),
            mark: Mark::default(),
        };
        if let Some(index) = cursor.chars.iter().position(|char| !is_allowed(*char)) {
            let char = cursor.chars[index];
            cursor.chars.truncate(index);
            cursor.forward(index);
            return Err(Fault::new(
                cursor.mark,
                format!("unexpected character U+{:04X}", u32::from(char)),
            )
            .hint("in a text in double quotes, write it as an escape: `\"\\x1b\"`"));
        }
        Ok(cursor)
    }

    /// The position of the next character.
    pub(super) fn mark(&self) -> Mark {
        self.mark
    }

    /// The index of the next character in its line.
    pub(super) fn column(&self) -> usize {
        self.mark.column
    }

    /// The next character.
    pub(super) fn peek(&self) -> char {
        self.peek_at(0)
    }

    /// The character after `ahead` others.
    pub(super) fn peek_at(&self, ahead: usize) -> char {
        let index = self.mark.index + ahead;
        self.chars.get(index).copied().unwrap_or(END)
    }

    /// Advances by `count` characters.
    pub(super) fn forward(&mut self, count: usize) {
        for _ in 0..count {
            let char = self.peek();
            self.mark.index += 1;
            if is_break(char) && !(char == '\r' && self.peek() == '\n') {
                self.mark.line += 1;
                self.mark.column = 0;
            } else if char != '\u{feff}' {
                self.mark.column += 1;
            }
        }
    }

    /// Moves `count` characters into `text`.
    pub(super) fn take(&mut self, count: usize, text: &mut String) {
        let start = self.mark.index.min(self.chars.len());
        let end = (start + count).min(self.chars.len());
        text.extend(&self.chars[start..end]);
        self.forward(count);
    }

    /// How many of the next characters are `wanted`; [`END`] never counts.
    pub(super) fn count(&self, wanted: impl Fn(char) -> bool) -> usize {
        self.chars[self.mark.index.min(self.chars.len())..]
            .iter()
            .take_while(|char| wanted(**char))
            .count()
    }

    /// Skips the characters that are `wanted`.
    pub(super) fn skip(&mut self, wanted: impl Fn(char) -> bool) {
        let count = self.count(wanted);
        self.forward(count);
    }

    /// Skips a line end, and returns the character that it becomes in a text.
    pub(super) fn line_break(&mut self) -> Option<char> {
        match self.peek() {
            '\r' if self.peek_at(1) == '\n' => {
                self.forward(2);
                Some('\n')
            }
            '\r' | '\n' | '\u{85}' => {
                self.forward(1);
                Some('\n')
            }
            char @ ('\u{2028}' | '\u{2029}') => {
                self.forward(1);
                Some(char)
            }
            _ => None,
        }
    }

    /// Skips blanks, a comment and the line end; anything else is an error.
    pub(super) fn rest_of_line(&mut self) -> Result<(), Fault> {
        self.skip(|char| char == ' ');
        if self.peek() == '#' {
            self.skip(|char| !ends_line(char));
        }
        if !ends_line(self.peek()) {
            let message = format!("expected a comment or a line end, not {}", self.shown());
            return Err(Fault::new(self.mark, message));
        }
        self.line_break();
        Ok(())
    }

    /// Whether `---` or `...` stands here as a word of its own.
    pub(super) fn at_separator(&self) -> bool {
        (self.is_next("---") || self.is_next("...")) && ends_word(self.peek_at(3))
    }

    /// Whether these characters come next.
    pub(super) fn is_next(&self, text: &str) -> bool {
        text.chars()
            .enumerate()
            .all(|(index, char)| self.peek_at(index) == char)
    }

    /// The next character, for messages.
    pub(super) fn shown(&self) -> String {
        match self.peek() {
            END => "the end of the file".to_owned(),
            '\t' => "a tab".to_owned(),
            '\n' | '\r' => "the end of the line".to_owned(),
            char => format!("`{char}`"),
        }
    }
}

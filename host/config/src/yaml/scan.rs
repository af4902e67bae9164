//! Tokens: the structure that indentation and punctuation express.
//!
//! A key is known only by the `:` after it, so a token that may begin a key is held back until that
//! is decided. [`Scanner::next`] reads no further ahead, so that errors come in the order in which
//! PyYAML finds them.

use std::collections::{BTreeMap, VecDeque};

use super::cursor::{Cursor, END, ends_line, ends_word};
use super::{Fault, Mark, scalar};

/// A key must be on one line and no longer than this.
const MAX_KEY: usize = 1024;

/// A token.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Token {
    StreamEnd,
    /// `%YAML` with its major version.
    Version(u64),
    /// `%TAG` with handle and prefix.
    TagPrefix(String, String),
    /// Any other directive, which has no effect.
    Directive,
    DocumentStart,
    DocumentEnd,
    BlockListStart,
    BlockMapStart,
    BlockEnd,
    ListStart,
    ListEnd,
    MapStart,
    MapEnd,
    /// `- `
    Item,
    /// `,`
    Comma,
    Key,
    Value,
    Alias(String),
    Anchor(String),
    /// Handle, if it has one, and suffix.
    Tag(Option<String>, String),
    Scalar {
        text: String,
        plain: bool,
    },
}

/// A token with its beginning and end.
#[derive(Clone, Debug)]
pub(super) struct Lexeme {
    pub(super) token: Token,
    pub(super) start: Mark,
    pub(super) end: Mark,
}

/// A token that may turn out to begin a key.
struct Candidate {
    number: usize,
    /// Whether it must be a key: at the indent of a block map nothing else is allowed.
    required: bool,
    mark: Mark,
}

/// Makes tokens of a text.
pub(super) struct Scanner {
    pub(super) cursor: Cursor,
    ready: VecDeque<Lexeme>,
    taken: usize,
    done: bool,
    /// Column of the innermost block; -1 outside of all.
    indent: isize,
    outer: Vec<isize>,
    /// The number of brackets that were opened, less those that were closed. Any number but zero
    /// counts as inside brackets, as in PyYAML.
    depth: i32,
    pub(super) key_allowed: bool,
    candidates: BTreeMap<i32, Candidate>,
}

impl Scanner {
    /// Before the first token.
    pub(super) fn new(source: &str) -> Result<Self, Fault> {
        Ok(Self {
            cursor: Cursor::new(source)?,
            ready: VecDeque::new(),
            taken: 0,
            done: false,
            indent: -1,
            outer: Vec::new(),
            depth: 0,
            key_allowed: true,
            candidates: BTreeMap::new(),
        })
    }

    /// The next token, which is not consumed.
    pub(super) fn peek(&mut self) -> Result<&Lexeme, Fault> {
        while !self.done {
            if !self.ready.is_empty() {
                self.drop_stale()?;
                let first = self.candidates.values().map(|key| key.number).min();
                if first != Some(self.taken) {
                    break;
                }
            }
            self.fetch()?;
        }
        Ok(self
            .ready
            .front()
            .expect("invariant: the stream's end is never taken"))
    }

    /// Consumes the next token; the end of the stream is not consumed.
    pub(super) fn next(&mut self) -> Result<Lexeme, Fault> {
        let lexeme = self.peek()?.clone();
        if lexeme.token != Token::StreamEnd {
            self.ready.pop_front();
            self.taken += 1;
        }
        Ok(lexeme)
    }

    /// Whether the position is inside brackets.
    pub(super) fn in_flow(&self) -> bool {
        self.depth != 0
    }

    fn column(&self) -> isize {
        self.cursor.column().cast_signed()
    }

    fn push(&mut self, token: Token, start: Mark) {
        let end = self.cursor.mark();
        self.ready.push_back(Lexeme { token, start, end });
    }

    fn fetch(&mut self) -> Result<(), Fault> {
        self.seek_token();
        self.drop_stale()?;
        self.unwind(self.column());
        let start = self.cursor.mark();
        let char = self.cursor.peek();
        let alone = ends_word(self.cursor.peek_at(1));
        match char {
            END => {
                self.reset()?;
                self.candidates.clear();
                self.push(Token::StreamEnd, start);
                self.done = true;
            }
            '%' if start.column == 0 => {
                self.reset()?;
                let token = self.directive()?;
                self.push(token, start);
            }
            '-' | '.' if start.column == 0 && self.cursor.at_separator() => {
                self.reset()?;
                self.cursor.forward(3);
                let starts = char == '-';
                self.push(
                    if starts {
                        Token::DocumentStart
                    } else {
                        Token::DocumentEnd
                    },
                    start,
                );
            }
            '[' | '{' => {
                self.save_candidate()?;
                self.depth += 1;
                self.key_allowed = true;
                self.cursor.forward(1);
                self.push(
                    if char == '[' {
                        Token::ListStart
                    } else {
                        Token::MapStart
                    },
                    start,
                );
            }
            ']' | '}' => {
                self.remove_candidate()?;
                self.depth -= 1;
                self.key_allowed = false;
                self.cursor.forward(1);
                self.push(
                    if char == ']' {
                        Token::ListEnd
                    } else {
                        Token::MapEnd
                    },
                    start,
                );
            }
            ',' => {
                self.key_allowed = true;
                self.remove_candidate()?;
                self.cursor.forward(1);
                self.push(Token::Comma, start);
            }
            '-' if alone => {
                self.open_block(Token::BlockListStart, "a list item can't stand here")?;
                self.key_allowed = true;
                self.remove_candidate()?;
                self.cursor.forward(1);
                self.push(Token::Item, start);
            }
            '?' if alone || self.in_flow() => {
                self.open_block(Token::BlockMapStart, "a `? ` key can't stand here")?;
                self.key_allowed = !self.in_flow();
                self.remove_candidate()?;
                self.cursor.forward(1);
                self.push(Token::Key, start);
            }
            ':' if alone || self.in_flow() => self.value()?,
            '*' | '&' => {
                self.save_candidate()?;
                self.key_allowed = false;
                let name = self.anchor()?;
                self.push(
                    if char == '*' {
                        Token::Alias(name)
                    } else {
                        Token::Anchor(name)
                    },
                    start,
                );
            }
            '!' => {
                self.save_candidate()?;
                self.key_allowed = false;
                let token = self.tag()?;
                self.push(token, start);
            }
            '|' | '>' if !self.in_flow() => {
                self.key_allowed = true;
                self.remove_candidate()?;
                let text = scalar::block(&mut self.cursor, self.indent)?;
                self.push(Token::Scalar { text, plain: false }, start);
            }
            '\'' | '"' => {
                self.save_candidate()?;
                self.key_allowed = false;
                let text = scalar::quoted(&mut self.cursor)?;
                self.push(Token::Scalar { text, plain: false }, start);
            }
            _ if self.begins_plain(char, alone) => {
                self.save_candidate()?;
                self.key_allowed = false;
                let in_flow = self.in_flow();
                let plain = scalar::plain(&mut self.cursor, self.indent, in_flow);
                self.key_allowed = plain.on_new_line;
                let (text, end) = (plain.text, plain.end);
                let token = Token::Scalar { text, plain: true };
                self.ready.push_back(Lexeme { token, start, end });
            }
            '\t' => {
                return Err(Fault::new(start, "a tab can't stand here").hint("indent with spaces"));
            }
            _ => {
                let message = format!("no value begins with {}", self.cursor.shown());
                return Err(Fault::new(start, message).hint("put the text in quotes"));
            }
        }
        Ok(())
    }

    fn begins_plain(&self, char: char, alone: bool) -> bool {
        match char {
            '-' => !alone,
            '?' | ':' => !alone && !self.in_flow(),
            ',' | '[' | ']' | '{' | '}' | '#' | '&' | '*' | '!' | '|' | '>' | '\'' | '"' | '%'
            | '@' | '`' => false,
            _ => !ends_word(char),
        }
    }

    fn seek_token(&mut self) {
        if self.cursor.mark().index == 0 && self.cursor.peek() == '\u{feff}' {
            self.cursor.forward(1);
        }
        loop {
            self.cursor.skip(|char| char == ' ');
            if self.cursor.peek() == '#' {
                self.cursor.skip(|char| !ends_line(char));
            }
            if self.cursor.line_break().is_none() {
                return;
            }
            if !self.in_flow() {
                self.key_allowed = true;
            }
        }
    }

    /// Closes every block, between documents.
    fn reset(&mut self) -> Result<(), Fault> {
        self.unwind(-1);
        self.remove_candidate()?;
        self.key_allowed = false;
        Ok(())
    }

    fn unwind(&mut self, column: isize) {
        if self.in_flow() {
            return;
        }
        while self.indent > column {
            self.push(Token::BlockEnd, self.cursor.mark());
            self.indent = self.outer.pop().unwrap_or(-1);
        }
    }

    fn indent_to(&mut self, column: isize) -> bool {
        let deeper = self.indent < column;
        if deeper {
            self.outer.push(self.indent);
            self.indent = column;
        }
        deeper
    }

    /// Opens the block that a token at this column belongs to, unless it is open.
    fn open_block(&mut self, token: Token, otherwise: &'static str) -> Result<(), Fault> {
        if self.in_flow() {
            return Ok(());
        }
        if !self.key_allowed {
            return Err(Fault::new(self.cursor.mark(), otherwise).hint(
                "text with `: ` or `- ` in it needs quotes; keys of one map need one indent",
            ));
        }
        if self.indent_to(self.column()) {
            self.push(token, self.cursor.mark());
        }
        Ok(())
    }

    fn value(&mut self) -> Result<(), Fault> {
        let start = self.cursor.mark();
        if let Some(key) = self.candidates.remove(&self.depth) {
            let lexeme = |token| Lexeme {
                token,
                start: key.mark,
                end: key.mark,
            };
            let at = key.number - self.taken;
            self.ready.insert(at, lexeme(Token::Key));
            if !self.in_flow() && self.indent_to(key.mark.column.cast_signed()) {
                self.ready.insert(at, lexeme(Token::BlockMapStart));
            }
            self.key_allowed = false;
        } else {
            self.open_block(
                Token::BlockMapStart,
                "a `:` can't stand here: there is no key for it",
            )?;
            self.key_allowed = !self.in_flow();
            self.remove_candidate()?;
        }
        self.cursor.forward(1);
        self.push(Token::Value, start);
        Ok(())
    }

    fn save_candidate(&mut self) -> Result<(), Fault> {
        if !self.key_allowed {
            return Ok(());
        }
        self.remove_candidate()?;
        let candidate = Candidate {
            number: self.taken + self.ready.len(),
            required: !self.in_flow() && self.indent == self.column(),
            mark: self.cursor.mark(),
        };
        self.candidates.insert(self.depth, candidate);
        Ok(())
    }

    fn remove_candidate(&mut self) -> Result<(), Fault> {
        match self.candidates.remove(&self.depth) {
            Some(key) if key.required => Err(self.no_colon(&key)),
            _ => Ok(()),
        }
    }

    /// Forgets candidates that can no longer become keys.
    fn drop_stale(&mut self) -> Result<(), Fault> {
        let mark = self.cursor.mark();
        let is_stale =
            |key: &Candidate| key.mark.line != mark.line || mark.index - key.mark.index > MAX_KEY;
        if let Some(key) = self
            .candidates
            .values()
            .find(|key| key.required && is_stale(key))
        {
            return Err(self.no_colon(key));
        }
        self.candidates.retain(|_, key| !is_stale(key));
        Ok(())
    }

    fn no_colon(&self, key: &Candidate) -> Fault {
        let line = key.mark.line + 1;
        Fault::new(
            self.cursor.mark(),
            format!("expected a `:` after the key on line {line}"),
        )
        .hint("at this indent only keys can stand; indent the lines of a longer text deeper")
    }
}

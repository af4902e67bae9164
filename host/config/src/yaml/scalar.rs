//! The texts of a document: plain, quoted and block, with their folding and escapes.

use super::Fault;
use super::Mark;
use super::cursor::{Cursor, END, ends_line, ends_word, ends_word_untabbed, is_break};

/// The treatment of the line ends after a block text.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Chomp {
    /// One is kept.
    Clip,
    /// All are removed.
    Strip,
    /// All are kept.
    Keep,
}

/// A text after `|` or `>`; `indent` is the column of the block around it.
pub(super) fn block(cursor: &mut Cursor, indent: isize) -> Result<String, Fault> {
    let parent = usize::try_from(indent + 1).unwrap_or_default().max(1);
    let folded = cursor.peek() == '>';
    cursor.forward(1);
    let (chomp, given) = block_header(cursor)?;
    cursor.rest_of_line()?;
    let mut breaks = String::new();
    let indent = match given {
        Some(given) => {
            let indent = parent + given - 1;
            block_breaks(cursor, indent, &mut breaks);
            indent
        }
        None => parent.max(detect_indent(cursor, &mut breaks)),
    };
    let mut text = String::new();
    let mut line_end = None;
    while cursor.column() == indent && cursor.peek() != END {
        text.push_str(&breaks);
        breaks.clear();
        let indented_more = matches!(cursor.peek(), ' ' | '\t');
        let length = cursor.count(|char| !ends_line(char));
        cursor.take(length, &mut text);
        line_end = cursor.line_break();
        block_breaks(cursor, indent, &mut breaks);
        if cursor.column() != indent || cursor.peek() == END {
            break;
        }
        let folds = folded
            && line_end == Some('\n')
            && !indented_more
            && !matches!(cursor.peek(), ' ' | '\t');
        if !folds {
            text.extend(line_end);
        } else if breaks.is_empty() {
            text.push(' ');
        }
    }
    if chomp != Chomp::Strip {
        text.extend(line_end);
    }
    if chomp == Chomp::Keep {
        text.push_str(&breaks);
    }
    Ok(text)
}

fn block_header(cursor: &mut Cursor) -> Result<(Chomp, Option<usize>), Fault> {
    let mut chomp = None;
    let mut indent = None;
    // each at most once, in either order
    for _ in 0..2 {
        match cursor.peek() {
            '+' if chomp.is_none() => chomp = Some(Chomp::Keep),
            '-' if chomp.is_none() => chomp = Some(Chomp::Strip),
            '0' if indent.is_none() => {
                return Err(Fault::new(
                    cursor.mark(),
                    "a block's indent is 1 to 9, not 0",
                ));
            }
            char if indent.is_none() && char.is_ascii_digit() => {
                indent = char
                    .to_digit(10)
                    .and_then(|digit| usize::try_from(digit).ok());
            }
            _ => break,
        }
        cursor.forward(1);
    }
    if !ends_word_untabbed(cursor.peek()) {
        let message = format!(
            "expected the line to end after `|` or `>`, not {}",
            cursor.shown()
        );
        return Err(Fault::new(cursor.mark(), message)
            .hint("the text of a block begins on the next line; quote a text that begins so"));
    }
    Ok((chomp.unwrap_or(Chomp::Clip), indent))
}

/// Skips empty lines up to the first one with text; returns the deepest indent of all these lines.
fn detect_indent(cursor: &mut Cursor, breaks: &mut String) -> usize {
    let mut deepest = 0;
    loop {
        if let Some(char) = cursor.line_break() {
            breaks.push(char);
        } else if cursor.peek() == ' ' {
            cursor.forward(1);
            deepest = deepest.max(cursor.column());
        } else {
            return deepest;
        }
    }
}

fn block_breaks(cursor: &mut Cursor, indent: usize, breaks: &mut String) {
    loop {
        while cursor.column() < indent && cursor.peek() == ' ' {
            cursor.forward(1);
        }
        match cursor.line_break() {
            Some(char) => breaks.push(char),
            None => return,
        }
    }
}

/// A text in quotes.
pub(super) fn quoted(cursor: &mut Cursor) -> Result<String, Fault> {
    let quote = cursor.peek();
    let start = cursor.mark();
    let mut text = String::new();
    cursor.forward(1);
    quoted_run(cursor, quote, &mut text)?;
    while cursor.peek() != quote {
        quoted_space(cursor, start, &mut text)?;
        quoted_run(cursor, quote, &mut text)?;
    }
    cursor.forward(1);
    Ok(text)
}

/// Up to the next white space or the end.
fn quoted_run(cursor: &mut Cursor, quote: char, text: &mut String) -> Result<(), Fault> {
    let double = quote == '"';
    loop {
        let length = cursor.count(|char| !ends_word(char) && !matches!(char, '\'' | '"' | '\\'));
        cursor.take(length, text);
        match cursor.peek() {
            '\'' if !double && cursor.peek_at(1) == '\'' => {
                text.push('\'');
                cursor.forward(2);
            }
            char @ ('\'' | '"' | '\\') if char != quote && !(double && char == '\\') => {
                text.push(char);
                cursor.forward(1);
            }
            '\\' => escape(cursor, text)?,
            _ => return Ok(()),
        }
    }
}

fn escape(cursor: &mut Cursor, text: &mut String) -> Result<(), Fault> {
    cursor.forward(1);
    let char = cursor.peek();
    let digits = match char {
        'x' => 2,
        'u' => 4,
        'U' => 8,
        _ if is_break(char) => {
            cursor.line_break();
            return quoted_breaks(cursor, text);
        }
        _ => {
            let Some(meant) = short_escape(char) else {
                let message = format!("there is no escape `\\{char}`");
                return Err(Fault::new(cursor.mark(), message)
                    .hint("double the backslash, or put the text in single quotes"));
            };
            text.push(meant);
            cursor.forward(1);
            return Ok(());
        }
    };
    let at = cursor.mark();
    cursor.forward(1);
    let hex = cursor.count(|char| char.is_ascii_hexdigit()).min(digits);
    if hex < digits {
        let message = format!("`\\{char}` takes {digits} hexadecimal digits");
        return Err(Fault::new(cursor.mark(), message));
    }
    let mut code = String::new();
    cursor.take(digits, &mut code);
    match u32::from_str_radix(&code, 16).ok().and_then(char::from_u32) {
        Some(meant) => text.push(meant),
        None => {
            let message = format!("`\\{char}{code}` is no character");
            return Err(Fault::new(at, message)
                .hint("write the character itself, or its code after `\\U` with 8 digits"));
        }
    }
    Ok(())
}

fn short_escape(char: char) -> Option<char> {
    Some(match char {
        '0' => '\0',
        'a' => '\u{7}',
        'b' => '\u{8}',
        't' | '\t' => '\t',
        'n' => '\n',
        'v' => '\u{b}',
        'f' => '\u{c}',
        'r' => '\r',
        'e' => '\u{1b}',
        ' ' | '"' | '\\' | '/' => char,
        'N' => '\u{85}',
        '_' => '\u{a0}',
        'L' => '\u{2028}',
        'P' => '\u{2029}',
        _ => return None,
    })
}

fn quoted_space(cursor: &mut Cursor, start: Mark, text: &mut String) -> Result<(), Fault> {
    let length = cursor.count(|char| matches!(char, ' ' | '\t'));
    let after = cursor.peek_at(length);
    if after == END {
        cursor.forward(length);
        let line = start.line + 1;
        let message = format!("the quoted text that begins on line {line} never ends");
        return Err(Fault::new(cursor.mark(), message).hint("close the quote"));
    }
    if !is_break(after) {
        cursor.take(length, text);
        return Ok(());
    }
    cursor.forward(length);
    let line_end = cursor.line_break();
    let before = text.len();
    if line_end != Some('\n') {
        text.extend(line_end);
    }
    let folded = text.len();
    quoted_breaks(cursor, text)?;
    if text.len() == folded && folded == before {
        text.push(' ');
    }
    Ok(())
}

fn quoted_breaks(cursor: &mut Cursor, text: &mut String) -> Result<(), Fault> {
    loop {
        if cursor.at_separator() {
            return Err(
                Fault::new(cursor.mark(), "a document ends inside of a quoted text")
                    .hint("close the quote, or indent this line"),
            );
        }
        cursor.skip(|char| matches!(char, ' ' | '\t'));
        match cursor.line_break() {
            Some(char) => text.push(char),
            None => return Ok(()),
        }
    }
}

/// A text without quotes.
pub(super) struct Plain {
    pub(super) text: String,
    /// The position of its end.
    pub(super) end: Mark,
    /// Whether the cursor is on a later line now.
    pub(super) on_new_line: bool,
}

/// A text without quotes; `indent` is the column of the block around it.
pub(super) fn plain(cursor: &mut Cursor, indent: isize, in_flow: bool) -> Plain {
    let indent = indent + 1;
    let mut text = String::new();
    let mut end = cursor.mark();
    let mut spaces = String::new();
    let mut on_new_line = false;
    loop {
        if cursor.peek() == '#' {
            break;
        }
        let length = plain_run(cursor, in_flow);
        if length == 0 {
            break;
        }
        text.push_str(&spaces);
        cursor.take(length, &mut text);
        end = cursor.mark();
        spaces.clear();
        on_new_line = plain_space(cursor, &mut spaces);
        if spaces.is_empty()
            || cursor.peek() == '#'
            || (!in_flow && cursor.column().cast_signed() < indent)
        {
            break;
        }
    }
    Plain {
        text,
        end,
        on_new_line,
    }
}

fn plain_run(cursor: &Cursor, in_flow: bool) -> usize {
    let mut length = 0;
    loop {
        let char = cursor.peek_at(length);
        let ends = match char {
            ':' => {
                let next = cursor.peek_at(length + 1);
                ends_word(next) || (in_flow && matches!(next, ',' | '[' | ']' | '{' | '}'))
            }
            ',' | '?' | '[' | ']' | '{' | '}' => in_flow,
            _ => ends_word(char),
        };
        if ends {
            return length;
        }
        length += 1;
    }
}

/// Reads the blanks and line ends after a part of a plain text; returns whether a line ended.
fn plain_space(cursor: &mut Cursor, spaces: &mut String) -> bool {
    let length = cursor.count(|char| char == ' ');
    if !is_break(cursor.peek_at(length)) {
        cursor.take(length, spaces);
        return false;
    }
    cursor.forward(length);
    let line_end = cursor.line_break();
    if cursor.at_separator() {
        return true;
    }
    let mut breaks = String::new();
    loop {
        cursor.skip(|char| char == ' ');
        let Some(char) = cursor.line_break() else {
            break;
        };
        breaks.push(char);
        if cursor.at_separator() {
            return true;
        }
    }
    match line_end {
        Some('\n') if breaks.is_empty() => spaces.push(' '),
        Some('\n') => {}
        other => spaces.extend(other),
    }
    spaces.push_str(&breaks);
    true
}

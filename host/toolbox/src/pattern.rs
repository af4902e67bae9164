//! Translates basic regular expressions (as in `grep`) and patterns of names (as in `find -name`)
//! into expressions of the crate `regex-lite`.

use std::borrow::Cow;
use std::ops::Range;

use memchr::memmem::Finder;
use regex_lite::{Regex, RegexBuilder, escape};

/// The limit of the size of a compiled expression.
const LARGEST: usize = 4 << 20;

/// A pattern that is searched for in lines.
pub struct LinePattern {
    line: Regex,
    /// A text that each matching line contains; parts of a file without it need not be searched.
    needed: Option<Finder<'static>>,
    /// The reason why the term is taken as plain text, if it is no valid expression.
    pub plain: Option<String>,
}

impl LinePattern {
    /// Compiles a term; one that is no valid expression is taken as plain text.
    pub fn of(term: &str) -> Self {
        let made = Translation::of(term).and_then(|made| {
            let line = built(&made.expression).ok_or("it is not valid, or too large")?;
            Ok((line, made.needed()))
        });
        let (line, needed, plain) = match made {
            Ok((line, needed)) => (line, needed, None),
            Err(problem) => {
                let line = built(&escape(term)).unwrap_or_else(never);
                (line, term.to_owned(), Some(problem))
            }
        };
        let needed = (!needed.is_empty()).then(|| Finder::new(&needed).into_owned());
        Self {
            line,
            needed,
            plain,
        }
    }

    /// The matching lines, each with its number from 1 and its text.
    pub fn lines<'a>(&self, content: &'a [u8]) -> Vec<(usize, &'a [u8])> {
        let mut found = Vec::new();
        // The offset and the number of the current line.
        let (mut start, mut number) = (0, 1);
        while start < content.len() {
            if let Some(needed) = &self.needed {
                let Some(place) = needed.find(&content[start..]) else {
                    break;
                };
                let skipped = &content[start..start + place];
                if let Some(last) = memchr::memrchr(b'\n', skipped) {
                    number += memchr::memchr_iter(b'\n', skipped).count();
                    start += last + 1;
                }
            }
            let line = line_at(content, start);
            let text = &content[line.clone()];
            let text = text.strip_suffix(b"\r").unwrap_or(text);
            if self.line.is_match(&shown(text)) {
                found.push((number, text));
            }
            start = line.end + 1;
            number += 1;
        }
        found
    }
}

fn line_at(content: &[u8], start: usize) -> Range<usize> {
    let length = memchr::memchr(b'\n', &content[start..]);
    start..length.map_or(content.len(), |length| start + length)
}

fn shown(text: &[u8]) -> Cow<'_, str> {
    String::from_utf8_lossy(text)
}

fn built(expression: &str) -> Option<Regex> {
    let mut builder = RegexBuilder::new(expression);
    builder
        .dot_matches_new_line(true)
        .size_limit(LARGEST)
        .build()
        .ok()
}

fn never() -> Regex {
    Regex::new("[^\\s\\S]").expect("invariant: it is an expression")
}

/// A pattern of whole names.
pub struct NamePattern(Regex);

impl NamePattern {
    /// Whether the whole name matches.
    pub fn fits(&self, name: &[u8]) -> bool {
        self.0.is_match(&shown(name))
    }
}

/// A translated basic expression.
#[derive(Default)]
struct Translation {
    expression: String,
    /// The longest text that each match contains; below, the text that is being read.
    longest: String,
    current: String,
    /// Whether there are alternatives, so that no text is in each match.
    choice: bool,
    /// The offsets in the expression at which the open groups begin.
    groups: Vec<usize>,
    /// The offset in the expression at which the item begins that a following repetition applies
    /// to, and whether a repetition already applies to it.
    last: usize,
    repeats: bool,
}

impl Translation {
    /// Reads a term.
    fn of(term: &str) -> Result<Self, String> {
        let mut made = Self::default();
        // At the beginning of an expression, `*` is literal and `^` is an anchor; after that
        // anchor, `*` is literal as well.
        let (mut begins, mut anchored) = (true, false);
        let mut rest = term.chars().peekable();
        while let Some(c) = rest.next() {
            let (mut still_begins, mut still_anchored) = (false, false);
            match c {
                '\\' => still_begins = made.escaped(&mut rest, begins)?,
                '[' => {
                    let class = bracket(&mut rest, &['^'])?;
                    made.special(&class);
                }
                '*' if !begins => made.repeated("*"),
                '.' => made.special("."),
                '^' if begins && !anchored => {
                    made.special("^");
                    (still_begins, still_anchored) = (true, true);
                }
                '$' if ends(&rest.clone().take(2).collect::<String>()) => made.special("$"),
                '\n' => {
                    made.alternative();
                    still_begins = true;
                }
                other => made.literal(other),
            }
            (begins, anchored) = (still_begins, still_anchored);
        }
        if !made.groups.is_empty() {
            return Err("`\\(` has no `\\)`".to_owned());
        }
        made.special("");
        made.expression = format!("(?:{})", made.expression);
        Ok(made)
    }

    /// Translates the character after a backslash; returns whether an expression begins after it.
    fn escaped(
        &mut self,
        rest: &mut impl Iterator<Item = char>,
        begins: bool,
    ) -> Result<bool, String> {
        match rest.next() {
            None => return Err("it ends with a backslash".to_owned()),
            Some('(') => {
                self.groups.push(self.expression.len());
                self.special("(?:");
                return Ok(true);
            }
            Some(')') => {
                let start = self.groups.pop().ok_or("`\\)` has no `\\(`")?;
                self.special(")");
                self.last = start;
            }
            Some('|') => {
                self.alternative();
                return Ok(true);
            }
            Some('{') if !begins => {
                let bounds = bounds(rest)?;
                self.repeated(&bounds);
            }
            Some('+') if !begins => self.repeated("+"),
            Some('?') if !begins => self.repeated("?"),
            Some('<') => self.special("\\b{start}"),
            Some('>') => self.special("\\b{end}"),
            Some('`') => self.special("^"),
            Some('\'') => self.special("$"),
            Some(class @ ('w' | 'W' | 's' | 'S' | 'b' | 'B')) => {
                self.special(&format!("\\{class}"));
            }
            Some('1'..='9') => {
                return Err("references to groups, such as `\\1`, are not possible".to_owned());
            }
            Some(other) => self.literal(other),
        }
        Ok(false)
    }

    fn literal(&mut self, c: char) {
        (self.last, self.repeats) = (self.expression.len(), false);
        self.expression
            .push_str(&escape(c.encode_utf8(&mut [0; 4])));
        if self.groups.is_empty() {
            self.current.push(c);
        }
    }

    /// Adds an expression that is no literal text.
    fn special(&mut self, expression: &str) {
        (self.last, self.repeats) = (self.expression.len(), false);
        self.expression.push_str(expression);
        if self.current.len() > self.longest.len() {
            self.longest.clone_from(&self.current);
        }
        self.current.clear();
    }

    /// Adds a repetition of the item before, which may allow zero occurrences.
    fn repeated(&mut self, sign: &str) {
        self.current.pop();
        let start = self.last;
        if self.repeats {
            // Two repetition signs in a row would have another meaning.
            self.expression.insert_str(start, "(?:");
            self.expression.push(')');
        }
        self.special(sign);
        (self.last, self.repeats) = (start, true);
    }

    fn alternative(&mut self) {
        self.special("|");
        self.choice = true;
    }

    fn needed(&self) -> String {
        if self.choice {
            return String::new();
        }
        self.longest.clone()
    }
}

/// Whether an expression, or an alternative or a group in it, ends before `rest`.
fn ends(rest: &str) -> bool {
    rest.is_empty() || rest.starts_with('\n') || rest == "\\)" || rest == "\\|"
}

/// Reads the rest of `\{1,2\}`.
fn bounds(rest: &mut impl Iterator<Item = char>) -> Result<String, String> {
    let mut made = "{".to_owned();
    loop {
        match rest.next() {
            Some('\\') => break,
            Some(c) if c.is_ascii_digit() || c == ',' => {
                if c == ',' && made == "{" {
                    made.push('0');
                }
                made.push(c);
            }
            _ => return Err("`\\{` has no `\\}`".to_owned()),
        }
    }
    match rest.next() {
        Some('}') if made.len() > 1 => Ok(made + "}"),
        _ => Err("`\\{` has no `\\}`".to_owned()),
    }
}

/// Reads the rest of a bracket expression, in which a backslash is literal.
fn bracket(
    rest: &mut std::iter::Peekable<impl Iterator<Item = char> + Clone>,
    negation: &[char],
) -> Result<String, String> {
    const OPEN: &str = "`[` has no `]`";
    let mut made = "[".to_owned();
    let negated = rest.next_if(|c| negation.contains(c)).is_some();
    if negated {
        made.push('^');
    }
    let mut first = true;
    loop {
        let c = rest.next().ok_or(OPEN)?;
        match c {
            ']' if !first => return Ok(made + "]"),
            '[' if rest.peek() == Some(&':') => {
                let name: String = rest.by_ref().skip(1).take_while(|c| *c != ':').collect();
                if rest.next() != Some(']') {
                    return Err(OPEN.to_owned());
                }
                made.push_str(&format!("[:{name}:]"));
            }
            '-' if !first && rest.peek().is_some_and(|next| *next != ']') => made.push('-'),
            other => made.push_str(&format!("\\x{{{:x}}}", u32::from(other))),
        }
        first = false;
    }
}

/// The pattern of names with `*`, `?` and `[...]`; none if it is too large.
pub fn names(pattern: &str) -> Option<NamePattern> {
    let mut made = String::from("^");
    let mut rest = pattern.chars().peekable();
    let literal = |c: char| escape(c.encode_utf8(&mut [0; 4]));
    while let Some(c) = rest.next() {
        match c {
            '*' => made.push_str(".*"),
            '?' => made.push('.'),
            '\\' => made.push_str(&literal(rest.next().unwrap_or('\\'))),
            '[' => {
                let mut tried = rest.clone();
                match bracket(&mut tried, &['^', '!']) {
                    Ok(class) => {
                        made.push_str(&class);
                        rest = tried;
                    }
                    Err(_) => made.push_str("\\["),
                }
            }
            other => made.push_str(&literal(other)),
        }
    }
    built(&(made + "$")).map(NamePattern)
}

#[cfg(test)]
mod tests {
    use super::{LinePattern, names};

    #[test]
    fn terms_are_basic_expressions() {
        for (term, yes, no) in [
            ("def f(", "def f(x)", "def f"),
            ("a+b", "a+b", "aab"),
            ("a\\+b", "aab", "a+b"),
            ("a|b", "a|b", "a"),
            ("a\\|b$", "xb", "bx"),
            ("^a", "ab", "ba"),
            ("a^b", "a^b", "ab"),
            ("a$b", "a$b", "ab"),
            ("*a", "*a", "a"),
            ("\\(ab\\)*c", "ababc", "ab"),
            ("\\(^a\\)", "ab", "ba"),
            ("a{2}", "a{2}", "aa"),
            ("a\\{2,3\\}b", "aab", "ab"),
            ("a\\{,1\\}b$", "ab", "a"),
            ("[^a-c]x", "dx", "ax"),
            ("[]a]x", "]x", "bx"),
            ("[a\\]x", "\\x", "bx"),
            ("[[:digit:]a]x", "7x", "bx"),
            ("[a-]x", "-x", "bx"),
            ("\\<is\\>", "it is it", "this"),
            ("\\.py", "a.py", "apy"),
            ("a\nb", "xb", "c"),
            ("x.y", "x\u{e9}y", "xy"),
            ("abc*d", "abd", "acd"),
            ("^a\\+\\?b", "b", "a"),
            ("^^a", "^a", "a"),
            ("^*a", "*a", "a"),
            ("\\{1\\}", "a{1}", "1"),
            ("^\\(ab\\)*\\{2\\}c", "abababc", "abac"),
            ("ab\\{0,1\\}c", "ac", "abbc"),
        ] {
            let pattern = LinePattern::of(term);
            assert_eq!(pattern.plain, None, "{term}");
            assert_eq!(pattern.lines(yes.as_bytes()).len(), 1, "{term} in {yes}");
            assert_eq!(pattern.lines(no.as_bytes()).len(), 0, "{term} in {no}");
        }
        for (term, text) in [
            ("a[0", "a[0"),
            ("\\(a", "\\(a"),
            ("a\\1", "a\\1"),
            ("a\\", "a\\"),
        ] {
            let pattern = LinePattern::of(term);
            assert!(pattern.plain.is_some(), "{term}");
            assert_eq!(pattern.lines(text.as_bytes()).len(), 1, "{term}");
        }
        let pattern = LinePattern::of("[^x]$");
        let found = pattern.lines(b"ab\r\nx\n\nb\n");
        assert_eq!(found, [(1, &b"ab"[..]), (4, b"b")]);
        assert_eq!(LinePattern::of("^$").lines(b"a\r\n\r\nb").len(), 1);
    }

    #[test]
    fn names_are_patterns() {
        for (pattern, yes, no) in [
            ("a.py", "a.py", "axpy"),
            ("*.py", "a.py", "a.pyc"),
            ("a?c", "abc", "ac"),
            ("[a-c]x", "bx", "dx"),
            ("[!a]x", "bx", "ax"),
            ("a[b", "a[b", "ab"),
            ("\\*", "*", "a"),
        ] {
            let regex = names(pattern).unwrap();
            assert!(regex.fits(yes.as_bytes()), "{pattern}");
            assert!(!regex.fits(no.as_bytes()), "{pattern}");
        }
    }
}

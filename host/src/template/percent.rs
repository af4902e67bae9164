//! `'%s' % x`: the engine's `%` takes numbers only, so templates are compiled with a filter in
//! its place, `'%s'|_percent(x)`, and errors are shown where the template has them.

use std::ops::Range;

use minijinja::value::ValueKind;
use minijinja::{Error, Value};

use super::args::{defined, invalid, items};
use super::printf::{Arguments, format_percent};
use super::scan;

/// The filter's name.
pub(super) const FILTER: &str = "_percent";

/// A place where the compiled text is not that of the template.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Edit {
    /// In the compiled text.
    at: usize,
    inserted: usize,
    removed: usize,
}

/// What was changed, to find the way back.
#[derive(Debug, Default)]
pub(super) struct Edits(Vec<Edit>);

impl Edits {
    /// Where a range of the compiled text is in the template.
    pub(super) fn original(&self, range: Range<usize>) -> Range<usize> {
        self.position(range.start, false)..self.position(range.end, true)
    }

    fn position(&self, at: usize, is_end: bool) -> usize {
        let mut shift = 0;
        for edit in &self.0 {
            if at < edit.at || (is_end && at == edit.at) {
                break;
            }
            if at < edit.at + edit.inserted {
                let within = if is_end { edit.removed } else { 0 };
                return edit.at - shift + within;
            }
            shift = shift + edit.inserted - edit.removed;
        }
        at - shift
    }
}

/// The value of `left % right`.
pub(super) fn percent(left: &Value, right: &Value) -> Result<Value, Error> {
    if let Some(format) = left.as_str() {
        let arguments = if right.is_tuple() {
            Arguments::Tuple(items(right)?)
        } else {
            Arguments::One(right.clone())
        };
        return format_percent(format, &arguments).map(Value::from);
    }
    defined(left)?;
    defined(right)?;
    let whole = |value: &Value| match value.kind() {
        ValueKind::Bool => Some(i128::from(value.is_true())),
        ValueKind::Number if value.is_integer() => i128::try_from(value.clone()).ok(),
        _ => None,
    };
    if let (Some(left), Some(right)) = (whole(left), whole(right)) {
        let rest = left
            .checked_rem(right)
            .ok_or_else(|| invalid("nothing can be divided by 0"))?;
        // with the sign of the divisor
        let rest = if rest != 0 && (rest < 0) != (right < 0) {
            rest + right
        } else {
            rest
        };
        return Ok(match i64::try_from(rest) {
            Ok(rest) => Value::from(rest),
            Err(_) => Value::from(rest),
        });
    }
    let real = |value: &Value| match whole(value) {
        #[expect(clippy::cast_precision_loss, reason = "that is what `float` does")]
        Some(number) => Some(number as f64),
        None => f64::try_from(value.clone()).ok(),
    };
    let (Some(dividend), Some(divisor)) = (real(left), real(right)) else {
        return Err(invalid(format!(
            "a {} has no remainder by a {}",
            left.kind(),
            right.kind()
        )));
    };
    if divisor == 0.0 {
        return Err(invalid("nothing can be divided by 0"));
    }
    let rest = dividend % divisor;
    Ok(Value::from(if rest == 0.0 {
        0.0_f64.copysign(divisor)
    } else if (rest < 0.0) != (divisor < 0.0) {
        rest + divisor
    } else {
        rest
    }))
}

/// The template as it is compiled.
pub(super) fn rewrite(source: &str) -> (String, Edits) {
    let mut changes: Vec<(Range<usize>, String)> = Vec::new();
    if source.contains('%') {
        for body in scan::expressions(source) {
            find(source, body, &mut changes);
        }
    }
    // a `)` of one may stand where the filter of the next one begins
    changes.sort_by_key(|(range, _)| range.start);
    let mut out = String::with_capacity(source.len());
    let mut edits = Vec::new();
    let mut copied = 0;
    for (range, text) in changes {
        out.push_str(&source[copied..range.start]);
        edits.push(Edit {
            at: out.len(),
            inserted: text.len(),
            removed: range.len(),
        });
        out.push_str(&text);
        copied = range.end;
    }
    out.push_str(&source[copied..]);
    (out, Edits(edits))
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Name,
    Number,
    Text,
    Mark,
}

struct Token<'s> {
    kind: Kind,
    text: &'s str,
    at: usize,
}

fn tokens(source: &str, body: Range<usize>) -> Vec<Token<'_>> {
    let bytes = &source.as_bytes()[..body.end];
    let mut tokens = Vec::new();
    let mut at = body.start;
    while at < bytes.len() {
        let start = at;
        let word = |byte: &u8| byte.is_ascii_alphanumeric() || *byte == b'_' || *byte >= 0x80;
        let kind = match bytes[at] {
            byte if byte.is_ascii_whitespace() => {
                at += 1;
                continue;
            }
            quote @ (b'"' | b'\'') => {
                at += 1;
                while at < bytes.len() && bytes[at] != quote {
                    at += if bytes[at] == b'\\' { 2 } else { 1 };
                }
                at = (at + 1).min(bytes.len());
                Kind::Text
            }
            byte if byte.is_ascii_digit() => {
                while at < bytes.len() && (word(&bytes[at]) || is_inside(bytes, start, at)) {
                    at += 1;
                }
                Kind::Number
            }
            byte if word(&byte) => {
                at += bytes[at..].iter().take_while(|byte| word(byte)).count();
                Kind::Name
            }
            byte => {
                let double = matches!(byte, b'*' | b'/') && bytes.get(at + 1) == Some(&byte);
                at += if double { 2 } else { 1 };
                Kind::Mark
            }
        };
        // an unclosed text with an escape may end in the middle of a character
        let Some(text) = source.get(start..at) else {
            return Vec::new();
        };
        tokens.push(Token {
            kind,
            text,
            at: start,
        });
    }
    tokens
}

/// Whether a dot or a sign belongs to the number that begins at `start`: `1.5`, `1e-7`.
fn is_inside(bytes: &[u8], start: usize, at: usize) -> bool {
    let digit = bytes.get(at + 1).is_some_and(u8::is_ascii_digit);
    match bytes[at] {
        b'.' => digit,
        b'-' | b'+' => {
            let hex = bytes[start..].starts_with(b"0x") || bytes[start..].starts_with(b"0X");
            digit && !hex && matches!(bytes[at - 1], b'e' | b'E')
        }
        _ => false,
    }
}

fn find(source: &str, body: Range<usize>, changes: &mut Vec<(Range<usize>, String)>) {
    let tokens = tokens(source, body);
    let mut rewritten = Vec::new();
    for (index, token) in tokens.iter().enumerate() {
        if token.text != "%" || token.kind != Kind::Mark {
            continue;
        }
        let Some(start) = operand_start(&tokens, index) else {
            continue;
        };
        let before = start.checked_sub(1);
        let takes = match before.map(|before| tokens[before].text) {
            Some("*" | "/" | "//" | "**" | "is") => false,
            // `a % b % c` is `(a % b) % c`
            Some("%") => rewritten.last() == Some(&before),
            Some("-" | "+") => {
                before.is_some_and(|before| before > 0 && ends_operand(&tokens[before - 1]))
            }
            Some("not") => {
                before.is_none_or(|before| before == 0 || tokens[before - 1].text != "is")
            }
            _ => true,
        };
        let Some(end) = operand_end(&tokens, index + 1).filter(|_| takes) else {
            continue;
        };
        if tokens.get(end).is_some_and(|next| next.text == "is") {
            continue;
        }
        let last = &tokens[end - 1];
        let close = last.at + last.text.len();
        changes.push((token.at..token.at + 1, format!("|{FILTER}(")));
        changes.push((close..close, ")".to_owned()));
        rewritten.push(Some(index));
    }
}

fn is_word(token: &Token<'_>) -> bool {
    token.kind == Kind::Name
        && !matches!(
            token.text,
            "and"
                | "or"
                | "not"
                | "in"
                | "is"
                | "if"
                | "else"
                | "elif"
                | "set"
                | "for"
                | "recursive"
        )
}

fn ends_operand(token: &Token<'_>) -> bool {
    match token.kind {
        Kind::Mark => matches!(token.text, ")" | "]" | "}"),
        _ => token.kind != Kind::Name || is_word(token),
    }
}

/// Where the operand begins that ends before `end`; none for a number, which is no format.
fn operand_start(tokens: &[Token<'_>], end: usize) -> Option<usize> {
    let mut at = end.checked_sub(1)?;
    loop {
        let token = &tokens[at];
        match (token.kind, token.text) {
            (Kind::Mark, ")" | "]" | "}") => {
                at = opening(tokens, at)?;
                let called = token.text != "}"
                    && at > 0
                    && ends_operand(&tokens[at - 1])
                    && tokens[at - 1].kind != Kind::Number;
                if !called {
                    return Some(at);
                }
                at -= 1;
            }
            (Kind::Text, _) if at > 0 && tokens[at - 1].kind == Kind::Text => at -= 1,
            (Kind::Text, _) => return Some(at),
            (Kind::Name, _) if is_word(token) => {
                match at.checked_sub(1).map(|before| tokens[before].text) {
                    Some("." | "|") => at = at.checked_sub(2)?,
                    _ => return Some(at),
                }
            }
            _ => return None,
        }
    }
}

fn opening(tokens: &[Token<'_>], close: usize) -> Option<usize> {
    let mut depth = 0_usize;
    for at in (0..=close).rev() {
        if tokens[at].kind == Kind::Mark {
            match tokens[at].text {
                ")" | "]" | "}" => depth += 1,
                "(" | "[" | "{" => {
                    depth -= 1;
                    if depth == 0 {
                        return Some(at);
                    }
                }
                _ => {}
            }
        }
    }
    None
}

fn closing(tokens: &[Token<'_>], open: usize) -> Option<usize> {
    let mut depth = 0_usize;
    for (at, token) in tokens.iter().enumerate().skip(open) {
        if token.kind == Kind::Mark {
            match token.text {
                "(" | "[" | "{" => depth += 1,
                ")" | "]" | "}" => {
                    depth = depth.checked_sub(1)?;
                    if depth == 0 {
                        return Some(at);
                    }
                }
                _ => {}
            }
        }
    }
    None
}

/// Behind the operand that begins at `at`.
fn operand_end(tokens: &[Token<'_>], mut at: usize) -> Option<usize> {
    while matches!(tokens.get(at)?.text, "-" | "+") {
        at += 1;
    }
    let first = tokens.get(at)?;
    at = match (first.kind, first.text) {
        (Kind::Mark, "(" | "[" | "{") => closing(tokens, at)? + 1,
        (Kind::Text, _) => {
            at + tokens[at..]
                .iter()
                .take_while(|token| token.kind == Kind::Text)
                .count()
        }
        (Kind::Number, _) => at + 1,
        (Kind::Name, _) if is_word(first) => at + 1,
        _ => return None,
    };
    while let Some(token) = tokens.get(at) {
        match (token.kind, token.text) {
            (Kind::Mark, "." | "|") => {
                tokens.get(at + 1)?;
                at += 2;
            }
            (Kind::Mark, "(" | "[") => at = closing(tokens, at)? + 1,
            (Kind::Mark, "**") => return operand_end(tokens, at + 1),
            _ => break,
        }
    }
    Some(at)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_operators_are_rewritten() {
        for (source, expected) in [
            ("{{ 'a%s' % b }}", "{{ 'a%s' |_percent( b) }}"),
            ("{{ '%s' % (a, b)|c }}", "{{ '%s' |_percent( (a, b)|c) }}"),
            (
                "{{ a.b['c'] % -d.e(1) + 2 }}",
                "{{ a.b['c'] |_percent( -d.e(1)) + 2 }}",
            ),
            ("{{ a % b % c }}", "{{ a |_percent( b) |_percent( c) }}"),
            (
                "{{ f('%s' % g('%d' % 1)) }}",
                "{{ f('%s' |_percent( g('%d' |_percent( 1)))) }}",
            ),
            ("{{ 2 * a % b }}", "{{ 2 * a % b }}"),
            ("{{ -a % b }}", "{{ -a % b }}"),
            ("{{ 7 % b }}", "{{ 7 % b }}"),
            ("{{ a - b % c }}", "{{ a - b |_percent( c) }}"),
            ("{{ a % b is c }}", "{{ a % b is c }}"),
            (
                "{% if 'x' % 'y' %}%{% endif %}",
                "{% if 'x' |_percent( 'y') %}%{% endif %}",
            ),
            (
                "{% raw %}{{ a % b }}{% endraw %}{# {{ a % b }} #}%",
                "{% raw %}{{ a % b }}{% endraw %}{# {{ a % b }} #}%",
            ),
            ("{{ 'é' % é }}", "{{ 'é' |_percent( é) }}"),
            ("{{ a%1e-7 -1 }}", "{{ a|_percent(1e-7) -1 }}"),
            ("{{ a %0xe-1 }}", "{{ a |_percent(0xe)-1 }}"),
            ("{{ a % b -}}", "{{ a |_percent( b) -}}"),
            ("{{ a % }}", "{{ a % }}"),
            ("{{ % b }}", "{{ % b }}"),
            ("{{ a % (b }}", "{{ a % (b }}"),
            ("{{ a ) % b }}", "{{ a ) % b }}"),
            ("{{ 'a % b", "{{ 'a % b"),
        ] {
            assert_eq!(rewrite(source).0, expected);
        }
    }

    #[test]
    fn places_are_found_again() {
        let source = "{{ 'x' % a }}{{ b % c }} {{ d }}";
        let (text, edits) = rewrite(source);
        for name in ["a", "b", "c", "d"] {
            let at = text.find(&format!(" {name}")).unwrap() + 1;
            let found = edits.original(at..at + 1);
            assert_eq!(&source[found], name);
        }
    }

    #[test]
    fn remainders_have_the_sign_of_the_divisor() {
        for (left, right, rest) in [(7, 3, 1), (-7, 3, 2), (7, -3, -2), (-7, -3, -1)] {
            let rest = Value::from(rest);
            assert_eq!(
                percent(&Value::from(left), &Value::from(right)).unwrap(),
                rest
            );
        }
        let pair = minijinja::value::Tuple::from([Value::from(1), Value::from(2)]);
        let text = percent(&Value::from("%s-%s"), &Value::from(pair)).unwrap();
        assert_eq!(text.as_str(), Some("1-2"));
    }
}

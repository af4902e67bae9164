//! The signature of a command, parsed once, and filled in with the words of a call.

use crate::manifest::Command;
use crate::python::is_name;

/// A piece of a signature.
#[derive(Debug, PartialEq)]
enum Piece {
    /// Literal text.
    Text(String),
    /// An argument, by its index.
    Argument(usize),
    /// In brackets: left out if none of its arguments is given.
    Optional(Vec<Piece>),
}

/// A parsed signature.
#[derive(Debug)]
pub struct Signature(Vec<Piece>);

impl Signature {
    /// Parses a command's signature, or makes one.
    ///
    /// # Errors
    ///
    /// A message if it is malformed, or names an argument that the command does not have.
    pub fn new(command: &Command, compat: bool) -> Result<Self, String> {
        let Some(signature) = &command.signature else {
            let mut pieces = vec![Piece::Text(format!("{} ", command.name))];
            for number in 0..command.arguments.len() {
                pieces.push(Piece::Argument(number));
                pieces.push(Piece::Text(" ".to_owned()));
            }
            return Ok(Self(pieces));
        };
        for argument in &command.arguments {
            let name = &argument.name;
            let forms = [
                format!("<{name}>"),
                format!("{{{name}}}"),
                format!("--{name}"),
            ];
            if !forms.iter().any(|form| signature.contains(form.as_str())) {
                return Err(format!(
                    "argument `{name}` is missing in it: write `<{name}>` where it belongs"
                ));
            }
        }
        let mut reader = Reader {
            command,
            compat,
            missing: vec![true; command.arguments.len()],
        };
        let pieces = match compat {
            true => reader.format(&as_format(signature))?,
            false => reader.read(signature, true)?,
        };
        if let Some(number) = reader.missing.iter().position(|missing| *missing) {
            let name = &command.arguments[number].name;
            return Err(format!(
                "`--{name}` alone says nothing of the value: write `--{name} <{name}>`"
            ));
        }
        Ok(Self(pieces))
    }

    /// The command line, with a word for each argument that is given.
    pub fn invoke(&self, words: &[Option<String>]) -> String {
        let mut line = String::new();
        put(&self.0, words, &mut line);
        line
    }
}

fn put(pieces: &[Piece], words: &[Option<String>], line: &mut String) {
    let word = |number: &usize| words.get(*number).and_then(Option::as_deref);
    for piece in pieces {
        match piece {
            Piece::Text(text) => line.push_str(text),
            Piece::Argument(number) => line.push_str(word(number).unwrap_or_default()),
            Piece::Optional(inner) => {
                let is_there = inner.iter().any(|piece| match piece {
                    Piece::Argument(number) => word(number).is_some(),
                    Piece::Text(_) | Piece::Optional(_) => false,
                });
                if is_there {
                    put(inner, words, line);
                }
            }
        }
    }
}

/// The name at the beginning of a text, and the text after the mark that closes it.
fn name_until(text: &str, close: char) -> Option<&str> {
    let name = &text[..text.find(close)?];
    is_name(name, true).then_some(name)
}

/// SWE-agent's replacement in a signature: `[<x>]`, `[<x>` and `<x>` become `{x}`.
fn as_format(signature: &str) -> String {
    let mut format = String::new();
    let mut rest = signature;
    while let Some(at) = rest.find('<') {
        let (before, from) = rest.split_at(at);
        let Some(name) = name_until(&from[1..], '>') else {
            format.push_str(&rest[..=at]);
            rest = &from[1..];
            continue;
        };
        format.push_str(before.strip_suffix('[').unwrap_or(before));
        format.push_str(&format!("{{{name}}}"));
        let behind = &from[name.len() + 2..];
        rest = behind.strip_prefix(']').unwrap_or(behind);
    }
    format + rest
}

struct Reader<'c> {
    command: &'c Command,
    compat: bool,
    missing: Vec<bool>,
}

impl Reader<'_> {
    fn argument(&mut self, name: &str) -> Result<Piece, String> {
        let mut arguments = self.command.arguments.iter();
        match arguments.position(|argument| argument.name == name) {
            Some(number) => {
                self.missing[number] = false;
                Ok(Piece::Argument(number))
            }
            None => Err(format!(
                "`{name}` stands in it, but is none of the arguments: add it to `arguments`"
            )),
        }
    }

    /// Python's format strings, as far as they make sense here.
    fn format(&mut self, text: &str) -> Result<Vec<Piece>, String> {
        let mut pieces = Vec::new();
        let mut literal = String::new();
        let mut rest = text;
        while let Some(at) = rest.find(['{', '}']) {
            literal.push_str(&rest[..at]);
            let mark = &rest[at..=at];
            rest = &rest[at + 1..];
            if let Some(behind) = rest.strip_prefix(mark) {
                literal.push_str(mark);
                rest = behind;
                continue;
            }
            let Some(end) = rest.find('}').filter(|_| mark == "{") else {
                return Err(format!("a single `{mark}` stands in it: write it twice"));
            };
            pieces.push(Piece::Text(std::mem::take(&mut literal)));
            pieces.push(self.argument(&rest[..end])?);
            rest = &rest[end + 1..];
        }
        literal.push_str(rest);
        pieces.push(Piece::Text(literal));
        Ok(pieces)
    }

    fn read(&mut self, text: &str, brackets: bool) -> Result<Vec<Piece>, String> {
        let mut pieces = Vec::new();
        let mut literal = String::new();
        let mut rest = text;
        while let Some(first) = rest.chars().next() {
            let (piece, length) = match first {
                // The value itself is quoted; quotes around it would undo that.
                '"' | '\'' if self.command.quotes() => match self.placeholder(&rest[1..])? {
                    Some((piece, length)) if rest[1 + length..].starts_with(first) => {
                        (Some(piece), length + 2)
                    }
                    _ => (None, 1),
                },
                '<' | '{' => match self.placeholder(rest)? {
                    Some((piece, length)) => (Some(piece), length),
                    None if rest.starts_with("{{") => (None, 2),
                    None => (None, 1),
                },
                '}' if rest.starts_with("}}") => (None, 2),
                '[' if brackets => match rest[1..].find(['[', ']']) {
                    Some(end) if rest[1 + end..].starts_with(']') => {
                        let inner = self.read(&rest[1..=end], false)?;
                        let holds = |piece: &Piece| matches!(piece, Piece::Argument(_));
                        match inner.iter().any(holds) {
                            true => (Some(Piece::Optional(inner)), end + 2),
                            false => (None, 1),
                        }
                    }
                    _ => (None, 1),
                },
                other => (None, other.len_utf8()),
            };
            match piece {
                Some(piece) => {
                    pieces.push(Piece::Text(std::mem::take(&mut literal)));
                    pieces.push(piece);
                }
                None => literal.push(first),
            }
            rest = &rest[length..];
        }
        pieces.push(Piece::Text(literal));
        Ok(pieces)
    }

    /// The argument at the beginning of a text, and the length of its placeholder.
    fn placeholder(&mut self, text: &str) -> Result<Option<(Piece, usize)>, String> {
        debug_assert!(!self.compat, "that way has rules of its own");
        let close = match text.chars().next() {
            Some('<') => '>',
            Some('{') => '}',
            _ => return Ok(None),
        };
        match name_until(&text[1..], close) {
            Some(name) => Ok(Some((self.argument(name)?, name.len() + 2))),
            None => Ok(None),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn command(signature: Option<&str>, arguments: &[&str]) -> Command {
        let arguments: Vec<_> = arguments
            .iter()
            .map(|name| json!({ "name": name, "type": "string", "required": true }))
            .collect();
        serde_json::from_value(json!({
            "name": "test_cmd", "signature": signature, "arguments": arguments,
        }))
        .expect("the command is good")
    }

    /// The line with each argument in braces, and the one without arguments; or the error.
    fn lines(signature: Option<&str>, names: &[&str], compat: bool) -> Result<[String; 2], String> {
        let signature = Signature::new(&command(signature, names), compat)?;
        let words: Vec<_> = names
            .iter()
            .map(|name| Some(format!("{{{name}}}")))
            .collect();
        Ok([
            signature.invoke(&words),
            signature.invoke(&vec![None; names.len()]),
        ])
    }

    /// In both modes: signature, arguments, the line with all, the line with none.
    #[test]
    fn lines_of_commands() {
        for (signature, names, all, none) in [
            (
                None,
                &["arg1", "arg2"][..],
                "test_cmd {arg1} {arg2} ",
                "test_cmd   ",
            ),
            (
                Some("goto <line_number>"),
                &["line_number"],
                "goto {line_number}",
                "goto ",
            ),
            (
                Some("grep --pattern <pattern> --file <file>"),
                &["pattern", "file"],
                "grep --pattern {pattern} --file {file}",
                "grep --pattern  --file ",
            ),
            (Some("scroll_up"), &[], "scroll_up", "scroll_up"),
            (Some("t <a> [<b>]"), &["a", "b"], "t {a} {b}", "t  "),
            (Some("t {a} [<b>]"), &["a", "b"], "t {a} {b}", "t  "),
            (
                Some("t <a> <with-dash> <with123numbers> <_x>"),
                &["a", "with-dash", "with123numbers", "_x"],
                "t {a} {with-dash} {with123numbers} {_x}",
                "t    ",
            ),
            (
                Some("t {{x}} < y <a>"),
                &["a"],
                "t {x} < y {a}",
                "t {x} < y ",
            ),
            (
                Some("edit <a>:<b>\n<text>\nend"),
                &["a", "b", "text"],
                "edit {a}:{b}\n{text}\nend",
                "edit :\n\nend",
            ),
            (Some("t <é <a>"), &["a"], "t <é {a}", "t <é "),
        ] {
            for compat in [false, true] {
                assert_eq!(
                    lines(signature, names, compat),
                    Ok([all.to_owned(), none.to_owned()]),
                    "{signature:?}"
                );
            }
        }
    }

    #[test]
    fn where_the_two_ways_differ() {
        for (signature, sane, compat) in [
            // The value has its own quotes.
            (
                "open \"<x>\"",
                ["open {x}", "open "],
                ["open \"{x}\"", "open \"\""],
            ),
            (
                "open '{x}'",
                ["open {x}", "open "],
                ["open '{x}'", "open ''"],
            ),
            (
                "a [--x=<x>]",
                ["a --x={x}", "a "],
                ["a [--x={x}", "a [--x="],
            ),
            (
                "a [--x <x> y]",
                ["a --x {x} y", "a "],
                ["a [--x {x} y]", "a [--x  y]"],
            ),
            ("a [<x>", ["a [{x}", "a ["], ["a {x}", "a "]),
            (
                "a [b] <x>",
                ["a [b] {x}", "a [b] "],
                ["a [b] {x}", "a [b] "],
            ),
            (
                "a \"<x> b\"",
                ["a \"{x} b\"", "a \" b\""],
                ["a \"{x} b\"", "a \" b\""],
            ),
        ] {
            let owned = |[all, none]: [&str; 2]| Ok([all.to_owned(), none.to_owned()]);
            assert_eq!(
                lines(Some(signature), &["x"], false),
                owned(sane),
                "{signature}"
            );
            assert_eq!(
                lines(Some(signature), &["x"], true),
                owned(compat),
                "{signature}"
            );
        }
    }

    #[test]
    fn what_does_not_fit() {
        for (signature, names, part) in [
            ("t <b>", &["a", "b"][..], "`a` is missing"),
            ("t <a> <b>", &["a"], "`b` stands in it"),
            ("t <a>", &[], "`a` stands in it"),
            ("t a", &["a"], "`a` is missing"),
            ("a --x", &["x"], "`--x` alone"),
        ] {
            for compat in [false, true] {
                let error = lines(Some(signature), names, compat).expect_err(signature);
                assert!(error.contains(part), "{signature}: {error}");
            }
        }
        for signature in ["t <a> {", "t <a> }", "t <a> {}", "t <a> {a!r}"] {
            assert!(lines(Some(signature), &["a"], true).is_err(), "{signature}");
        }
        assert!(lines(Some("t <a> { } {}"), &["a"], false).is_ok());
    }
}

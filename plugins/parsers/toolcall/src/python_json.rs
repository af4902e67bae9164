//! JSON as Python's `json.loads` reads it: the same inputs are accepted, and the errors have the
//! same text.
//!
//! The texts have to be equal because models were trained and prompts were tuned on them, and
//! because users compare runs. Differences from serde_json: `NaN`, `Infinity` and `-Infinity` are
//! values, lone surrogates pass, the last of duplicate keys wins, and positions count code points.

use std::fmt;

/// How deeply a value may be nested; Python fails at its recursion limit, too.
const MAX_DEPTH: usize = 900;

/// A JSON value. Numbers and literals are left out, because they are not used.
#[derive(Debug, PartialEq)]
pub enum Value {
    /// A string.
    String(String),
    /// An object, in the order of the text, duplicates included.
    Object(Vec<(String, Value)>),
    /// An array, a number or a literal.
    Other,
}

/// The error that `json.loads` would raise.
#[derive(Debug, PartialEq)]
pub struct Error {
    message: &'static str,
    /// Line, column and offset; none for nesting, as in Python.
    position: Option<(usize, usize, usize)>,
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.message)?;
        match self.position {
            Some((line, column, offset)) => {
                write!(f, ": line {line} column {column} (char {offset})")
            }
            None => Ok(()),
        }
    }
}

/// A value, and how many lone surrogates in it became U+FFFD.
#[derive(Debug, PartialEq)]
pub struct Document {
    /// The value.
    pub value: Value,
    /// Rust's strings can't hold lone surrogates such as `"\ud800"`.
    pub lone_surrogates: usize,
}

/// Parses one JSON text.
///
/// # Errors
///
/// [`Error`] with Python's text.
pub fn parse(text: &str) -> Result<Document, Error> {
    let mut parser = Parser {
        bytes: text.as_bytes(),
        at: 0,
        depth: 0,
        lone_surrogates: 0,
    };
    parser.document().map_err(|fault| fault.locate(text))
}

/// An error at a byte offset.
struct Fault {
    message: &'static str,
    at: Option<usize>,
}

impl Fault {
    /// Counts lines, columns and code points, which only an error needs.
    fn locate(self, text: &str) -> Error {
        let position = self.at.map(|at| {
            let before = &text[..at];
            let line_start = before.rfind('\n').map_or(0, |newline| newline + 1);
            (
                before.matches('\n').count() + 1,
                before[line_start..].chars().count() + 1,
                before.chars().count(),
            )
        });
        Error {
            message: self.message,
            position,
        }
    }
}

fn fault<T>(message: &'static str, at: usize) -> Result<T, Fault> {
    Err(Fault {
        message,
        at: Some(at),
    })
}

const EXPECTING_VALUE: &str = "Expecting value";
const UNTERMINATED: &str = "Unterminated string starting at";
const BAD_ESCAPE: &str = r"Invalid \uXXXX escape";

struct Parser<'a> {
    bytes: &'a [u8],
    at: usize,
    depth: usize,
    lone_surrogates: usize,
}

impl Parser<'_> {
    fn document(&mut self) -> Result<Document, Fault> {
        if self.bytes.starts_with("\u{feff}".as_bytes()) {
            return fault("Unexpected UTF-8 BOM (decode using utf-8-sig)", 0);
        }
        self.blanks();
        let value = self.value()?;
        self.blanks();
        if self.at < self.bytes.len() {
            return fault("Extra data", self.at);
        }
        Ok(Document {
            value,
            lone_surrogates: self.lone_surrogates,
        })
    }

    fn peek(&self) -> Option<u8> {
        self.bytes.get(self.at).copied()
    }

    fn blanks(&mut self) {
        while matches!(self.peek(), Some(b' ' | b'\t' | b'\n' | b'\r')) {
            self.at += 1;
        }
    }

    fn value(&mut self) -> Result<Value, Fault> {
        match self.peek() {
            Some(b'"') => self.string().map(Value::String),
            Some(b'{') => self.nested(
                "maximum recursion depth exceeded while decoding a JSON object from a unicode string",
                Self::object,
            ),
            Some(b'[') => self.nested(
                "maximum recursion depth exceeded while decoding a JSON array from a unicode string",
                Self::array,
            ),
            _ => self.scalar(),
        }
    }

    fn nested(
        &mut self,
        too_deep: &'static str,
        read: fn(&mut Self) -> Result<Value, Fault>,
    ) -> Result<Value, Fault> {
        if self.depth == MAX_DEPTH {
            return Err(Fault {
                message: too_deep,
                at: None,
            });
        }
        self.depth += 1;
        self.at += 1;
        let value = read(self);
        self.depth -= 1;
        value
    }

    fn object(&mut self) -> Result<Value, Fault> {
        let mut entries = Vec::new();
        self.blanks();
        if self.peek() == Some(b'}') {
            self.at += 1;
            return Ok(Value::Object(entries));
        }
        loop {
            if self.peek() != Some(b'"') {
                return fault("Expecting property name enclosed in double quotes", self.at);
            }
            let key = self.string()?;
            self.blanks();
            if self.peek() != Some(b':') {
                return fault("Expecting ':' delimiter", self.at);
            }
            self.at += 1;
            self.blanks();
            entries.push((key, self.value()?));
            if self.closes(b'}')? {
                return Ok(Value::Object(entries));
            }
        }
    }

    fn array(&mut self) -> Result<Value, Fault> {
        self.blanks();
        if self.peek() == Some(b']') {
            self.at += 1;
            return Ok(Value::Other);
        }
        loop {
            self.value()?;
            if self.closes(b']')? {
                return Ok(Value::Other);
            }
        }
    }

    /// Reads `close` or a comma.
    fn closes(&mut self, close: u8) -> Result<bool, Fault> {
        self.blanks();
        match self.peek() {
            Some(byte) if byte == close => {
                self.at += 1;
                Ok(true)
            }
            Some(b',') => {
                self.at += 1;
                self.blanks();
                Ok(false)
            }
            _ => fault("Expecting ',' delimiter", self.at),
        }
    }

    /// Reads a literal or a number.
    fn scalar(&mut self) -> Result<Value, Fault> {
        let rest = &self.bytes[self.at..];
        let literals = ["null", "true", "false", "NaN", "Infinity", "-Infinity"];
        let literal = literals
            .iter()
            .find(|literal| rest.starts_with(literal.as_bytes()));
        let len = match literal {
            Some(literal) => literal.len(),
            None => number(rest),
        };
        if len == 0 {
            return fault(EXPECTING_VALUE, self.at);
        }
        self.at += len;
        Ok(Value::Other)
    }

    fn string(&mut self) -> Result<String, Fault> {
        let begin = self.at;
        self.at += 1;
        let mut out = Vec::new();
        loop {
            let start = self.at;
            while let Some(byte) = self.peek() {
                match byte {
                    b'"' | b'\\' => break,
                    0..=0x1f => return fault("Invalid control character at", self.at),
                    _ => self.at += 1,
                }
            }
            out.extend_from_slice(&self.bytes[start..self.at]);
            let end = self.peek();
            self.at += 1;
            match end {
                Some(b'"') => break,
                Some(_) => self.escape(begin, &mut out)?,
                None => return fault(UNTERMINATED, begin),
            }
        }
        // Runs of a valid text, and encoded characters, between ASCII bytes: always valid UTF-8,
        // and the lossy conversion avoids a panic.
        Ok(String::from_utf8(out)
            .unwrap_or_else(|error| String::from_utf8_lossy(error.as_bytes()).into_owned()))
    }

    /// Reads what follows a backslash.
    fn escape(&mut self, begin: usize, out: &mut Vec<u8>) -> Result<(), Fault> {
        let backslash = self.at - 1;
        let Some(byte) = self.peek() else {
            return fault(UNTERMINATED, begin);
        };
        self.at += 1;
        let plain = match byte {
            b'"' | b'\\' | b'/' => byte,
            b'b' => 0x08,
            b'f' => 0x0c,
            b'n' => b'\n',
            b'r' => b'\r',
            b't' => b'\t',
            b'u' => return self.unicode_escape(out),
            _ => return fault(r"Invalid \escape", backslash),
        };
        out.push(plain);
        Ok(())
    }

    fn unicode_escape(&mut self, out: &mut Vec<u8>) -> Result<(), Fault> {
        let first = self.hex()?;
        // Python looks for the second half of a pair only if at least one more character follows.
        let pair = (0xd800..0xdc00).contains(&first)
            && self.bytes[self.at..].starts_with(br"\u")
            && self.at + 6 < self.bytes.len();
        let mut code = first;
        if pair {
            let back = self.at;
            self.at += 2;
            let second = self.hex()?;
            if (0xdc00..0xe000).contains(&second) {
                code = 0x10000 + ((first - 0xd800) << 10) + (second - 0xdc00);
            } else {
                self.at = back;
            }
        }
        let character = char::from_u32(code).unwrap_or_else(|| {
            self.lone_surrogates += 1;
            char::REPLACEMENT_CHARACTER
        });
        out.extend_from_slice(character.encode_utf8(&mut [0; 4]).as_bytes());
        Ok(())
    }

    /// Reads four hex digits, which must not be the end of the text. Errors point at the `u`.
    fn hex(&mut self) -> Result<u32, Fault> {
        let digits = match self.bytes.get(self.at..self.at + 4) {
            Some(digits) if self.at + 4 < self.bytes.len() => digits,
            _ => return fault(BAD_ESCAPE, self.at - 1),
        };
        let mut code = 0;
        for digit in digits {
            let Some(digit) = char::from(*digit).to_digit(16) else {
                return fault(BAD_ESCAPE, self.at - 1);
            };
            code = code * 16 + digit;
        }
        self.at += 4;
        Ok(code)
    }
}

/// The length of the number that `text` starts with; 0 if there is none.
fn number(text: &[u8]) -> usize {
    let digits = |from: usize| {
        text[from.min(text.len())..]
            .iter()
            .take_while(|byte| byte.is_ascii_digit())
            .count()
    };
    let mut at = usize::from(text.first() == Some(&b'-'));
    at += match text.get(at) {
        Some(b'0') => 1,
        Some(b'1'..=b'9') => digits(at),
        _ => return 0,
    };
    // A dot or an `e` without digits is not part of the number.
    if text.get(at) == Some(&b'.') && digits(at + 1) > 0 {
        at += 1 + digits(at + 1);
    }
    if matches!(text.get(at), Some(b'e' | b'E')) {
        let sign = usize::from(matches!(text.get(at + 1), Some(b'+' | b'-')));
        let exponent = digits(at + 1 + sign);
        if exponent > 0 {
            at += 1 + sign + exponent;
        }
    }
    at
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every error text as Python 3.11 prints it for the same input.
    #[test]
    fn errors_read_as_pythons() {
        for (text, expected) in [
            ("", "Expecting value: line 1 column 1 (char 0)"),
            ("  \n x", "Expecting value: line 2 column 2 (char 4)"),
            ("[", "Expecting value: line 1 column 2 (char 1)"),
            ("[1,]", "Expecting value: line 1 column 4 (char 3)"),
            ("[1 2]", "Expecting ',' delimiter: line 1 column 4 (char 3)"),
            (
                "{\"a\" 1}",
                "Expecting ':' delimiter: line 1 column 6 (char 5)",
            ),
            (
                "{\"a\":1 \"b\"}",
                "Expecting ',' delimiter: line 1 column 8 (char 7)",
            ),
            (
                "{",
                "Expecting property name enclosed in double quotes: line 1 column 2 (char 1)",
            ),
            ("{\"a\":tru}", "Expecting value: line 1 column 6 (char 5)"),
            ("-", "Expecting value: line 1 column 1 (char 0)"),
            ("01", "Extra data: line 1 column 2 (char 1)"),
            ("1.", "Extra data: line 1 column 2 (char 1)"),
            ("1e+", "Extra data: line 1 column 2 (char 1)"),
            (
                "\"é😀\n\"",
                "Invalid control character at: line 1 column 4 (char 3)",
            ),
            (
                "\"\\",
                "Unterminated string starting at: line 1 column 1 (char 0)",
            ),
            (
                "\"\\\"",
                "Unterminated string starting at: line 1 column 1 (char 0)",
            ),
            (
                "\"\\u1234",
                "Invalid \\uXXXX escape: line 1 column 3 (char 2)",
            ),
            (
                "\"\\ud83d\\u12x4\"",
                "Invalid \\uXXXX escape: line 1 column 9 (char 8)",
            ),
            (
                "\u{feff}{}",
                "Unexpected UTF-8 BOM (decode using utf-8-sig): line 1 column 1 (char 0)",
            ),
        ] {
            let message = parse(text).map_err(|error| error.to_string());
            assert_eq!(message, Err(expected.to_owned()), "{text:?}");
        }
    }

    #[test]
    fn strings_decode() {
        for (text, expected, lone) in [
            (r#""a\"\\\/\b\f\n\r\t""#, "a\"\\/\u{8}\u{c}\n\r\t", 0),
            (r#""\u00e9\ud83d\ude00""#, "é😀", 0),
            (r#""\ud800""#, "\u{fffd}", 1),
            (r#""\ud800\ud83d\ude00\udc00""#, "\u{fffd}😀\u{fffd}", 2),
            ("\"\u{7f}é\"", "\u{7f}é", 0),
        ] {
            let document = Document {
                value: Value::String(expected.to_owned()),
                lone_surrogates: lone,
            };
            assert_eq!(parse(text), Ok(document), "{text}");
        }
    }

    #[test]
    fn other_values_are_accepted() {
        for text in [
            "NaN",
            "Infinity",
            "-Infinity",
            "-0",
            "12.5e-3",
            "1E5",
            "null",
            "true",
            "false",
            "[]",
            "[[], {}, \"x\", 1]",
            " [1] ",
        ] {
            let accepted = parse(text).map(|document| document.value);
            assert_eq!(accepted, Ok(Value::Other), "{text}");
        }
    }

    #[test]
    fn nesting_is_bounded() {
        let deep = "[".repeat(100_000);
        let message = parse(&deep).map_err(|error| error.to_string());
        assert_eq!(
            message,
            Err(
                "maximum recursion depth exceeded while decoding a JSON array from a unicode \
                 string"
                    .to_owned()
            )
        );
        let fine = format!("{}{}", "[".repeat(800), "]".repeat(800));
        assert!(parse(&fine).is_ok());
    }
}

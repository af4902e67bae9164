//! TOML text to a tree with the line and column of everything in it.

use serde_json::{Number, Value};
use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::error::{ConfigProblem, ProblemKind, Snippet};
use super::node::{Content, Entry, Node};
use super::origin::Origin;

/// Reads a TOML document.
pub(super) fn parse(path: &str, source: &str) -> Result<Node, ConfigProblem> {
    // Windows editors put a byte-order mark in front; TOML itself forbids it.
    let text = source.strip_prefix('\u{feff}').unwrap_or(source);
    let reader = TomlFileReader {
        path,
        text,
        starts: std::iter::once(0)
            .chain(text.match_indices('\n').map(|(at, _)| at + 1))
            .collect(),
        counts: text
            .as_bytes()
            .chunks(BLOCK)
            .scan(0, |sum, block| {
                let before = *sum;
                *sum += characters(block);
                Some(before)
            })
            .collect(),
    };
    let document = DeTable::parse(text).map_err(|error| {
        let span = error.span().unwrap_or(text.len()..text.len());
        reader.problem(span, &format!("invalid TOML: {}", error.message()))
    })?;
    Ok(Node {
        origin: reader.origin(0),
        content: reader.table(document.get_ref())?,
    })
}

/// The characters before every block of so many bytes are counted once. A file from elsewhere may have any
/// number of keys in a line of any length, and each key has its position.
const BLOCK: usize = 1024;

/// How many characters begin in these bytes of a text.
fn characters(bytes: &[u8]) -> usize {
    bytes.iter().filter(|byte| **byte & 0xC0 != 0x80).count()
}

struct TomlFileReader<'a> {
    path: &'a str,
    text: &'a str,
    /// Where each line begins.
    starts: Vec<usize>,
    /// How many characters are before each block.
    counts: Vec<usize>,
}

impl TomlFileReader<'_> {
    fn table(&self, table: &DeTable<'_>) -> Result<Content, ConfigProblem> {
        let entries = table
            .iter()
            .map(|(key, value)| {
                Ok(Entry {
                    key: key.get_ref().to_string(),
                    at: self.origin(key.span().start),
                    node: self.node(value)?,
                })
            })
            .collect::<Result<_, ConfigProblem>>()?;
        Ok(Content::Map(entries))
    }

    fn node(&self, value: &Spanned<DeValue<'_>>) -> Result<Node, ConfigProblem> {
        let span = value.span();
        let origin = self.origin(span.start);
        let content = match value.get_ref() {
            DeValue::String(text) => Content::Scalar(Value::String(text.to_string())),
            DeValue::Boolean(flag) => Content::Scalar(Value::Bool(*flag)),
            DeValue::Integer(digits) => {
                let parsed = i64::from_str_radix(digits.as_str(), digits.radix());
                let integer = parsed.map_err(|_| {
                    self.problem(span, "integer is too large: at most 9223372036854775807")
                })?;
                Content::Scalar(integer.into())
            }
            DeValue::Float(digits) => {
                let number = digits.as_str().parse().ok().and_then(Number::from_f64);
                let number = number.ok_or_else(|| {
                    self.problem(
                        span,
                        "`inf` and `nan` are not allowed; 0 switches a limit off",
                    )
                })?;
                Content::Scalar(Value::Number(number))
            }
            DeValue::Datetime(_) => {
                return Err(self.problem(span, "no key takes a date; for text, put it in quotes"));
            }
            DeValue::Array(items) => Content::List(
                items
                    .iter()
                    .map(|item| self.node(item))
                    .collect::<Result<_, ConfigProblem>>()?,
            ),
            DeValue::Table(table) => self.table(table)?,
        };
        Ok(Node { origin, content })
    }

    fn origin(&self, offset: usize) -> Origin {
        let (line, column) = self.position(offset);
        Origin::File {
            path: self.path.to_owned(),
            line,
            column,
        }
    }

    fn position(&self, offset: usize) -> (usize, usize) {
        // An error at the end of the text points behind its last character, not at an empty line
        // that is not visible.
        let end = self.text.trim_end_matches(['\r', '\n']).len();
        let offset = offset.min(self.text.len());
        let offset = if offset == self.text.len() {
            offset.min(end)
        } else {
            offset
        };
        let line = self.starts.partition_point(|start| *start <= offset);
        let start = self.starts.get(line - 1).copied().unwrap_or_default();
        (line, self.before(offset) - self.before(start) + 1)
    }

    /// How many characters are before a position.
    fn before(&self, offset: usize) -> usize {
        let block = offset / BLOCK;
        let rest = self.text.as_bytes().get(block * BLOCK..offset);
        match self.counts.get(block) {
            Some(count) => count + characters(rest.unwrap_or_default()),
            // The end of a text whose length is a whole number of blocks.
            None => self.text.chars().count(),
        }
    }

    fn problem(&self, span: std::ops::Range<usize>, message: &str) -> ConfigProblem {
        let (line, column) = self.position(span.start);
        let width = self
            .text
            .get(span)
            .map_or(1, |marked| marked.chars().count());
        ConfigProblem::new(ProblemKind::Syntax, message)
            .snippet(Snippet::new(self.path, self.text, line, column, width))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_is_deep_or_many_is_refused_or_read_in_time() {
        let deep = 100_000;
        for text in [
            format!("a = {}", "[".repeat(deep)),
            format!("a = {}{}", "[".repeat(deep), "]".repeat(deep)),
            format!("a = {}", "{a = ".repeat(deep)),
            format!("{}a = 1", "a.".repeat(deep)),
            format!("[{}a]", "a.".repeat(deep)),
        ] {
            let small = std::thread::Builder::new().stack_size(1 << 20);
            let read = small.spawn(move || parse("f.toml", &text).map(drop));
            let problem = read.unwrap().join().unwrap().unwrap_err();
            assert!(
                problem.message().contains("invalid TOML"),
                "{}",
                problem.message()
            );
        }
        let begin = std::time::Instant::now();
        let lines: String = (0..30_000).map(|key| format!("\"ä{key}\" = 1\n")).collect();
        let inline: Vec<String> = (0..30_000).map(|key| format!("\"ä{key}\" = 1")).collect();
        for text in [lines, format!("x = {{{}}}", inline.join(","))] {
            parse("f.toml", &text).unwrap();
        }
        assert!(
            begin.elapsed() < std::time::Duration::from_secs(60),
            "{:?}",
            begin.elapsed()
        );
    }

    #[test]
    fn values_and_their_places() {
        let source = "top = 1\n[a]\nx = \"t\"\ny.z = 2.0\nl = [\n  1,\n  {k = true},\n]\n\
                      m = '''\nline\n'''\n[a.b]\nhex = 0xff\nbig = 1_000\n";
        let node = parse("f.toml", source).unwrap();
        assert_eq!(
            node.to_value(),
            json!({
                "top": 1,
                "a": {
                    "x": "t", "y": {"z": 2.0}, "l": [1, {"k": true}], "m": "line\n",
                    "b": {"hex": 255, "big": 1000},
                },
            })
        );
        for (path, line, column) in [
            (&["top"][..], 1, 1),
            (&["a"], 2, 2),
            (&["a", "x"], 3, 1),
            (&["a", "y", "z"], 4, 3),
            (&["a", "l"], 5, 1),
            (&["a", "l", "0"], 6, 3),
            (&["a", "l", "1", "k"], 7, 4),
            (&["a", "m"], 9, 1),
            (&["a", "b", "hex"], 13, 1),
        ] {
            let expected = Origin::File {
                path: "f.toml".into(),
                line,
                column,
            };
            assert_eq!(node.origin_of(path), Some(&expected), "{path:?}");
        }
    }

    #[test]
    fn faults_are_shown_with_line_and_column() {
        for (source, place, message) in [
            ("a = 1\nb = [1, 2\n", "f:2:", "invalid TOML"),
            ("a = \n", "f:1:", "invalid TOML"),
            ("x = 1\nx = 2\n", "f:2:1", "duplicate key"),
            ("[a]\nb = 1\n[a]\n", "f:3:", "duplicate key"),
            ("a = \"x\n", "f:1:", "invalid TOML"),
            ("agent:\n  x: 1\n", "f:1:", "invalid TOML"),
            (
                "a = 99999999999999999999\n",
                "f:1:5",
                "integer is too large",
            ),
            ("a = inf\n", "f:1:5", "`inf` and `nan`"),
            ("a = 1\nd = 2020-01-01\n", "f:2:5", "no key takes a date"),
        ] {
            let text = parse("f", source).unwrap_err().to_string();
            assert!(text.contains(place), "{source:?}: {text}");
            assert!(text.contains(message), "{source:?}: {text}");
            assert!(text.contains('^'), "{source:?}: {text}");
        }
    }

    #[test]
    fn an_empty_document_and_a_byte_order_mark_are_fine() {
        for source in ["", "# nothing\n", "\u{feff}# x\n"] {
            assert_eq!(parse("f", source).unwrap().to_value(), json!({}));
        }
        assert_eq!(
            parse("f", "\u{feff}a = 1\r\n").unwrap().to_value(),
            json!({"a": 1})
        );
    }
}

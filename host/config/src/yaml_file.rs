//! A YAML file as a tree of values that config keys can take, with the line and column of
//! everything in it.
//!
//! The reader in [`yaml`] returns PyYAML's values. JSON, the format of requests and trajectories,
//! has fewer types: a value that JSON can't hold becomes the most similar one that it can, with a
//! warning. It is not an error, because mini-swe-agent fails only where such a value is used.

use std::collections::HashMap;

use serde_json::{Number, Value};

use super::error::{ConfigProblem, ProblemKind, Snippet};
use super::node::{Content, Entry, Node};
use super::origin::Origin;
use super::yaml::{self, Fault, Located, Mark, Yaml};
use mswea_python::float_repr;

/// Reads a YAML document; the texts are warnings.
pub(super) fn parse(path: &str, source: &str) -> Result<(Node, Vec<String>), ConfigProblem> {
    let mut reader = YamlFileReader {
        path,
        warnings: Vec::new(),
    };
    let read = yaml::load(source).and_then(|document| match document {
        // an empty file has no settings
        None => Ok(Node::empty(reader.origin(Mark::default()))),
        Some(root) if root.value == Yaml::Null => Ok(Node::empty(reader.origin(root.mark))),
        Some(root) => reader.node(root),
    });
    let node = read.map_err(|fault| problem(path, source, fault))?;
    Ok((node, reader.warnings))
}

struct YamlFileReader<'a> {
    path: &'a str,
    warnings: Vec<String>,
}

impl YamlFileReader<'_> {
    fn node(&mut self, Located { mark, value }: Located) -> Result<Node, Fault> {
        let origin = self.origin(mark);
        let content = match value {
            Yaml::Null => Content::Scalar(Value::Null),
            Yaml::Bool(flag) => Content::Scalar(flag.into()),
            Yaml::Int(digits) => Content::Scalar(self.int(&digits, &origin)),
            Yaml::Float(number) => Content::Scalar(self.float(number, mark, &origin)?),
            Yaml::Text(text) => Content::Scalar(text.into()),
            Yaml::Time(text) => {
                self.warn(
                    &origin,
                    &text,
                    "is a date in YAML and read as a text: quote it",
                );
                Content::Scalar(text.into())
            }
            Yaml::List(items) => Content::List(
                items
                    .into_iter()
                    .map(|item| self.node(item))
                    .collect::<Result<_, _>>()?,
            ),
            Yaml::Map(pairs) => {
                let mut entries: Vec<Entry> = Vec::new();
                let mut places = HashMap::<String, usize>::new();
                for pair in pairs {
                    let at = self.origin(pair.key.mark);
                    let hides = pair.hides.map(|mark| self.origin(mark));
                    let entry = Entry {
                        key: self.key(pair.key.value, &at),
                        node: self.node(pair.value)?,
                        at,
                    };
                    if let Some(before) = hides {
                        self.twice(&entry, &before);
                    }
                    // `5` and `'5'` are two keys in Python and one in JSON
                    let place = places.entry(entry.key.clone()).or_insert(entries.len());
                    match entries.get_mut(*place) {
                        Some(known) => {
                            self.twice(&entry, &known.at);
                            *known = entry;
                        }
                        None => entries.push(entry),
                    }
                }
                Content::Map(entries)
            }
        };
        Ok(Node { origin, content })
    }

    fn int(&mut self, digits: &str, origin: &Origin) -> Value {
        if let Ok(number) = digits.parse::<i64>() {
            return number.into();
        }
        if let Ok(number) = digits.parse::<u64>() {
            return number.into();
        }
        self.warn(origin, digits, "has more than 64 bits and is rounded");
        largest(digits.parse().unwrap_or(f64::INFINITY))
    }

    fn float(&mut self, number: f64, mark: Mark, origin: &Origin) -> Result<Value, Fault> {
        if number.is_nan() {
            return Err(Fault {
                message: "`.nan` is not allowed".to_owned(),
                mark,
                hint: Some("put it in quotes if it is a text"),
            });
        }
        if number.is_infinite() {
            let text = if number > 0.0 { ".inf" } else { "-.inf" };
            self.warn(origin, text, "is read as the largest number");
        }
        Ok(largest(number))
    }

    /// A key as Python's `json.dumps` has it.
    fn key(&mut self, key: Yaml, at: &Origin) -> String {
        let (text, what) = match key {
            Yaml::Text(text) => return text,
            Yaml::Int(digits) => return digits,
            Yaml::Float(number) => (float_repr(number), "number"),
            Yaml::Bool(flag) => (flag.to_string(), "boolean"),
            Yaml::Time(text) => (text, "date"),
            // the reader returns no other keys
            Yaml::Null | Yaml::List(_) | Yaml::Map(_) => ("null".to_owned(), "null"),
        };
        self.warnings.push(format!(
            "the key at {at} is a {what} in YAML and read as `{text}`: quote it if it is a text"
        ));
        text
    }

    fn twice(&mut self, entry: &Entry, before: &Origin) {
        self.warnings.push(format!(
            "`{}` is given twice, at {before} and at {}: the last one counts",
            entry.key, entry.at
        ));
    }

    fn warn(&mut self, origin: &Origin, text: &str, what: &str) {
        self.warnings.push(format!("`{text}` at {origin} {what}"));
    }

    fn origin(&self, mark: Mark) -> Origin {
        Origin::File {
            path: self.path.to_owned(),
            line: mark.line + 1,
            column: mark.column + 1,
        }
    }
}

/// The number, or the finite one nearest to it: JSON has no infinity.
fn largest(number: f64) -> Value {
    Number::from_f64(number.clamp(f64::MIN, f64::MAX)).map_or(Value::Null, Value::Number)
}

fn problem(path: &str, source: &str, fault: Fault) -> ConfigProblem {
    let (line, column) = (fault.mark.line + 1, fault.mark.column + 1);
    let problem = ConfigProblem::new(
        ProblemKind::Syntax,
        format!("invalid YAML: {}", fault.message),
    )
    .snippet(Snippet::new(path, source, line, column, 1));
    match fault.hint {
        Some(hint) => problem.hint(hint),
        None => problem,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn value(source: &str) -> Value {
        parse("f.yaml", source).unwrap().0.to_value()
    }

    #[test]
    fn reads_as_pyyaml_does() {
        for (source, expected) in [
            ("", json!({})),
            ("# only a comment\n", json!({})),
            ("a: yes\nb: 'off'\n", json!({"a": true, "b": "off"})),
            (
                "a: 010\nb: 10_000\nc: 3.\n",
                json!({"a": 8, "b": 10000, "c": 3.0}),
            ),
            (
                "a: ~\nb:\nc: null\n",
                json!({"a": null, "b": null, "c": null}),
            ),
            (
                "b: &x\n  p: 1\n  q: 2\nc:\n  <<: *x\n  q: 3\n",
                json!({
                    "b": {"p": 1, "q": 2}, "c": {"q": 3, "p": 1},
                }),
            ),
            ("a: 1\na: 2\n", json!({"a": 2})),
            ("5: x\n", json!({"5": "x"})),
            ("a: |\n  x\n  y\n", json!({"a": "x\ny\n"})),
            ("a: |\n  x\n  y", json!({"a": "x\ny"})),
            ("a: >\n  x\n  y", json!({"a": "x y"})),
            ("l:\n  - |\n    x", json!({"l": ["x"]})),
            ("a: \"x\\n\"", json!({"a": "x\n"})),
            ("a: |-\n  x", json!({"a": "x"})),
            ("a: |\n  x\nb: 1", json!({"a": "x\n", "b": 1})),
        ] {
            assert_eq!(value(source), expected, "{source:?}");
        }
    }

    #[test]
    fn places_are_kept() {
        let source = "agent:\n  system_template: |\n    hello\n  list:\n    - a\n    - b\nx: &x\n  y: 1\nz: *x\n";
        let (node, warnings) = parse("f.yaml", source).unwrap();
        assert_eq!(warnings, Vec::<String>::new());
        for (path, line, column) in [
            (&["agent"][..], 1, 1),
            (&["agent", "system_template"], 2, 3),
            (&["agent", "list", "1"], 6, 7),
            (&["x", "y"], 8, 3),
            (&["z", "y"], 9, 4),
        ] {
            let expected = Origin::File {
                path: "f.yaml".into(),
                line,
                column,
            };
            assert_eq!(node.origin_of(path), Some(&expected), "{path:?}");
        }
    }

    #[test]
    fn a_key_given_twice_is_a_warning() {
        let (_, warnings) = parse("f.yaml", "a: 1\nb: 2\na: 3\n").unwrap();
        assert_eq!(
            warnings,
            ["`a` is given twice, at f.yaml:1 and at f.yaml:3: the last one counts"]
        );
    }

    #[test]
    fn what_json_can_not_hold_is_a_warning() {
        for (source, expected, warning) in [
            (
                "a: 2024-01-02\n",
                json!({"a": "2024-01-02"}),
                "`2024-01-02` at f.yaml:1 is a date in YAML and read as a text: quote it",
            ),
            (
                "a: -.inf\n",
                json!({"a": f64::MIN}),
                "`-.inf` at f.yaml:1 is read as the largest number",
            ),
            (
                "a: 18446744073709551616\n",
                json!({"a": 18446744073709551616.0}),
                "`18446744073709551616` at f.yaml:1 has more than 64 bits and is rounded",
            ),
            (
                "on: 1\n",
                json!({"true": 1}),
                "the key at f.yaml:1 is a boolean in YAML and read as `true`: quote it if it is \
                 a text",
            ),
            (
                "5: a\n'5': b\n",
                json!({"5": "b"}),
                "`5` is given twice, at f.yaml:1 and at f.yaml:2: the last one counts",
            ),
        ] {
            let (node, warnings) = parse("f.yaml", source).unwrap();
            assert_eq!(node.to_value(), expected, "{source}");
            assert_eq!(warnings, [warning], "{source}");
        }
        // what is merged in is replaced on purpose
        let source = "b: &x {p: 1}\nc:\n  <<: *x\n  p: 2\n";
        assert_eq!(parse("f.yaml", source).unwrap().1, Vec::<String>::new());
    }

    #[test]
    fn aliases_that_multiply_are_an_error_in_plain_words() {
        let mut source = "a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n".to_owned();
        for level in 1..10 {
            let alias = format!("*a{}", level - 1);
            let aliases = [alias.as_str(); 10].join(", ");
            source += &format!("a{level}: &a{level} [{aliases}]\n");
        }
        let text = parse("f", &source).unwrap_err().to_string();
        for part in [
            "too large, perhaps because aliases",
            "--> f:",
            "hint: an alias",
        ] {
            assert!(text.contains(part), "{text}");
        }
        assert!(
            !text.contains("breached") && !text.contains("defined at"),
            "{text}"
        );
    }

    #[test]
    fn faults_are_shown_with_line_and_column() {
        for (source, place, message) in [
            (
                "a: [1, 2\nb: 3\n",
                "f:2:2",
                "invalid YAML: expected `,` or `]` in the list that begins on line 1, not `:`",
            ),
            ("a:\n\tb: 1\n", "f:2:1", "hint: indent with spaces"),
            ("a: 1\n  b: 2\n", "f:2:4", "hint: text with `: `"),
            ("a: \"x\nb: 2\n", "f:3:1", "begins on line 1 never ends"),
            ("a: 1\n---\nb: 2\n", "f:2:1", "hint: keep one document"),
            ("a: *nope\n", "f:1:4", "unknown anchor"),
            ("? [1, 2]\n: 3\n", "f:1:3", "can't be a key"),
            ("a: .nan\n", "f:1:4", "`.nan` is not allowed"),
            ("a: {{ x }}\n", "f:1:5", "(`{{ a }}`) needs quotes"),
            (
                "a: 1\nb\n",
                "f:3:1",
                "expected a `:` after the key on line 2",
            ),
            ("a: `x`\n", "f:1:4", "hint: put the text in quotes"),
            (
                "a: |x\n",
                "f:1:5",
                "the text of a block begins on the next line",
            ),
            ("a: 'x\u{0}'\n", "f:1:6", "unexpected character"),
            ("a: &a [*a]\n", "f:1:8", "holds an alias of itself"),
        ] {
            let text = parse("f", source).unwrap_err().to_string();
            assert!(text.contains(place), "{source:?}: {text}");
            assert!(text.contains(message), "{source:?}: {text}");
            assert!(text.contains('^'), "{source:?}: {text}");
            assert!(!text.contains(" at line "), "{source:?}: {text}");
        }
    }
}

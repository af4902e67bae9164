//! YAML text to a tree with the line and column of everything in it, read as PyYAML reads
//! it: the files of mini-swe-agent must mean the same here.

use std::fmt;

use serde::de::{Deserialize, Deserializer, Error, MapAccess, SeqAccess, Visitor};
use serde_json::{Number, Value};
use serde_saphyr::options::DuplicateKeyPolicy;
use serde_saphyr::{Location, Spanned};

use super::error::{Kind, Problem, Snippet};
use super::node::{Content, Entry, Node};
use super::origin::Origin;

/// Reads a YAML document; the texts are warnings.
pub(super) fn parse(path: &str, source: &str) -> Result<(Node, Vec<String>), Problem> {
    let options = serde_saphyr::options! {
        // As PyYAML: `010` is 8, and the last of two equal keys counts.
        legacy_octal_numbers: true,
        duplicate_keys: DuplicateKeyPolicy::LastWins,
        // Errors are shown in this module's own way.
        with_snippet: false,
    };
    let parsed: Result<Spanned<Yaml>, _> = serde_saphyr::from_str_with_options(source, options);
    let document = parsed.map_err(|error| syntax_problem(path, source, &error))?;
    let mut reader = Reader {
        path,
        warnings: Vec::new(),
    };
    let mut node = reader.node(document);
    if node.content == Content::Scalar(Value::Null) {
        node = Node::empty(node.origin);
    }
    if !source.ends_with('\n') {
        undo_invented_newline(&mut node, source);
    }
    Ok((node, reader.warnings))
}

/// What serde makes of a node.
enum Yaml {
    Scalar(Value),
    List(Vec<Spanned<Yaml>>),
    Map(Vec<(Spanned<String>, Spanned<Yaml>)>),
}

impl<'de> Deserialize<'de> for Yaml {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(YamlVisitor)
    }
}

struct YamlVisitor;

impl<'de> Visitor<'de> for YamlVisitor {
    type Value = Yaml;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a value")
    }

    fn visit_unit<E: Error>(self) -> Result<Yaml, E> {
        Ok(Yaml::Scalar(Value::Null))
    }

    fn visit_none<E: Error>(self) -> Result<Yaml, E> {
        Ok(Yaml::Scalar(Value::Null))
    }

    fn visit_bool<E: Error>(self, flag: bool) -> Result<Yaml, E> {
        Ok(Yaml::Scalar(flag.into()))
    }

    fn visit_i64<E: Error>(self, number: i64) -> Result<Yaml, E> {
        Ok(Yaml::Scalar(number.into()))
    }

    fn visit_u64<E: Error>(self, number: u64) -> Result<Yaml, E> {
        Ok(Yaml::Scalar(number.into()))
    }

    fn visit_f64<E: Error>(self, number: f64) -> Result<Yaml, E> {
        let number = Number::from_f64(number);
        let number = number.ok_or_else(|| E::custom("`.inf` and `.nan` are no values here"))?;
        Ok(Yaml::Scalar(Value::Number(number)))
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<Yaml, E> {
        Ok(Yaml::Scalar(text.into()))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut access: A) -> Result<Yaml, A::Error> {
        let mut items = Vec::new();
        while let Some(item) = access.next_element()? {
            items.push(item);
        }
        Ok(Yaml::List(items))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut access: A) -> Result<Yaml, A::Error> {
        let mut entries = Vec::new();
        while let Some(entry) = access.next_entry()? {
            entries.push(entry);
        }
        Ok(Yaml::Map(entries))
    }
}

struct Reader<'a> {
    path: &'a str,
    warnings: Vec<String>,
}

impl Reader<'_> {
    fn node(&mut self, yaml: Spanned<Yaml>) -> Node {
        let origin = self.origin(yaml.referenced);
        let content = match yaml.value {
            Yaml::Scalar(value) => Content::Scalar(value),
            Yaml::List(items) => {
                Content::List(items.into_iter().map(|item| self.node(item)).collect())
            }
            Yaml::Map(pairs) => {
                let mut entries: Vec<Entry> = Vec::new();
                for (key, value) in pairs {
                    let entry = Entry {
                        at: self.origin(key.referenced),
                        key: key.value,
                        node: self.node(value),
                    };
                    match entries.iter_mut().find(|known| known.key == entry.key) {
                        Some(known) => {
                            self.warnings.push(format!(
                                "`{}` is given twice, at {} and at {}: the last one counts",
                                entry.key, known.at, entry.at
                            ));
                            *known = entry;
                        }
                        None => entries.push(entry),
                    }
                }
                Content::Map(entries)
            }
        };
        Node { origin, content }
    }

    fn origin(&self, location: Location) -> Origin {
        let (line, column) = position(location);
        Origin::File {
            path: self.path.to_owned(),
            line,
            column,
        }
    }
}

fn position(location: Location) -> (usize, usize) {
    let number = |value: u64| usize::try_from(value).unwrap_or(usize::MAX).max(1);
    (number(location.line()), number(location.column()))
}

fn syntax_problem(path: &str, source: &str, error: &serde_saphyr::Error) -> Problem {
    let (line, column) = error.location().map_or((1, 1), position);
    let text = error.without_snippet().to_string();
    // The place is shown below the message; said twice it only distracts.
    let message = text.split(" at line ").next().unwrap_or_default();
    let (message, hint) = in_plain_words(message);
    let problem = Problem::new(Kind::Syntax, format!("invalid YAML: {message}"))
        .snippet(Snippet::new(path, source, line, column, 1));
    match hint {
        Some(hint) => problem.hint(hint),
        None => problem,
    }
}

/// What the parser's words mean, and what to do.
fn in_plain_words(message: &str) -> (&str, Option<&'static str>) {
    const TABLE: &[(&str, Option<&str>, &str)] = &[
        (
            "budget breached",
            Some("the document is too large, perhaps because aliases multiply it"),
            "an alias (`*name`) stands for a copy of everything under its anchor (`&name`), also of \
             the aliases there: write the values out",
        ),
        (
            "recursive references",
            Some("an anchor holds an alias of itself, which would never end"),
            "write the value out in place of the alias",
        ),
        (
            "recursion limit",
            Some("lists and maps are nested too deeply"),
            "no key takes as many levels",
        ),
        (
            "multiple YAML documents",
            None,
            "keep one document per file: give each its own `-c`",
        ),
        ("tabs", None, "indent with spaces"),
        (
            "mapping values are not allowed",
            None,
            "text with `: ` in it needs quotes; keys of one map need one indent",
        ),
    ];
    match TABLE.iter().find(|(words, ..)| message.contains(words)) {
        Some((_, plain, hint)) => (plain.unwrap_or(message), Some(hint)),
        None => (message, None),
    }
}

/// A block text that ends the file without a line end has none in PyYAML; saphyr adds one.
fn undo_invented_newline(node: &mut Node, source: &str) {
    match &mut node.content {
        Content::Scalar(Value::String(text)) => {
            let written = source.lines().last().unwrap_or_default().trim();
            let ends_so = text.trim_end().ends_with(written);
            // A quoted text's line ends in its quote, so only a block text can match here.
            if text.ends_with('\n') && !written.is_empty() && ends_so {
                text.pop();
            }
        }
        Content::Scalar(_) => {}
        Content::List(items) => {
            if let Some(item) = items.last_mut() {
                undo_invented_newline(item, source);
            }
        }
        Content::Map(entries) => {
            // The last key in the text, which after a merge key need not be the last here.
            let line = |entry: &Entry| match &entry.at {
                Origin::File { line, column, .. } => (*line, *column),
                _ => (0, 0),
            };
            if let Some(entry) = entries.iter_mut().max_by_key(|entry| line(entry)) {
                undo_invented_newline(&mut entry.node, source);
            }
        }
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
                "invalid YAML: illegal placement",
            ),
            ("a:\n\tb: 1\n", "f:2:2", "hint: indent with spaces"),
            ("a: 1\n  b: 2\n", "f:2:4", "hint: text with `: `"),
            ("a: \"x\nb: 2\n", "f:2:1", "quoted scalar"),
            ("a: 1\n---\nb: 2\n", "f:3:1", "hint: keep one document"),
            ("a: *nope\n", "f:1:4", "unknown anchor"),
            ("? [1, 2]\n: 3\n", "f:1:3", "expected string"),
            ("a: .inf\n", "f:1:4", "non-finite"),
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

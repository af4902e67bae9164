//! The reader against PyYAML on the same documents.

use std::collections::HashSet;

use serde_json::{Value as Json, json};

use super::*;

/// Made by `tests/corpora/yaml_corpus.py`: group, document, tagged value or error.
const CORPUS: &str = include_str!("../../../../tests/corpora/yaml.json");

/// Documents that PyYAML reads and this reader refuses: PyYAML's tag in the corpus, and the reason.
/// All of them must fail.
const REFUSED: &[(&str, &str)] = &[
    ("bytes", "`!!binary`: no config key takes bytes"),
    ("tuple", "`!!omap` and `!!pairs`: no config key takes them"),
    ("set", "`!!set`: no config key takes one"),
    ("recursive", "a value that holds itself has no JSON form"),
    (
        "surrogates",
        "half of a surrogate pair is no text in Rust, nor in UTF-8",
    ),
];

/// Documents that PyYAML reads and this reader does not: a part of their text, and the reason.
const EXCLUDED: &[(&str, &str)] = &[
    (
        "&x {<<: *x}",
        "a map that merges itself: refused as everything that holds itself",
    ),
    ("٣", "`!!int` and `!!float` of digits that are not ASCII"),
    ("%FOO", "a directive that YAML does not have"),
    (
        "[a:]",
        "in brackets, a bracket right after the `:` of a key",
    ),
    ("{a:}", "the same"),
    ("\n\u{feff}", "a byte order mark that begins a later line"),
    ("|\n  \tx", "a tab that begins the text of a block"),
    ("|-\n  \tx", "the same"),
    ("|+\n  \tx", "the same"),
    (">\n  \tx", "the same"),
    (">-\n  \tx", "the same"),
    (">+\n  \tx", "the same"),
];

/// Documents that PyYAML refuses and this reader reads: a part of their text, and the reason.
const READ_HERE: &[(&str, &str)] = &[
    (
        "\t",
        "a tab is a blank between words, and part of a plain text",
    ),
    ("[a?b]", "in brackets, a question mark within a text"),
    ("|# c", "a comment right after the beginning of a block"),
    ("|-# c", "the same"),
    (">#", "the same"),
];

/// Documents in which PyYAML finds an error elsewhere: a part of their text, and the reason.
const ELSEWHERE: &[(&str, &str)] = &[
    ("\t", "PyYAML refuses the tab before"),
    (
        "- v\n  - !!s",
        "an unknown tag is found before a list as a key that comes later",
    ),
    ("- v\n  -  - !!!!str", "the same"),
    (
        "%7 5",
        "in the name of a tag, the place of the percent sign",
    ),
    ("!%", "the same"),
    (
        ",!3]}",
        "a bracket after a tag, which may be part of its name",
    ),
    ("!]&>", "the same"),
    ("!é,%}", "a comma in the name of a tag"),
    ("!,", "the same"),
    ("!-,", "the same"),
    ("<? !\"", "a question mark in brackets"),
    ("é%? -", "the same"),
    ("? [k", "the same"),
    ("{p:,", "a comma right after the `:` of a key"),
    (" q:, 3]", "the same"),
    ("%-", "a directive that YAML does not have"),
    ("\n{", "a bracket as the last character of the file"),
];

fn excluded(source: &str, expected: &Json) -> bool {
    // two byte order marks: the second one begins a line, too
    refused(expected)
        || source.starts_with("\u{feff}\u{feff}")
        || EXCLUDED.iter().any(|(part, _)| source.contains(part))
}

fn refused(json: &Json) -> bool {
    match json {
        Json::Array(items) => items.iter().any(refused),
        Json::Object(map) => map
            .iter()
            .any(|(tag, value)| REFUSED.iter().any(|(known, _)| tag == known) || refused(value)),
        _ => false,
    }
}

fn tagged(value: &Yaml) -> Json {
    match value {
        Yaml::Null => Json::Null,
        Yaml::Bool(flag) => json!(flag),
        Yaml::Int(digits) => json!({ "int": digits }),
        Yaml::Float(number) => json!({ "float": mswea_python::float_repr(*number) }),
        Yaml::Text(text) => json!(text),
        Yaml::Time(time) if time.contains('T') => json!({ "datetime": time }),
        Yaml::Time(time) => json!({ "date": time }),
        Yaml::List(items) => items.iter().map(|item| tagged(&item.value)).collect(),
        Yaml::Map(pairs) => {
            let pairs: Vec<Json> = pairs
                .iter()
                .map(|pair| json!([tagged(&pair.key.value), tagged(&pair.value.value)]))
                .collect();
            json!({ "map": pairs })
        }
    }
}

#[test]
fn what_is_deep_long_or_many_is_refused_or_read_in_time() {
    let begin = std::time::Instant::now();
    let deep = 100_000;
    let blocks: String = (0..3_000)
        .map(|depth| format!("{}a:\n", " ".repeat(depth)))
        .collect();
    for text in [
        "[".repeat(deep),
        "{a: ".repeat(deep),
        "- ".repeat(deep) + "a",
        "? ".repeat(deep) + "a",
        "[".repeat(deep) + &"]".repeat(deep),
        blocks,
    ] {
        let fault = load(&text).unwrap_err();
        assert!(
            !fault.message.is_empty() && fault.message.len() < 200,
            "{}",
            fault.message
        );
    }
    for text in [
        "1".repeat(1 << 20),
        "0x".to_owned() + &"f".repeat(1 << 20),
        "1".to_owned() + &":11".repeat(1 << 18),
        "!!int ".to_owned() + &"1".repeat(1 << 20),
        "!!int ".to_owned() + &"x".repeat(1 << 20),
        "!!bool ".to_owned() + &"x".repeat(1 << 20),
    ] {
        let fault = load(&text).unwrap_err();
        assert!(fault.message.len() < 200, "{}", fault.message);
    }
    load(&"1".repeat(4300)).unwrap();
    load(&("1.".to_owned() + &"1".repeat(1 << 20))).unwrap();
    load(
        &(0..300_000)
            .map(|key| format!("key{key}: 1\n"))
            .collect::<String>(),
    )
    .unwrap();
    assert!(
        begin.elapsed() < std::time::Duration::from_secs(60),
        "{:?}",
        begin.elapsed()
    );
}

#[test]
fn reads_as_pyyaml_does() {
    let cases: Vec<(String, String, Json)> = serde_json::from_str(CORPUS).unwrap();
    assert!(cases.len() >= 5000, "{}", cases.len());
    let mut failures = Vec::new();
    let mut used = HashSet::<&(&str, &str)>::new();
    for (group, source, expected) in &cases {
        let ours = load(source);
        let mut listed = |list: &'static [(&str, &str)]| {
            let found = list.iter().find(|(part, _)| source.contains(part));
            used.extend(found);
            found.is_some()
        };
        let good = match (&ours, expected.get("error")) {
            (Ok(value), None) => {
                let value = value
                    .as_ref()
                    .map_or(Json::Null, |root| tagged(&root.value));
                !excluded(source, expected) && value == *expected
            }
            (Err(_), None) => excluded(source, expected),
            (Ok(_), Some(_)) => listed(READ_HERE),
            (Err(fault), Some(_)) => {
                let place = json!([fault.mark.line + 1, fault.mark.column + 1]);
                expected["line"].is_null()
                    || place == json!([expected["line"], expected["column"]])
                    || listed(ELSEWHERE)
            }
        };
        if !good {
            let ours = ours.map(|value| {
                value
                    .map_or(Json::Null, |root| tagged(&root.value))
                    .to_string()
            });
            failures.push(format!(
                "{group}: {source:?}\n  pyyaml: {expected}\n  ours:   {ours:?}"
            ));
        }
    }
    for part in READ_HERE.iter().chain(ELSEWHERE) {
        assert!(used.contains(part), "no document needs {part:?}");
    }
    let shown: Vec<&str> = failures.iter().take(40).map(String::as_str).collect();
    assert!(
        failures.is_empty(),
        "{} of {}:\n{}",
        failures.len(),
        cases.len(),
        shown.join("\n")
    );
}

/// Each of these documents must end, use little memory, and not overflow the stack.
#[test]
fn hostile_documents_end() {
    let lines =
        |count: usize, line: &dyn Fn(usize) -> String| -> String { (0..count).map(line).collect() };
    for (source, expected) in [
        ("[".repeat(100_000), "nested too deeply"),
        ("{a: ".repeat(100_000), "nested too deeply"),
        ("- ".repeat(100_000), "nested too deeply"),
        ("? ".repeat(100_000), "nested too deeply"),
        ("a: &a [*a]".to_owned(), "alias of itself"),
        (
            lines(40, &|n| {
                format!("a{n}: &a{n} [*a{0}, *a{0}]\n", n.max(1) - 1)
            })
            .replacen("[*a0, *a0]", "x", 1),
            "too large",
        ),
        (
            format!(
                "a: &a {}\nb: [{}]\n",
                "x".repeat(1 << 20),
                "*a, ".repeat(10_000)
            ),
            "too large",
        ),
        (
            lines(40, &|n| {
                format!(
                    "a{n}: &a{n} {{k{n}: 1, <<: [*a{0}, *a{0}]}}\n",
                    n.max(1) - 1
                )
            })
            .replacen("<<: [*a0, *a0]", "z: 1", 1),
            "too large",
        ),
        (
            format!(
                "a:\n  b:\n{}z: {{<<: *a4999}}\n",
                lines(5000, &|n| format!(
                    "    a{n}: &a{n} {{<<: *a{}}}\n",
                    n.max(1) - 1
                ))
                .replacen("<<: *a0", "z: 1", 1)
            ),
            "merge each other",
        ),
    ] {
        let start = std::time::Instant::now();
        let fault = load(&source).unwrap_err();
        assert!(fault.message.contains(expected), "{}", fault.message);
        assert!(start.elapsed().as_secs() < 20, "{expected}");
    }
}

/// libyaml-safer ends the program at some documents; this reader must not.
#[test]
fn what_the_scanner_panics_at_is_kept_from_it() {
    for (source, expected) in [
        ("a: |\n  x", Some(r#"{"map":[["a","x"]]}"#)),
        ("a: |+\n  x\n  ", Some(r#"{"map":[["a","x\n"]]}"#)),
        ("a: >\n  x  \n  ", Some(r#"{"map":[["a","x  \n"]]}"#)),
        ("a: >\n  x\n    ", Some(r#"{"map":[["a","x\n  "]]}"#)),
        (
            "'hello!, you': !!str 5",
            Some(r#"{"map":[["hello!, you","5"]]}"#),
        ),
        ("[hello!, 'a !b, c']", Some(r#"["hello!","a !b, c"]"#)),
        ("# !a,\n!<tag:yaml.org,2002:str> 5", Some("\"5\"")),
        ("\"\\", None),
        ("[!!str, 5]", None),
        ("[!, 5]", None),
        ("{!<tag:yaml.org,2002:str>, a}", None),
        ("[!a!b,!c,]", None),
    ] {
        let ours = load(source);
        let value = ours
            .ok()
            .flatten()
            .map(|root| tagged(&root.value).to_string());
        assert_eq!(value.as_deref(), expected, "{source:?}");
    }
}

/// Words at random: every document ends with a value or an error.
#[test]
fn no_document_ends_the_program() {
    let words = [
        " ",
        "\n",
        ":",
        "-",
        "#",
        "[",
        "]",
        "{",
        "}",
        ",",
        "'",
        "\"",
        "|",
        ">",
        "&",
        "*",
        "!",
        "?",
        "%",
        "@",
        "<",
        "\\",
        "\t",
        ": ",
        "- ",
        "\n  ",
        "a",
        "1",
        "---\n",
        "...",
        "<<: ",
        "é",
        "? ",
        "\\x4",
        "\\u12",
        "\\U0001",
        "\r",
        "\u{85}",
        "\u{2028}",
        "\u{feff}",
        "!!",
        "!<",
        ">\n ",
        "|+\n ",
        "2",
        "\n\t",
        "%TAG ! x\n",
        "%YAML 1.1\n",
        "!a!b",
        "%41",
        "😀",
    ];
    let mut seed = 1u64;
    let mut random = |below: usize| {
        seed ^= seed << 13;
        seed ^= seed >> 7;
        seed ^= seed << 17;
        usize::try_from(seed % below as u64).unwrap()
    };
    for _ in 0..50_000 {
        let count = 1 + random(14);
        let source: String = (0..count).map(|_| words[random(words.len())]).collect();
        if let Err(fault) = load(&source) {
            assert!(!fault.message.is_empty(), "{source:?}");
        }
    }
}

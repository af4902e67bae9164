//! The reader against PyYAML on the same documents.

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
];

fn excluded(source: &str, expected: &Json) -> bool {
    refused(expected) || EXCLUDED.iter().any(|(part, _)| source.contains(part))
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
        Yaml::Float(number) => json!({ "float": mswea_template::python::float_repr(*number) }),
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
fn reads_as_pyyaml_does() {
    let cases: Vec<(String, String, Json)> = serde_json::from_str(CORPUS).unwrap();
    assert!(cases.len() >= 5000, "{}", cases.len());
    let mut failures = Vec::new();
    for (group, source, expected) in &cases {
        let ours = load(source);
        let good = match (&ours, expected.get("error")) {
            (Ok(value), None) => {
                let value = value
                    .as_ref()
                    .map_or(Json::Null, |root| tagged(&root.value));
                !excluded(source, expected) && value == *expected
            }
            (Err(_), None) => excluded(source, expected),
            (Ok(_), Some(_)) => false,
            (Err(fault), Some(_)) => {
                let place = json!([fault.mark.line + 1, fault.mark.column + 1]);
                expected["line"].is_null() || place == json!([expected["line"], expected["column"]])
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

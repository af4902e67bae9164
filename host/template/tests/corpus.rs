//! Against Jinja2's results for the same templates.

use std::collections::{HashMap, HashSet};

use super::*;

/// Made by `tests/corpora/jinja_corpus.py`: sets of variables, and cases of group, template,
/// variables, and text or error.
const CORPUS: &str = include_str!("../../../tests/corpora/jinja.json");

/// Templates whose results differ on purpose: a line that begins with `=` has the reason, and each
/// line after it is a template as a JSON text.
const EXCLUDED: &str = include_str!("../../../tests/corpora/jinja-excluded.txt");

fn excluded() -> HashMap<String, &'static str> {
    let mut reason = "";
    let mut found = HashMap::new();
    for line in EXCLUDED.lines() {
        if let Some(text) = line.strip_prefix("= ") {
            reason = text;
        } else if line.starts_with('"') {
            assert_ne!(reason, "", "{line}");
            found.insert(serde_json::from_str(line).unwrap(), reason);
        }
    }
    found
}

#[test]
fn renders_as_jinja2_does() {
    let corpus: Json = serde_json::from_str(CORPUS).unwrap();
    let excluded = excluded();
    let mut differ = HashSet::new();
    let templates = templates(None);
    let (mut count, mut failures) = (0, Vec::new());
    for case in corpus["cases"].as_array().unwrap() {
        let template = case[1].as_str().unwrap();
        let vars = match &case[2] {
            Json::String(name) => &corpus["vars"][name],
            own => own,
        };
        let result = templates.render(template, vars.as_object().unwrap());
        let reason = excluded.get(template);
        let good = match (&result, &case[3]) {
            (Ok(text), Json::String(expected)) => text == expected,
            (Err(error), Json::Object(expected)) => {
                let line = expected["line"]
                    .as_u64()
                    .and_then(|line| usize::try_from(line).ok());
                line.is_none() || error.line == line
            }
            _ => false,
        };
        count += 1;
        match (good, reason) {
            (true, _) => {}
            (false, Some(_)) => {
                differ.insert(template);
            }
            (false, None) => {
                failures.push(format!(
                    "{}\n  jinja2: {}\n  ours:   {}",
                    serde_json::to_string(&case[1]).unwrap(),
                    case[3],
                    match result {
                        Ok(text) => Json::String(text).to_string(),
                        Err(error) => format!("{:?} {}", error.line, error.message),
                    }
                ));
            }
        }
    }
    for (template, reason) in excluded {
        if !differ.contains(&*template) {
            failures.push(format!("{template}\n  passes, but is excluded: {reason}"));
        }
    }
    if let Ok(path) = std::env::var("CORPUS_FAILURES") {
        std::fs::write(path, failures.join("\n")).unwrap();
    }
    assert!(count >= 8000, "{count}");
    let shown: Vec<&str> = failures.iter().take(40).map(String::as_str).collect();
    assert!(
        failures.is_empty(),
        "{} of {count}:\n{}",
        failures.len(),
        shown.join("\n")
    );
}

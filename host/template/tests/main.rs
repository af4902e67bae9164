//! Tests against Jinja2's output, and of errors, limits and the cache.
#![allow(clippy::unwrap_used)]

mod corpus;
mod limits;

use std::sync::Arc;
use std::time::{Duration, Instant};

use mswea_core::Object;
use mswea_plugin_host::templates;
use mswea_template::{MAX_SOURCE, Templates, Vars};
use serde_json::{Value as Json, json};

/// Made by `tests/tooling/jinja_vectors.py`.
const VECTORS: &str = include_str!("vectors.json");

fn object(json: Json) -> Object {
    match json {
        Json::Object(map) => map,
        other => panic!("not an object: {other}"),
    }
}

#[test]
fn renders_as_jinja2_does() {
    let file: Json = serde_json::from_str(VECTORS).unwrap();
    let common = object(file["vars"].clone());
    let templates = templates(None);
    let (mut count, mut failures) = (0, Vec::new());
    for vector in file["vectors"].as_array().unwrap() {
        let template = vector["template"].as_str().unwrap();
        let vars = vector
            .get("vars")
            .map_or_else(|| common.clone(), |vars| object(vars.clone()));
        let result = templates.render(template, &vars);
        match (result, vector.get("expected").and_then(Json::as_str)) {
            (Ok(text), Some(expected)) if text == expected => {}
            (Err(_), None) => {}
            (result, expected) => failures.push(format!(
                "{template}\n  jinja2: {:?}\n  ours:   {:?}",
                expected.map_or_else(|| vector["error"].to_string(), str::to_owned),
                result.map_err(|error| error.to_string()),
            )),
        }
        count += 1;
    }
    assert!(
        failures.is_empty(),
        "{} of {count}:\n{}",
        failures.len(),
        failures.join("\n")
    );
    assert!(count >= 100);
}

#[test]
fn errors_say_where_and_what_to_do() {
    let vars = object(json!({
        "task": "t",
        "working_dir": "/w",
        "output": {"output": "x", "returncode": 0},
    }));
    for (template, expected) in [
        (
            "Hello\n  {{ tsak }}!",
            "`agent.system`, line 2, column 6: `tsak` is undefined\n \
             2 |   {{ tsak }}!\n   |      ^^^^\n\
             hint: did you mean `task`?",
        ),
        (
            "é {{ output.retruncode }}",
            "`agent.system`, line 1, column 6: `output.retruncode` is undefined\n \
             1 | é {{ output.retruncode }}\n   |      ^^^^^^^^^^^^^^^^^\n\
             hint: did you mean `returncode`?",
        ),
        (
            "{{ zzz }}",
            "`agent.system`, line 1, column 4: `zzz` is undefined\n \
             1 | {{ zzz }}\n   |    ^^^\n\
             hint: the variables here are `task`, `working_dir` and `output`",
        ),
        (
            "{% if task %}\nyes",
            "`agent.system`, line 1, column 14: syntax error: unexpected end of input, \
             expected end of block\n 1 | {% if task %}\n   |              ^",
        ),
        (
            "{{ '%d' % task }}: {{ zzz }}",
            "`agent.system`, line 1, column 4: tried to use % operator on unsupported types string and string\n \
             1 | {{ '%d' % task }}: {{ zzz }}\n   |    ^^^^^^^^^^^\n\
             hint: `'%s' % x` is written `'%s'|format(x)`",
        ),
        (
            "{{ '%s'|format(task) }}: {{ zzz }}",
            "`agent.system`, line 1, column 29: `zzz` is undefined\n \
             1 | {{ '%s'|format(task) }}: {{ zzz }}\n   |                             ^^^\n\
             hint: the variables here are `task`, `working_dir` and `output`",
        ),
        (
            "{{ zzz % 3 }} {{ zzz|upper }}",
            "`agent.system`, line 1, column 4: tried to use % operator on unsupported types undefined and number \
             (`zzz` is undefined)\n \
             1 | {{ zzz % 3 }} {{ zzz|upper }}\n   |    ^^^^^^^\n\
             hint: the variables here are `task`, `working_dir` and `output`",
        ),
        (
            "{{ task|nosuch }}",
            "`agent.system`, line 1, column 9: there is no filter `nosuch`\n \
             1 | {{ task|nosuch }}\n   |         ^^^^^^",
        ),
    ] {
        let error = templates(None).render(template, &vars).unwrap_err();
        assert_eq!(error.named("agent.system").to_string(), expected);
    }
}

#[test]
fn long_lines_are_cut_around_the_place() {
    let template = format!("{}{{{{ nope }}}}{}", "a".repeat(500), "b".repeat(500));
    let error = templates(None)
        .render(&template, &Object::new())
        .unwrap_err();
    assert_eq!(error.column, Some(504));
    let snippet = error.snippet.unwrap();
    let lines: Vec<&str> = snippet.lines().collect();
    assert!(lines[0].chars().count() < 120, "{snippet}");
    let at = lines[1].find('^').unwrap();
    let shown: String = lines[0].chars().skip(at).take(4).collect();
    assert_eq!(shown, "nope");
}

#[test]
fn check_finds_syntax_errors_only() {
    let templates = templates(None);
    assert_eq!(templates.check("a", "{{ undefined_is_fine }}"), Ok(()));
    let error = templates
        .check("model.template", "a\r\n{{ 1 + }}")
        .unwrap_err();
    assert_eq!(
        (error.name.as_str(), error.line),
        ("model.template", Some(2))
    );
    assert!(error.is_syntax);
    assert!(
        templates
            .check("a", "{{ x|nosuch }}")
            .is_err_and(|error| error.is_syntax)
    );
    assert!(templates.check("a", "{% include 'x' %}").is_ok());
    assert!(templates.check("a", &"x".repeat(MAX_SOURCE + 1)).is_err());
}

#[test]
fn layers_lie_over_each_other() {
    let base = object(json!({"a": 1, "b": {"x": 1}, "c": 3}));
    let over = object(json!({"b": {"y": 2}, "c": null, "d": 4}));
    let vars = Vars::new(&base, &over);
    let render = |template: &str, vars| templates(None).start(template, vars).unwrap().wait();
    let text = render("{{ a }} {{ b }} {{ c }} {{ d }}", vars);
    assert_eq!(text.unwrap(), "1 {'y': 2} None 4");
    assert_eq!(vars.names().collect::<Vec<_>>(), ["b", "c", "d", "a"]);

    let (hidden, without) = (object(json!({"b": 0, "c": 0})), ["a".to_owned()].into());
    let vars = vars.hiding(&without, &hidden);
    assert_eq!(render("{{ b }} {{ c }}", vars).unwrap(), "{'y': 2} None");
    render("{{ a }}", vars).unwrap_err();
    assert_eq!(vars.names().collect::<Vec<_>>(), ["b", "c", "d"]);
    let none = Object::new();
    let vars = Vars::new(&base, &none).hiding(&without, &hidden);
    assert_eq!(render("{{ b }} {{ c }}", vars).unwrap(), "0 0");
}

#[test]
fn numbers_stay_what_they_are() {
    let vars = object(json!({
        "v": [0, -1, i64::MIN, u64::MAX, 1.0, 1e300, 0.1, -0.0],
    }));
    assert_eq!(
        templates(None)
            .render("{{ v }} {{ v|tojson }}", &vars)
            .unwrap(),
        "[0, -1, -9223372036854775808, 18446744073709551615, 1.0, 1e+300, 0.1, -0.0] \
         [0, -1, -9223372036854775808, 18446744073709551615, 1.0, 1e+300, 0.1, -0.0]"
    );
}

#[test]
fn utf8_json_on_request() {
    let vars = object(json!({"s": "é漢<\u{7f}"}));
    let text = templates(None)
        .render("{{ s|tojson(ensure_ascii=false) }}", &vars)
        .unwrap();
    assert_eq!(text, "\"é漢\\u003c\u{7f}\"");
}

#[test]
fn is_shared_between_threads() {
    fn shared<T: Send + Sync + 'static>(value: T) -> Arc<T> {
        Arc::new(value)
    }
    let templates = shared(templates(None));
    std::thread::scope(|scope| {
        for index in 0..8 {
            let templates = Arc::clone(&templates);
            scope.spawn(move || {
                let vars = object(json!({"n": index}));
                assert_eq!(
                    templates.render("{{ n }}", &vars).unwrap(),
                    index.to_string()
                );
            });
        }
    });
}

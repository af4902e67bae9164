//! Tests which template is used, its variables, and the default templates.

use super::*;
use mswea_sdk::testing::{configure, set_render, take_log};

/// An environment like the host's: an undefined variable is an error.
fn render(template: &str, vars: &Value) -> Result<String, PluginError> {
    let mut environment = minijinja::Environment::new();
    environment.set_undefined_behavior(minijinja::UndefinedBehavior::Strict);
    environment
        .render_str(template, jinja(vars))
        .map_err(|error| PluginError::new("template", error.to_string()))
}

fn jinja(json: &Value) -> minijinja::Value {
    match json {
        Value::Null => ().into(),
        Value::Bool(value) => (*value).into(),
        Value::Number(number) => match number.as_i64() {
            Some(whole) => whole.into(),
            None => number.as_f64().into(),
        },
        Value::String(text) => text.as_str().into(),
        Value::Array(items) => items.iter().map(jinja).collect(),
        Value::Object(map) => {
            minijinja::Value::from_pairs(map.iter().map(|(key, item)| (key.as_str(), jinja(item))))
        }
    }
}

fn formatter(config: Value) -> SweAgent {
    set_render(render);
    configure(config).expect("the config is good")
}

fn output(output: &str, returncode: i32, exception_info: &str) -> Output {
    Output {
        output: output.to_owned(),
        returncode,
        exception_info: exception_info.to_owned(),
        extra: None,
    }
}

fn timed_out(printed: &str, seconds: &str) -> Output {
    Output {
        extra: Some(r#"{"exception_type":"TimeoutExpired"}"#.to_owned()),
        ..output(
            printed,
            -1,
            &format!("An error occurred: Command 'sleep 9' timed out after {seconds} seconds"),
        )
    }
}

fn observe(config: Value, output: Output) -> String {
    let messages = formatter(config).format(vec![Action::new("sleep 9")], vec![output]);
    messages.expect("the template renders").remove(0).text()
}

/// A config whose templates render to their own names.
fn named(max: usize) -> Value {
    json!({
        "next_step_template": "next|{{observation}}|{{elided_chars}}|{{max_observation_length}}",
        "next_step_no_output_template": "none|{{observation}}",
        "next_step_truncated_observation_template":
            "cut|{{observation[:max_observation_length // 2]}}|\
             {{observation[-max_observation_length // 2:]}}|{{elided_chars}}",
        "command_cancelled_timeout_template": "late|{{command}}|{{timeout}}|{{observation}}",
        "max_observation_length": max,
    })
}

#[test]
fn which_template() {
    for (given, max, expected) in [
        // Strictly more than the limit, as in SWE-agent.
        (output("abcd", 0, ""), 4, "next|abcd|0|4"),
        (output("abcdefghij", 0, ""), 4, "cut|ab|ij|6"),
        (output("😀😀😀😀", 0, ""), 4, "next|😀😀😀😀|0|4"),
        (output("😀é😀é😀", 0, ""), 4, "cut|😀é|é😀|1"),
        (output("", 0, ""), 4, "none|"),
        (
            output(" \n\t\u{1c}\u{a0}", 1, ""),
            4,
            "none| \n\t\u{1c}\u{a0}",
        ),
        (output("", 0, ""), 0, "none|"),
        (output("a", 0, ""), 0, "cut||a|1"),
        (output("a", -1, "E"), 9, "next|E\na|0|9"),
        (output("", -1, "E"), 9, "next|E|0|9"),
        (timed_out("out", "30"), 99, "next|late|sleep 9|30|out|0|99"),
        (timed_out("", "1.5"), 99, "next|late|sleep 9|1.5||0|99"),
        (timed_out("", "?"), 99, "next|late|sleep 9|||0|99"),
        (timed_out("out", "30"), 4, "cut|la|ut|15"),
        (
            Output {
                extra: Some(r#"{"exception_type":"OSError"}"#.to_owned()),
                ..output("", -1, "E")
            },
            9,
            "next|E|0|9",
        ),
        (
            Output {
                extra: Some(r#"{"elided_bytes":100}"#.to_owned()),
                ..output("abcdef", 0, "")
            },
            4,
            "cut|ab|ef|102",
        ),
        (
            Output {
                extra: Some("nonsense".to_owned()),
                ..output("a", 0, "")
            },
            4,
            "next|a|0|4",
        ),
    ] {
        assert_eq!(observe(named(max), given.clone()), expected, "{given:?}");
    }
}

#[test]
fn without_a_template_for_none() {
    let config = json!({ "next_step_template": "next|{{observation}}" });
    assert_eq!(observe(config, output(" ", 0, "")), "next| ");
}

#[test]
fn what_templates_see() {
    let template = "{{thought}}|{{command}}|{{action}}|{{returncode}}|{{exception_info}}|\
                    {{extra.key}}|{{open_file}}|{{observation}}";
    let mut formatter = formatter(json!({
        "next_step_template": template,
        "variables": { "open_file": "n/a", "observation": "hidden" },
    }));
    let action = Action {
        extra: Some(r#"{"thought":"I look."}"#.to_owned()),
        ..Action::new("ls")
    };
    let given = Output {
        extra: Some(r#"{"key":"K"}"#.to_owned()),
        ..output("a", 3, "E")
    };
    let messages = formatter.format(vec![action], vec![given]).expect("good");
    assert_eq!(messages[0].text(), "I look.|ls|ls|3|E|K|n/a|E\na");
}

#[test]
fn the_default_words() {
    for (given, expected) in [
        (output("hi\n", 0, ""), "Observation:\nhi\n"),
        (output("hi", 2, ""), "Observation:\nhi\n(exit code 2)"),
        (
            output("", 0, ""),
            "Observation: the command printed nothing.",
        ),
        (
            output("", -15, ""),
            "Observation: the command printed nothing.\n(exit code -15)",
        ),
        (
            output("p", -1, "no such shell"),
            "Observation:\nno such shell\np",
        ),
        (
            timed_out("p\n", "30"),
            "Observation:\nThe command was stopped: it had not ended after 30 seconds. Give one \
             that ends sooner, or start it in the background and look at its output later. Until \
             then it had printed:\np\n",
        ),
        (
            timed_out("", "x"),
            "Observation:\nThe command was stopped: it had not ended in time. Give one that ends \
             sooner, or start it in the background and look at its output later.",
        ),
    ] {
        assert_eq!(observe(json!({}), given.clone()), expected, "{given:?}");
    }
    let long = observe(json!({}), output(&"é".repeat(100_007), 1, ""));
    let (head, rest) = long
        .strip_prefix("Observation:\n")
        .and_then(|text| text.split_once('\n'))
        .expect("two parts");
    assert_eq!(head, "é".repeat(100_000));
    assert!(rest.contains("first 100000 characters") && rest.contains("7 are left out"));
    assert!(rest.ends_with("\n(exit code 1)"));
    let fits = observe(json!({}), output(&"é".repeat(100_000), 0, ""));
    assert_eq!(fits, format!("Observation:\n{}", "é".repeat(100_000)));
}

#[test]
fn answers_are_paired() {
    let mut formatter = formatter(json!({ "next_step_template": "{{observation}}" }));
    let (a, b) = (output("a", 0, ""), output("b", 0, ""));
    let call = |id: &str| Action::for_call(id, "x");
    let user = || Action::new("x");
    for (actions, outputs, expected) in [
        (
            vec![call("1"), call("2")],
            vec![a.clone(), b.clone()],
            vec![Message::tool("1", "a"), Message::tool("2", "b")],
        ),
        (
            vec![call("1"), call("2")],
            vec![a.clone()],
            vec![
                Message::tool("1", "a"),
                Message::tool("2", "action was not executed"),
            ],
        ),
        (
            vec![user(), user()],
            vec![a.clone()],
            vec![Message::new("user", "a")],
        ),
        (vec![user()], vec![a, b], vec![Message::new("user", "a")]),
        (vec![], vec![], vec![]),
    ] {
        assert_eq!(formatter.format(actions, outputs), Ok(expected));
    }
}

#[test]
fn a_template_that_fails_is_an_error() {
    for key in ["next_step_template", "command_cancelled_timeout_template"] {
        let mut formatter = formatter(json!({ key: "{{ nothing }}" }));
        let error = formatter.format(vec![Action::new("x")], vec![timed_out("", "1")]);
        let code = error.map_err(|error| error.code);
        assert_eq!(code, Err("template".to_owned()), "{key}");
    }
}

#[test]
fn a_brace_without_jinja_is_noted() {
    for (template, warns) in [
        ("{observation}", true),
        ("{{observation}}", false),
        ("{% if observation %}x{% endif %}", false),
        ("plain", false),
    ] {
        take_log();
        formatter(json!({ "next_step_no_output_template": template }));
        let warned = take_log().iter().any(|(level, text)| {
            *level == Level::Warn && text.contains("`next_step_no_output_template`")
        });
        assert_eq!(warned, warns, "{template}");
    }
}

#[test]
fn the_schema_is_honest() {
    let schema = schema();
    for (name, property) in schema["properties"].as_object().expect("it has some") {
        assert!(property["description"].is_string(), "{name}");
        assert!(property.get("default").is_some(), "{name}");
        let config = json!({ name: property["default"] });
        assert!(configure::<SweAgent>(config).is_ok(), "{name}");
    }
    for example in schema["examples"].as_array().expect("a list") {
        assert!(configure::<SweAgent>(example.clone()).is_ok(), "{example}");
    }
    let unknown = configure::<SweAgent>(json!({ "next_step": "" })).err();
    assert_eq!(
        unknown.map(|error| error.code),
        Some("invalid-config".to_owned())
    );
}

/// The output of a command is never rendered as a template.
#[test]
fn hostile_outputs() {
    let mut formatter = formatter(json!({ "next_step_template": "{{observation}}" }));
    for text in [
        "{{ nothing }}",
        "{% for %}",
        "\0",
        "\u{feff}\r\n",
        "timed out after 3 seconds",
        "</tool>",
    ] {
        let messages = formatter.format(vec![Action::new(text)], vec![output(text, 0, "")]);
        assert_eq!(messages.expect("it renders")[0].text(), text);
    }
    let huge = "`".repeat(1 << 20);
    let start = std::time::Instant::now();
    let messages = formatter.format(
        vec![Action::new("x")],
        vec![output(&huge, 0, &"timed out after ".repeat(1 << 16))],
    );
    assert!(messages.is_ok());
    let limit = if cfg!(debug_assertions) { 4000 } else { 200 };
    assert!(start.elapsed().as_millis() < limit, "{:?}", start.elapsed());
}

//! The formatter: renders every output with a Jinja template; the host does the rendering.

use mswea_sdk::types::{Action, Message, Output, PluginError, extra_value};
use mswea_sdk::{Descriptor, Formatter, Plugin, from_config, host};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

/// The default template: a JSON object.
pub const JSON_TEMPLATE: &str = include_str!("../templates/json.jinja");

/// The template of the text presets: XML-like tags.
pub const XML_TEMPLATE: &str = include_str!("../templates/xml.jinja");

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Config {
    #[serde(default = "default_template")]
    observation_template: String,
}

fn default_template() -> String {
    JSON_TEMPLATE.to_owned()
}

/// The plugin: its template.
pub struct Jinja {
    template: String,
}

impl Plugin for Jinja {
    fn describe() -> Descriptor {
        Descriptor::new(
            "jinja",
            env!("CARGO_PKG_VERSION"),
            "Formats observations with a Jinja template",
        )
        .config_schema(&json!({
            "type": "object",
            "properties": {
                "observation_template": {
                    "type": "string",
                    "default": JSON_TEMPLATE,
                    "description": "Renders one output. Variables: `output` with `output`, \
                                    `returncode`, `exception_info` and `extra`; \
                                    `action` with `command`; and the run's own.",
                },
            },
            "additionalProperties": false,
        }))
    }

    fn configure(config: Value) -> Result<Self, PluginError> {
        let config: Config = from_config(config)?;
        Ok(Self {
            template: config.observation_template,
        })
    }
}

/// The variables of a rendering. They are serialised from here, without a JSON value between.
#[derive(Serialize)]
struct Vars<'a> {
    output: OutputVars<'a>,
    action: ActionVars<'a>,
}

#[derive(Serialize)]
struct ActionVars<'a> {
    command: &'a str,
}

#[derive(Serialize)]
struct OutputVars<'a> {
    output: &'a str,
    returncode: i32,
    exception_info: &'a str,
    /// Left out if empty, as in mini-swe-agent, where `tojson` shows what is there.
    #[serde(skip_serializing_if = "Map::is_empty")]
    extra: Map<String, Value>,
}

impl Jinja {
    fn render(&self, command: &str, output: &Output) -> Result<String, PluginError> {
        let extra = match extra_value(output.extra.as_deref()) {
            Value::Object(extra) => extra,
            _ => Map::new(),
        };
        let output = OutputVars {
            output: &output.output,
            returncode: output.returncode,
            exception_info: &output.exception_info,
            extra,
        };
        let action = ActionVars { command };
        host::render(&self.template, &Vars { output, action })
    }
}

impl Formatter for Jinja {
    fn format(
        &mut self,
        actions: Vec<Action>,
        outputs: Vec<Output>,
    ) -> Result<Vec<Message>, PluginError> {
        let mut messages = Vec::with_capacity(actions.len());
        let mut outputs = outputs.into_iter();
        for action in actions {
            let output = match (outputs.next(), &action.tool_call_id) {
                (Some(output), _) => output,
                // Providers refuse a conversation with an unanswered tool call.
                (None, Some(_)) => Output::not_executed(),
                (None, None) => break,
            };
            let text = self.render(&action.command, &output)?;
            messages.push(match action.tool_call_id {
                Some(id) => Message::tool(id, text),
                None => Message::new("user", text),
            });
        }
        Ok(messages)
    }
}

mswea_sdk::export!(formatter: Jinja);

#[cfg(test)]
mod tests {
    use super::*;
    use mswea_sdk::testing::{configure, set_render};

    /// An environment like the host's, except for the exact form of `tojson`, which the host's
    /// tests cover.
    fn render(template: &str, vars: &Value) -> Result<String, PluginError> {
        let mut environment = minijinja::Environment::new();
        environment.set_undefined_behavior(minijinja::UndefinedBehavior::Strict);
        environment
            .render_str(template, value(vars))
            .map_err(|error| PluginError::new("template", error.to_string()))
    }

    fn value(json: &Value) -> minijinja::Value {
        match json {
            Value::String(text) => text.as_str().into(),
            Value::Number(number) => number.as_i64().into(),
            Value::Object(map) => minijinja::Value::from_pairs(
                map.iter().map(|(key, item)| (key.as_str(), value(item))),
            ),
            other => panic!("the formatter passes no `{other}`"),
        }
    }

    fn output(output: &str, returncode: i32, exception_info: &str) -> Output {
        Output {
            output: output.to_owned(),
            returncode,
            exception_info: exception_info.to_owned(),
            extra: None,
        }
    }

    fn observe(template: &str, output: Output) -> String {
        set_render(render);
        let config = json!({ "observation_template": template });
        let mut jinja = configure::<Jinja>(config).expect("the config is good");
        let messages = jinja
            .format(vec![Action::new("x")], vec![output])
            .expect("the template renders");
        messages[0].text()
    }

    #[test]
    fn json() {
        for (given, expected) in [
            (
                output("hi\n", 0, ""),
                "{\n  \"returncode\": 0,\n  \"output\": \"hi\\n\"\n}",
            ),
            (
                output("", 1, ""),
                "{\n  \"returncode\": 1,\n  \"output\": \"\"\n}",
            ),
            (
                output("p\n", -1, "E <x>"),
                "{\n  \"returncode\": -1,\n  \"output\": \"p\\n\", \
                 \"exception_info\": \"E \\u003cx\\u003e\"\n}",
            ),
        ] {
            assert_eq!(observe(JSON_TEMPLATE, given), expected);
        }
    }

    #[test]
    fn long_json() {
        let long = format!("{}{}é", "a".repeat(5000), "😀".repeat(5000));
        let text = observe(JSON_TEMPLATE, output(&long, -1, "E"));
        assert!(text.ends_with("\"warning\": \"Output too long.\", \"exception_info\": \"E\"\n}"));
        let value: Value = serde_json::from_str(&text).expect("it is JSON");
        let object = value.as_object().expect("it is an object");
        let keys: Vec<_> = text
            .lines()
            .filter_map(|line| line.trim_start().strip_prefix('"')?.split('"').next())
            .collect();
        assert_eq!(
            keys,
            [
                "returncode",
                "output_head",
                "output_tail",
                "elided_chars",
                "warning"
            ]
        );
        assert_eq!(object["output_head"], "a".repeat(5000));
        assert_eq!(object["output_tail"], format!("{}é", "😀".repeat(4999)));
        assert_eq!(object["elided_chars"], 1);
    }

    #[test]
    fn what_the_capture_dropped_counts_as_elided() {
        for (template, wanted) in [
            (JSON_TEMPLATE, "\"elided_chars\": 10000345,"),
            (XML_TEMPLATE, "\n10000345 characters elided\n"),
        ] {
            let mut long = output(&"a".repeat(10_345), 0, "");
            long.extra = Some(r#"{"elided_bytes":10000000}"#.to_owned());
            let text = observe(template, long);
            assert!(text.contains(wanted), "{text}");
        }
        // A short output is in the text itself.
        let mut short = output("a", 0, "");
        short.extra = Some(r#"{"elided_bytes":7}"#.to_owned());
        assert!(!observe(JSON_TEMPLATE, short).contains("elided"));
    }

    #[test]
    fn lengths_count_code_points() {
        for (length, long) in [(9_999, false), (10_000, true)] {
            let text = observe(JSON_TEMPLATE, output(&"😀".repeat(length), 0, ""));
            assert_eq!(text.contains("\"warning\""), long, "{length}");
            assert_eq!(text.contains("\"elided_chars\": 0,"), long, "{length}");
        }
    }

    #[test]
    fn xml() {
        let ok = "<returncode>0</returncode>\n";
        for (given, expected) in [
            (
                output("hi\n", 0, ""),
                format!("{ok}<output>\nhi\n</output>"),
            ),
            (output("", 0, ""), format!("{ok}<output>\n</output>")),
            (
                output("  <b> & \n\n", 0, ""),
                format!("{ok}<output>\n  <b> & \n\n</output>"),
            ),
            (
                output("hi", 1, ""),
                "<returncode>1</returncode>\n<output>\nhi</output>".to_owned(),
            ),
            (
                output("p\n", -1, "E <x>"),
                "<exception>E <x></exception>\n<returncode>-1</returncode>\n<output>\np\n</output>"
                    .to_owned(),
            ),
        ] {
            assert_eq!(observe(XML_TEMPLATE, given), expected);
        }
    }

    #[test]
    fn long_xml() {
        let text = observe(XML_TEMPLATE, output(&"a".repeat(10_000), 0, ""));
        let half = "a".repeat(5000);
        let (head, rest) = text.split_once("</warning>").expect("there is a warning");
        let advice = head
            .strip_prefix("<returncode>0</returncode>\n<warning>\n")
            .expect("the warning follows the return code");
        assert_eq!(advice.lines().count(), 5);
        assert_eq!(
            rest,
            format!(
                "<output_head>\n{half}\n</output_head>\n<elided_chars>\n0 characters elided\n\
                 </elided_chars>\n<output_tail>\n{half}\n</output_tail>"
            )
        );
    }

    #[test]
    fn answers_are_paired() {
        set_render(render);
        let config = json!({
            "observation_template": "{{ output.output }}|{{ output.exception_info }}",
        });
        let mut jinja = configure::<Jinja>(config).expect("the config is good");
        let (a, b) = (output("a", 0, ""), output("b", 0, ""));
        let call = |id: &str| Action::for_call(id, "x");
        let user = || Action::new("x");
        for (actions, outputs, expected) in [
            (
                vec![call("1"), call("2")],
                vec![a.clone(), b.clone()],
                vec![Message::tool("1", "a|"), Message::tool("2", "b|")],
            ),
            (
                vec![call("1"), call("2")],
                vec![a.clone()],
                vec![
                    Message::tool("1", "a|"),
                    Message::tool("2", "|action was not executed"),
                ],
            ),
            (
                vec![user(), user()],
                vec![a.clone()],
                vec![Message::new("user", "a|")],
            ),
            (vec![user()], vec![a, b], vec![Message::new("user", "a|")]),
            (vec![], vec![], vec![]),
        ] {
            assert_eq!(jinja.format(actions, outputs), Ok(expected));
        }
    }

    #[test]
    fn the_outputs_extra_is_there_if_there_is_some() {
        let known = "{% if output.extra is defined %}yes{% else %}no{% endif %}";
        assert_eq!(observe(known, Output::default()), "no");
        let mut given = output("", 0, "");
        given.extra = Some(r#"{"exception_type":"T"}"#.to_owned());
        assert_eq!(observe("{{ output.extra.exception_type }}", given), "T");
    }

    #[test]
    fn a_template_that_fails_is_an_error() {
        set_render(render);
        let config = json!({ "observation_template": "{{ nothing }}" });
        let mut jinja = configure::<Jinja>(config).expect("the config is good");
        let error = jinja.format(vec![Action::new("x")], vec![output("", 0, "")]);
        assert_eq!(
            error.map_err(|error| error.code),
            Err("template".to_owned())
        );
    }
}

//! The formatter with SWE-agent's templates: one for an output, one for an empty output, one for an
//! output that is too long, and one for a command that exceeded its time.

use mswea_sdk::host::{self, Level};
use mswea_sdk::types::{Action, Message, Output, PluginError, extra_value};
use mswea_sdk::{Descriptor, Formatter, Plugin, from_config};
use serde::Deserialize;
use serde_json::{Map, Value, json};

const NEXT_STEP: &str = include_str!("../templates/next_step.jinja");
const TRUNCATED: &str = include_str!("../templates/truncated.jinja");
const TIMEOUT: &str = include_str!("../templates/timeout.jinja");

/// In characters, like all lengths here.
const MAX_LENGTH: usize = 100_000;

#[derive(Deserialize)]
#[serde(deny_unknown_fields, default)]
struct Config {
    next_step_template: String,
    next_step_no_output_template: Option<String>,
    next_step_truncated_observation_template: String,
    command_cancelled_timeout_template: String,
    max_observation_length: usize,
    variables: Map<String, Value>,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            next_step_template: NEXT_STEP.to_owned(),
            next_step_no_output_template: None,
            next_step_truncated_observation_template: TRUNCATED.to_owned(),
            command_cancelled_timeout_template: TIMEOUT.to_owned(),
            max_observation_length: MAX_LENGTH,
            variables: Map::new(),
        }
    }
}

/// The plugin: its templates.
pub struct SweAgent {
    config: Config,
}

impl Plugin for SweAgent {
    fn describe() -> Descriptor {
        Descriptor::new(
            "swe_agent",
            env!("CARGO_PKG_VERSION"),
            "Formats observations with SWE-agent's templates",
        )
        .config_schema(&schema())
    }

    fn configure(config: Value) -> Result<Self, PluginError> {
        let config: Config = from_config(config)?;
        for (name, template) in [
            ("next_step_template", Some(&config.next_step_template)),
            (
                "next_step_no_output_template",
                config.next_step_no_output_template.as_ref(),
            ),
            (
                "next_step_truncated_observation_template",
                Some(&config.next_step_truncated_observation_template),
            ),
            (
                "command_cancelled_timeout_template",
                Some(&config.command_cancelled_timeout_template),
            ),
        ] {
            if template.is_some_and(|template| is_suspicious(template)) {
                host::log(
                    Level::Warn,
                    &format!(
                        "`{name}` has a brace but no Jinja in it: a variable is written \
                         `{{{{ observation }}}}`"
                    ),
                );
            }
        }
        Ok(Self { config })
    }
}

/// Whether the template contains `{observation}`, which is probably a mistake.
fn is_suspicious(template: &str) -> bool {
    template.contains('{')
        && !["{{", "{%", "{#"]
            .iter()
            .any(|mark| template.contains(mark))
}

fn schema() -> Value {
    let template = |default: Option<&str>, description: &str| {
        let kind = match default {
            Some(_) => json!("string"),
            None => json!(["string", "null"]),
        };
        json!({ "type": kind, "default": default, "description": description })
    };
    json!({
        "type": "object",
        "properties": {
            "next_step_template": template(
                Some(NEXT_STEP),
                "Jinja template of an output; see the README for its variables.",
            ),
            "next_step_no_output_template": template(
                None,
                "Jinja template of an output that is empty or consists of blanks. Null: \
                 `next_step_template`.",
            ),
            "next_step_truncated_observation_template": template(
                Some(TRUNCATED),
                "Jinja template of an output of more than `max_observation_length` characters; \
                 the template itself shortens the output.",
            ),
            "command_cancelled_timeout_template": template(
                Some(TIMEOUT),
                "Jinja template of the observation of a command that timed out, with `command`, \
                 `timeout` (seconds), and the printed text as `observation`.",
            ),
            "max_observation_length": {
                "type": "integer",
                "minimum": 0,
                "maximum": 4_000_000_000_u32,
                "default": MAX_LENGTH,
                "description": "The most characters of an output that is not too long.",
            },
            "variables": {
                "type": "object",
                "default": {},
                "description": "Further variables of all templates, such as those that SWE-agent's \
                                tools set. Variables of this plugin with the same name take \
                                precedence.",
            },
        },
        "additionalProperties": false,
        "examples": [
            {},
            {
                "next_step_template": "OBSERVATION:\n{{observation}}",
                "next_step_no_output_template": "No output.",
                "max_observation_length": 20_000,
                "variables": { "open_file": "n/a" },
            },
        ],
    })
}

impl SweAgent {
    fn render(&self, action: &Action, output: &Output) -> Result<String, PluginError> {
        let extra = extra_value(output.extra.as_deref());
        let timed_out = extra.get("exception_type") == Some(&json!("TimeoutExpired"));
        let elided_bytes = extra.get("elided_bytes").and_then(Value::as_u64);
        let elided_bytes = elided_bytes.unwrap_or_default();
        let thought = extra_value(action.extra.as_deref())
            .get_mut("thought")
            .map(Value::take);

        let config = &self.config;
        let mut vars = config.variables.clone();
        let mut set = |name: &str, value: Value| vars.insert(name.to_owned(), value);
        set("command", json!(action.command));
        set("action", json!(action.command));
        set("thought", thought.unwrap_or_else(|| json!("")));
        set("returncode", json!(output.returncode));
        set("exception_info", json!(output.exception_info));
        set(
            "max_observation_length",
            json!(config.max_observation_length),
        );
        set("elided_chars", json!(0));
        set("extra", if extra.is_object() { extra } else { json!({}) });

        let observation = if timed_out {
            vars.insert("observation".to_owned(), json!(output.output));
            vars.insert("timeout".to_owned(), timeout(&output.exception_info));
            let vars = Value::Object(vars.clone());
            host::render(&config.command_cancelled_timeout_template, &vars)?
        } else {
            // SWE-agent's templates have no variable for an error.
            match (output.exception_info.as_str(), output.output.as_str()) {
                ("", output) => output.to_owned(),
                (exception, "") => exception.to_owned(),
                (exception, output) => format!("{exception}\n{output}"),
            }
        };
        let length = observation.chars().count();
        let template = if is_blank(&observation) {
            let own = config.next_step_no_output_template.as_ref();
            own.unwrap_or(&config.next_step_template)
        } else if length > config.max_observation_length {
            let elided = (length - config.max_observation_length) as u64;
            let elided = elided.saturating_add(elided_bytes);
            vars.insert("elided_chars".to_owned(), json!(elided));
            &config.next_step_truncated_observation_template
        } else {
            &config.next_step_template
        };
        vars.insert("observation".to_owned(), json!(observation));
        host::render(template, &Value::Object(vars))
    }
}

/// Whether Python's `strip` leaves nothing.
fn is_blank(text: &str) -> bool {
    text.chars()
        .all(|c| c.is_whitespace() || ('\u{1c}'..='\u{1f}').contains(&c))
}

/// The seconds that the host's message names, as a number; an empty text if it names none.
fn timeout(exception_info: &str) -> Value {
    let seconds = exception_info
        .rsplit_once("timed out after ")
        .and_then(|(_, rest)| rest.split_whitespace().next());
    let number = seconds.and_then(|seconds| serde_json::from_str(seconds).ok());
    number.filter(Value::is_number).unwrap_or_else(|| json!(""))
}

impl Formatter for SweAgent {
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
            let text = self.render(&action, &output)?;
            messages.push(match action.tool_call_id {
                Some(id) => Message::tool(id, text),
                None => Message::new("user", text),
            });
        }
        Ok(messages)
    }
}

mswea_sdk::export!(formatter: SweAgent);

#[cfg(test)]
mod tests;

//! Formats outputs: the exit code, then the output, without its middle if it is long.

use mswea_sdk::types::{Action, Message, Output, PluginError};
use mswea_sdk::{Descriptor, Formatter, Plugin, from_config};
use serde::Deserialize;
use serde_json::{Value, json};

#[derive(Deserialize)]
struct {{pascal_name}} {
    max_chars: usize,
}

impl Plugin for {{pascal_name}} {
    fn describe() -> Descriptor {
        Descriptor::new(
            "{{snake_name}}",
            env!("CARGO_PKG_VERSION"),
            "Shows the exit code and the ends of the output",
        )
        .config_schema(&json!({
            "type": "object",
            "additionalProperties": false,
            "properties": {
                "max_chars": {
                    "type": "integer",
                    "minimum": 2,
                    "default": 10000,
                    "description": "The most characters of an output that the model gets."
                }
            }
        }))
    }

    fn configure(config: Value) -> Result<Self, PluginError> {
        from_config(config)
    }
}

impl {{pascal_name}} {
    fn text(&self, output: &Output) -> String {
        let mut text = format!("exit code {}\n", output.returncode);
        if !output.exception_info.is_empty() {
            text.push_str(&output.exception_info);
            text.push('\n');
        }
        let chars: Vec<char> = output.output.chars().collect();
        if chars.len() <= self.max_chars {
            text.push_str(&output.output);
            return text;
        }
        let half = self.max_chars / 2;
        text.extend(&chars[..half]);
        text.push_str(&format!(
            "\n[{} characters left out]\n",
            chars.len() - 2 * half
        ));
        text.extend(&chars[chars.len() - half..]);
        text
    }
}

impl Formatter for {{pascal_name}} {
    fn format(
        &mut self,
        actions: Vec<Action>,
        outputs: Vec<Output>,
    ) -> Result<Vec<Message>, PluginError> {
        let pairs = actions.into_iter().zip(&outputs);
        Ok(pairs
            .map(|(action, output)| match action.tool_call_id {
                // A tool call has to be answered with its id.
                Some(id) => Message::tool(id, self.text(output)),
                None => Message::new("user", self.text(output)),
            })
            .collect())
    }
}

mswea_sdk::export!(formatter: {{pascal_name}});

#[cfg(test)]
mod tests {
    use super::*;
    use mswea_sdk::testing::configure;

    fn format(config: Value, action: Action, text: &str) -> Message {
        let mut formatter = configure::<{{pascal_name}}>(config).expect("the config fits");
        let output = Output {
            output: text.to_owned(),
            returncode: 1,
            ..Output::default()
        };
        let messages = formatter.format(vec![action], vec![output]);
        messages
            .expect("it formats")
            .pop()
            .expect("one output, one message")
    }

    #[test]
    fn the_output_follows_the_exit_code() {
        let message = format(json!({}), Action::new("ls"), "a\n");
        assert_eq!(
            (&*message.role, &*message.text()),
            ("user", "exit code 1\na\n")
        );
    }

    #[test]
    fn a_tool_call_is_answered_by_its_id() {
        let message = format(json!({}), Action::for_call("call_1", "ls"), "");
        assert_eq!(
            (&*message.role, message.tool_call_id.as_deref()),
            ("tool", Some("call_1"))
        );
    }

    #[test]
    fn a_long_output_loses_its_middle() {
        let message = format(json!({ "max_chars": 4 }), Action::new("ls"), "äbcdefgh");
        assert_eq!(
            message.text(),
            "exit code 1\näb\n[4 characters left out]\ngh"
        );
    }
}

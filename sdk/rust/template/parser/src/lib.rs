//! Finds the commands in a reply: the lines that begin with a prompt.

use mswea_sdk::parser::{Outcome, Problem};
use mswea_sdk::types::{Action, PluginError, Reply};
use mswea_sdk::{Descriptor, Parser, Plugin, from_config};
use serde::Deserialize;
use serde_json::{Value, json};

#[derive(Deserialize)]
struct {{pascal_name}} {
    prompt: String,
}

impl Plugin for {{pascal_name}} {
    fn describe() -> Descriptor {
        Descriptor::new(
            "{{snake_name}}",
            env!("CARGO_PKG_VERSION"),
            "Runs the lines that begin with a prompt",
        )
        .config_schema(&json!({
            "type": "object",
            "additionalProperties": false,
            "properties": {
                "prompt": {
                    "type": "string",
                    "minLength": 1,
                    "default": "$ ",
                    "description": "The beginning of a line with a command."
                }
            }
        }))
    }

    fn configure(config: Value) -> Result<Self, PluginError> {
        from_config(config)
    }
}

impl Parser for {{pascal_name}} {
    fn parse(&mut self, reply: Reply) -> Result<Outcome, PluginError> {
        let text = reply.message.text();
        let actions: Vec<_> = text
            .lines()
            .filter_map(|line| line.strip_prefix(&self.prompt))
            .filter(|command| !command.trim().is_empty())
            .map(Action::new)
            .collect();
        // Not an error of the plugin: the model gets this message and is queried again.
        if actions.is_empty() {
            let message = format!("Begin a line with `{}` to run it.", self.prompt);
            return Ok(Problem::new("no-command", message).into());
        }
        Ok(Outcome::Actions(actions))
    }
}

mswea_sdk::export!(parser: {{pascal_name}});

#[cfg(test)]
mod tests {
    use super::*;
    use mswea_sdk::testing::{configure, parse_commands, reply_text};

    #[test]
    fn lines_with_the_prompt_are_commands() {
        let mut parser = configure::<{{pascal_name}}>(json!({})).expect("the defaults fit");
        for (text, expected) in [
            ("I look.\n$ ls -l\n", Ok(&["ls -l"][..])),
            ("$ cd src\n$ ls", Ok(&["cd src", "ls"])),
            ("no command", Err("Begin a line with `$ ` to run it.")),
            ("$  \n", Err("Begin a line with `$ ` to run it.")),
            ("", Err("Begin a line with `$ ` to run it.")),
        ] {
            let commands = parse_commands(&mut parser, reply_text(text));
            let expected = expected
                .map(|commands| commands.iter().map(ToString::to_string).collect())
                .map_err(ToString::to_string);
            assert_eq!(commands, expected, "{text:?}");
        }
    }

    #[test]
    fn the_prompt_can_be_set() {
        let mut parser = configure::<{{pascal_name}}>(json!({ "prompt": "> " })).expect("it fits");
        let commands = parse_commands(&mut parser, reply_text("$ ls\n> pwd"));
        assert_eq!(commands, Ok(vec!["pwd".to_owned()]));
    }
}

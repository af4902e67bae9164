//! Shortens old messages: all but the latest show only their beginning.

use mswea_sdk::types::{ContentPart, Message, PluginError};
use mswea_sdk::{Descriptor, Plugin, SimpleProcessor, from_config};
use serde::Deserialize;
use serde_json::{Value, json};

#[derive(Deserialize)]
struct {{pascal_name}} {
    keep: usize,
    max_chars: usize,
}

impl Plugin for {{pascal_name}} {
    fn describe() -> Descriptor {
        Descriptor::new(
            "{{snake_name}}",
            env!("CARGO_PKG_VERSION"),
            "Shortens all but the latest messages",
        )
        .config_schema(&json!({
            "type": "object",
            "additionalProperties": false,
            "properties": {
                "keep": {
                    "type": "integer",
                    "minimum": 0,
                    "default": 10,
                    "description": "How many of the latest messages stay whole."
                },
                "max_chars": {
                    "type": "integer",
                    "minimum": 0,
                    "default": 2000,
                    "description": "The most characters of an older message."
                }
            }
        }))
    }

    fn configure(config: Value) -> Result<Self, PluginError> {
        from_config(config)
    }
}

impl {{pascal_name}} {
    fn shorten(&self, message: &mut Message) {
        let text = message.text();
        // The task and the model's own messages stay whole.
        if !matches!(&*message.role, "tool" | "user") || text.chars().count() <= self.max_chars {
            return;
        }
        let mut short: String = text.chars().take(self.max_chars).collect();
        short.push_str(" [shortened]");
        message.content = vec![ContentPart::text(short)];
    }
}

impl SimpleProcessor for {{pascal_name}} {
    fn process(&mut self, history: &[Message]) -> Vec<Message> {
        let mut view = history.to_vec();
        let old = view.len().saturating_sub(self.keep);
        // The first two are the system's message and the task.
        for message in view[..old].iter_mut().skip(2) {
            self.shorten(message);
        }
        view
    }
}

mswea_sdk::export!(simple_processor: {{pascal_name}});

#[cfg(test)]
mod tests {
    use super::*;
    use mswea_sdk::processor::Diffing;
    use mswea_sdk::testing::check_fresh_instances;
    use mswea_sdk::types::Change;

    fn messages(role: &str, texts: &[&str]) -> Vec<Message> {
        texts.iter().map(|text| Message::new(role, *text)).collect()
    }

    #[test]
    fn only_the_latest_stay_whole() {
        let start = messages("user", &["system", "the task", "first output"]);
        let views = check_fresh_instances::<Diffing<{{pascal_name}}>>(
            &json!({ "keep": 1, "max_chars": 5 }),
            &[
                Change::all(start),
                Change::tail(3, messages("assistant", &["an answer"])),
                Change::tail(4, messages("user", &["second output"])),
            ],
        );
        let last: Vec<String> = views[2].iter().map(Message::text).collect();
        assert_eq!(
            last,
            [
                "system",
                "the task",
                "first [shortened]",
                "an answer",
                "second output"
            ]
        );
        assert_eq!(views[0][2].text(), "first output");
    }
}

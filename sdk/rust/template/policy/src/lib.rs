//! Judges commands by their text: denies some, and has the user asked about others.

use mswea_sdk::policy::Verdict;
use mswea_sdk::types::{Action, PluginError};
use mswea_sdk::{Descriptor, Plugin, Policy, from_config};
use serde::Deserialize;
use serde_json::{Value, json};

#[derive(Deserialize)]
struct {{pascal_name}} {
    deny: Vec<String>,
    ask: Vec<String>,
}

impl Plugin for {{pascal_name}} {
    fn describe() -> Descriptor {
        let list = |default: &[&str], description: &str| {
            json!({
                "type": "array",
                "items": { "type": "string", "minLength": 1 },
                "default": default,
                "description": description
            })
        };
        Descriptor::new(
            "{{snake_name}}",
            env!("CARGO_PKG_VERSION"),
            "Denies commands, or asks, by their text",
        )
        .config_schema(&json!({
            "type": "object",
            "additionalProperties": false,
            "properties": {
                "deny": list(&["git push --force"], "Commands with one of these are not run."),
                "ask": list(&["git push"], "The user is asked before commands with one of these run.")
            }
        }))
    }

    fn configure(config: Value) -> Result<Self, PluginError> {
        from_config(config)
    }
}

impl Policy for {{pascal_name}} {
    fn judge(&mut self, action: Action) -> Result<Verdict, PluginError> {
        let found = |list: &[String]| {
            list.iter()
                .find(|words| action.command.contains(&**words))
                .cloned()
        };
        if let Some(words) = found(&self.deny) {
            return Ok(Verdict::deny(
                "denied",
                format!("Commands with `{words}` are not run here."),
            ));
        }
        if let Some(words) = found(&self.ask) {
            return Ok(Verdict::ask(
                "ask",
                format!("The command contains `{words}`."),
            ));
        }
        Ok(Verdict::Allow)
    }
}

mswea_sdk::export!(policy: {{pascal_name}});

#[cfg(test)]
mod tests {
    use super::*;
    use mswea_sdk::testing::configure;

    #[test]
    fn commands_are_judged_by_their_words() {
        let mut policy = configure::<{{pascal_name}}>(json!({})).expect("the defaults fit");
        for (command, expected) in [
            ("ls", "allow"),
            ("git push origin main", "ask"),
            ("cd a && git push --force", "deny"),
            ("", "allow"),
        ] {
            let verdict = match policy.judge(Action::new(command)).expect("it judges") {
                Verdict::Allow => "allow",
                Verdict::Ask(_) => "ask",
                Verdict::Deny(_) => "deny",
                Verdict::Rewrite(_) => "rewrite",
            };
            assert_eq!(verdict, expected, "{command}");
        }
    }
}

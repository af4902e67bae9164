//! The parser for models that call tools: one tool, `bash`, with one argument, `command`.

mod python_json;

use mswea_sdk::host::{self, Level};
use mswea_sdk::parser::{Outcome, Problem};
use mswea_sdk::types::{Action, PluginError, Reply, Tool, ToolCall};
use mswea_sdk::{Descriptor, Parser, Plugin};
use python_json::Value;
use serde_json::json;

const NO_CALLS: &str = "No tool calls found in the response. Every response MUST include at \
                        least one tool call.";
const NO_COMMAND: &str = "Missing 'command' argument in bash tool call.";
const NO_STRING: &str = "'command' must be a string.";

/// The plugin; it has no state.
pub struct Toolcall;

impl Plugin for Toolcall {
    fn describe() -> Descriptor {
        Descriptor::new(
            "toolcall",
            env!("CARGO_PKG_VERSION"),
            "Takes the commands from calls of the tool `bash`",
        )
    }

    fn configure(_config: serde_json::Value) -> Result<Self, PluginError> {
        Ok(Self)
    }
}

impl Parser for Toolcall {
    fn tools(&self) -> Vec<Tool> {
        vec![Tool::new(
            "bash",
            "Execute a bash command",
            &json!({
                "type": "object",
                "properties": {
                    "command": {
                        "type": "string",
                        "description": "The bash command to execute",
                    },
                },
                "required": ["command"],
            }),
        )]
    }

    fn parse(&mut self, reply: Reply) -> Result<Outcome, PluginError> {
        let calls = reply.message.tool_calls;
        if calls.is_empty() {
            return Ok(malformed(
                "no-tool-call",
                NO_CALLS,
                false,
                &reply.finish_reason,
            ));
        }
        let mut actions = Vec::with_capacity(calls.len());
        for call in calls {
            // At the first invalid call the parser stops, and the valid calls before it do not run:
            // running a part of the model's plan is worse than running nothing.
            match command(&call) {
                Ok(command) => actions.push(Action::for_call(call.id, command)),
                Err(message) => {
                    return Ok(malformed(
                        "bad-tool-call",
                        &message,
                        true,
                        &reply.finish_reason,
                    ));
                }
            }
        }
        Ok(Outcome::Actions(actions))
    }
}

fn malformed(code: &str, message: &str, has_tool_calls: bool, finish_reason: &str) -> Outcome {
    Problem::new(code, message)
        .details(&json!({
            "actions": [],
            "has_tool_calls": has_tool_calls,
            "finish_reason": finish_reason,
        }))
        .into()
}

/// The command of one call, or all errors of the call. The errors follow each other without a
/// blank, as in mini-swe-agent.
fn command(call: &ToolCall) -> Result<String, String> {
    let mut complaints = String::new();
    let arguments = match python_json::parse(&call.arguments) {
        Ok(document) => {
            if document.lone_surrogates > 0 {
                host::log(
                    Level::Warn,
                    &format!(
                        "tool call `{}` has {} lone surrogates, which became U+FFFD",
                        call.id, document.lone_surrogates
                    ),
                );
            }
            document.value
        }
        Err(error) => {
            complaints = format!("Error parsing tool call arguments: {error}.");
            Value::Object(Vec::new())
        }
    };
    if call.name != "bash" {
        let name = match call.name.as_str() {
            "" => "None",
            name => name,
        };
        complaints.push_str(&format!("Unknown tool '{name}'."));
    }
    let entries = match arguments {
        Value::Object(entries) => entries,
        Value::String(_) | Value::Other => Vec::new(),
    };
    let last = entries.into_iter().rev().find(|(key, _)| key == "command");
    match last {
        None => complaints.push_str(NO_COMMAND),
        Some((_, Value::String(command))) if complaints.is_empty() => return Ok(command),
        Some((_, Value::String(_))) => {}
        // mini-swe-agent accepts these and fails when it runs them.
        Some(_) => complaints.push_str(NO_STRING),
    }
    Err(complaints)
}

mswea_sdk::export!(parser: Toolcall);

#[cfg(test)]
mod tests {
    use super::*;
    use mswea_sdk::testing::{parse, parse_commands, reply_calls, reply_text, take_log};

    /// Tests malformed JSON in a call of `bash`.
    fn bad(reason: &str) -> Result<Vec<String>, String> {
        Err(format!(
            "Error parsing tool call arguments: {reason}.{NO_COMMAND}"
        ))
    }

    fn good(command: &str) -> Result<Vec<String>, String> {
        Ok(vec![command.to_owned()])
    }

    #[test]
    fn arguments() {
        let name = "Expecting property name enclosed in double quotes";
        let no_command = || Err(NO_COMMAND.to_owned());
        let no_string = || Err(NO_STRING.to_owned());
        for (arguments, expected) in [
            (r#"{"command": "ls"}"#, good("ls")),
            ("\n { \"command\" :\r\n\t\"ls\" } \n", good("ls")),
            (r#"{"command": "ls","timeout":3}"#, good("ls")),
            (r#"{"command":"a","command":"b"}"#, good("b")),
            (r#"{"command": ""}"#, good("")),
            (r#"{"command": null}"#, no_string()),
            (r#"{"command": 5}"#, no_string()),
            (r#"{"command": ["ls"]}"#, no_string()),
            (r#"{"command": NaN}"#, no_string()),
            (r#"{"command":"a","command":5}"#, no_string()),
            (r#"{"command": "\ud800"}"#, good("\u{fffd}")),
            ("", bad("Expecting value: line 1 column 1 (char 0)")),
            ("ls -la", bad("Expecting value: line 1 column 1 (char 0)")),
            (
                r#"{"command": "ls"#,
                bad("Unterminated string starting at: line 1 column 13 (char 12)"),
            ),
            (
                r#"{"command": "#,
                bad("Expecting value: line 1 column 13 (char 12)"),
            ),
            (
                "{'command': 'ls'}",
                bad(&format!("{name}: line 1 column 2 (char 1)")),
            ),
            (
                r#"{"command": "ls",}"#,
                bad(&format!("{name}: line 1 column 18 (char 17)")),
            ),
            (
                r#"{"command":"a"}{"command":"b"}"#,
                bad("Extra data: line 1 column 16 (char 15)"),
            ),
            (
                "{\"command\": \"l\ns\"}",
                bad("Invalid control character at: line 1 column 15 (char 14)"),
            ),
            (
                r#"{"command": "a\d"}"#,
                bad(r"Invalid \escape: line 1 column 15 (char 14)"),
            ),
            (
                r#"{"command": "\u12"}"#,
                bad(r"Invalid \uXXXX escape: line 1 column 15 (char 14)"),
            ),
            (
                "\u{feff}{\"command\": \"ls\"}",
                bad("Unexpected UTF-8 BOM (decode using utf-8-sig): line 1 column 1 (char 0)"),
            ),
            ("{}", no_command()),
            (r#"["command"]"#, no_command()),
            (r#""command""#, no_command()),
            ("1", no_command()),
            ("null", no_command()),
            (r#"{"Command":"ls"}"#, no_command()),
        ] {
            let reply = reply_calls(&[("1", "bash", arguments)]);
            assert_eq!(
                parse_commands(&mut Toolcall, reply),
                expected,
                "{arguments}"
            );
        }
    }

    #[test]
    fn names() {
        let ls = r#"{"command":"ls"}"#;
        let broken =
            "Error parsing tool call arguments: Expecting value: line 1 column 1 (char 0).";
        for (name, arguments, expected) in [
            ("python", ls, "Unknown tool 'python'.".to_owned()),
            ("Bash", ls, "Unknown tool 'Bash'.".to_owned()),
            ("", ls, "Unknown tool 'None'.".to_owned()),
            (
                "python",
                r#"{"code":"ls"}"#,
                format!("Unknown tool 'python'.{NO_COMMAND}"),
            ),
            (
                "python",
                "x",
                format!("{broken}Unknown tool 'python'.{NO_COMMAND}"),
            ),
        ] {
            let reply = reply_calls(&[("1", name, arguments)]);
            assert_eq!(parse_commands(&mut Toolcall, reply), Err(expected));
        }
    }

    #[test]
    fn calls_become_actions_with_their_ids() {
        let reply = reply_calls(&[
            ("a", "bash", r#"{"command":"ls"}"#),
            ("b", "bash", r#"{"command":"pwd"}"#),
        ]);
        let expected = vec![Action::for_call("a", "ls"), Action::for_call("b", "pwd")];
        assert_eq!(parse(&mut Toolcall, reply), Ok(expected));
    }

    #[test]
    fn the_first_bad_call_ends_it() {
        let good = ("1", "bash", r#"{"command":"ls"}"#);
        for (calls, expected) in [
            ([good, ("2", "bash", "{}")], NO_COMMAND),
            ([("1", "bash", "{}"), ("2", "x", "{}")], NO_COMMAND),
            (
                [("1", "x", r#"{"command":"ls"}"#), ("2", "bash", "{}")],
                "Unknown tool 'x'.",
            ),
        ] {
            let found = parse(&mut Toolcall, reply_calls(&calls));
            let problem = found.expect_err("one call is bad");
            assert_eq!(problem.message, expected);
            assert_eq!(problem.code, "bad-tool-call");
            assert_eq!(
                problem.details.as_deref(),
                Some(r#"{"actions":[],"has_tool_calls":true,"finish_reason":"tool_calls"}"#)
            );
        }
    }

    #[test]
    fn no_call_at_all() {
        let problem = parse(&mut Toolcall, reply_text("ls")).expect_err("there is no call");
        assert_eq!(problem.message, NO_CALLS);
        assert_eq!(
            problem.details.as_deref(),
            Some(r#"{"actions":[],"has_tool_calls":false,"finish_reason":"stop"}"#)
        );
    }

    #[test]
    fn lone_surrogates_are_noted() {
        take_log();
        let reply = reply_calls(&[("c1", "bash", r#"{"command": "\ud800"}"#)]);
        assert!(parse(&mut Toolcall, reply).is_ok());
        let log = take_log();
        assert!(
            log.iter()
                .any(|(level, text)| *level == Level::Warn && text.contains("`c1`"))
        );
    }
}

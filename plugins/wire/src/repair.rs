//! Calls that servers have garbled: repaired where only one meaning is possible.

use std::collections::BTreeSet;

use mswea_sdk::types::{Tool, ToolCall};
use serde::de::IgnoredAny;
use serde_json::Value;

/// Gives an id to each call without one, and another id to each call that has the id of an earlier
/// one: results are matched to calls by their ids. `new` makes the id of the call at an index.
pub fn give_ids(calls: &mut [ToolCall], new: impl Fn(usize) -> String) {
    let mut known = BTreeSet::new();
    for (index, call) in calls.iter_mut().enumerate() {
        if call.id.is_empty() || known.contains(&call.id) {
            call.id = new(index);
        }
        known.insert(call.id.clone());
    }
}

/// Repairs names and arguments; returns whether a call is left that no repair fits and that the
/// model has hardly written so. Whole answers (`is_stream` is false) keep their arguments.
pub fn repair(calls: &mut [ToolCall], tools: &[Tool], is_stream: bool) -> bool {
    let mut is_doubtful = false;
    for call in calls {
        is_doubtful |= repair_name(&mut call.name, tools);
        is_doubtful |= is_stream && repair_arguments(&mut call.arguments);
    }
    is_doubtful
}

/// Servers that don't split off a model's special tokens send them with the name:
/// `bash<|channel|>commentary`, `functions.bash:0`. Returns whether there are such tokens and no
/// tool's name, or several.
fn repair_name(name: &mut String, tools: &[Tool]) -> bool {
    if tools.is_empty() || tools.iter().any(|tool| tool.name == *name) {
        return false;
    }
    let is_letter = |c: char| c.is_alphanumeric() || matches!(c, '_' | '-');
    let words = name.split(|c| !is_letter(c));
    let words: BTreeSet<&str> = words.collect();
    let mut named = tools.iter().filter(|tool| words.contains(&*tool.name));
    match (named.next(), named.next()) {
        (Some(tool), None) => {
            name.clone_from(&tool.name);
            false
        }
        _ => name.contains("<|"),
    }
}

/// How many places of a text are tried as the beginning of the complete arguments.
const MOST_PLACES: usize = 64;

/// Servers send arguments twice: in pieces, and once more as a whole. Returns whether an object is
/// followed by something else.
fn repair_arguments(arguments: &mut String) -> bool {
    if arguments.is_empty() || serde_json::from_str::<IgnoredAny>(arguments).is_ok() {
        return false;
    }
    let mut values = serde_json::Deserializer::from_str(arguments).into_iter::<Value>();
    if let Some(Ok(first @ Value::Object(_))) = values.next() {
        let end = values.byte_offset();
        let is_repeated = values.all(|value| value.is_ok_and(|value| value == first));
        if is_repeated {
            arguments.truncate(end);
        }
        return !is_repeated;
    }
    // The beginning, and then the whole.
    let places = arguments.match_indices('{').map(|(at, _)| at);
    let whole = places.skip(1).take(MOST_PLACES).find(|at| {
        let (begun, whole) = arguments.split_at(*at);
        whole.starts_with(begun) && serde_json::from_str::<IgnoredAny>(whole).is_ok()
    });
    if let Some(at) = whole {
        arguments.drain(..at);
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{bash_tool, call};

    #[test]
    fn names_lose_what_is_no_name() {
        let submit = Tool {
            name: "submit".to_owned(),
            ..bash_tool()
        };
        let tools = [bash_tool(), submit];
        for (name, expected, is_doubtful) in [
            ("bash", "bash", false),
            ("bash<|channel|>commentary", "bash", false),
            ("bash<|channel|>json<|constrain|>", "bash", false),
            (
                "<|start|>assistant<|channel|>commentary to=functions.bash",
                "bash",
                false,
            ),
            ("functions.bash", "bash", false),
            ("functions.bash:0", "bash", false),
            ("bash\n", "bash", false),
            ("bash ", "bash", false),
            ("bash<|channel|>submit", "bash<|channel|>submit", true),
            (
                "other<|channel|>commentary",
                "other<|channel|>commentary",
                true,
            ),
            // Names that the model has made up.
            ("bash_command", "bash_command", false),
            ("my-bash", "my-bash", false),
            ("Bash", "Bash", false),
            ("", "", false),
        ] {
            let mut calls = [call("c", name, "{}")];
            assert_eq!(repair(&mut calls, &tools, true), is_doubtful, "{name}");
            assert_eq!(calls[0].name, expected);
            let mut calls = [call("c", name, "{}")];
            assert!(!repair(&mut calls, &[], true));
            assert_eq!(calls[0].name, name);
        }
    }

    #[test]
    fn arguments_that_came_twice_are_used_once() {
        for (arguments, expected, is_doubtful) in [
            (r#"{"a": 1}"#, r#"{"a": 1}"#, false),
            (r#"{"a": 1}{"a":1}"#, r#"{"a": 1}"#, false),
            (r#"{"a": 1} {"a":1}{"a": 1}"#, r#"{"a": 1}"#, false),
            (r#"{"a": 1{"a": 1}"#, r#"{"a": 1}"#, false),
            (
                r#"{"a": {"b{"a": {"b": "{"}}"#,
                r#"{"a": {"b": "{"}}"#,
                false,
            ),
            (r#"{"a": 1}{"a":2}"#, r#"{"a": 1}{"a":2}"#, true),
            (r#"{"a": 1}{"a""#, r#"{"a": 1}{"a""#, true),
            (r#"{"a": 1}x"#, r#"{"a": 1}x"#, true),
            // What a model writes that makes mistakes.
            (r#"{"a": "b"#, r#"{"a": "b"#, false),
            ("ls", "ls", false),
            ("", "", false),
            ("{\"a\": \"x\n{}\"}", "{\"a\": \"x\n{}\"}", false),
        ] {
            let mut calls = [call("c", "bash", arguments)];
            assert_eq!(repair(&mut calls, &[], true), is_doubtful, "{arguments}");
            assert_eq!(calls[0].arguments, expected);
            let mut calls = [call("c", "bash", arguments)];
            assert!(!repair(&mut calls, &[], false));
            assert_eq!(calls[0].arguments, arguments);
        }
    }

    #[test]
    fn every_call_has_an_id_of_its_own() {
        let mut calls = ["a", "", "a", "b", "a"].map(|id| call(id, "bash", ""));
        give_ids(&mut calls, |index| format!("new_{index}"));
        assert_eq!(
            calls.map(|call| call.id),
            ["a", "new_1", "new_2", "b", "new_4"]
        );
    }
}

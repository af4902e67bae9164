//! `run-replay`: the replies of a recorded run, and its configuration.

use std::path::Path;

use serde_json::{Value, json};

use crate::fault::{SweAgentError, SweAgentProblem};
use crate::given_at::GivenAt;
use crate::keys::{self, SweCommand};
use crate::trajectory;
use crate::tree::{GivenTree, read_yaml_file};

/// A recorded run.
#[derive(Clone, Debug, PartialEq)]
pub struct RecordedRun {
    /// Its configuration, without the model.
    pub tree: GivenTree,
    /// Its replies, for the adapter `replay`.
    pub replies: Value,
}

/// Reads a trajectory, or a demonstration (`*.yaml`). The files of `updates` replace sections of
/// its configuration.
///
/// # Errors
/// [`SweAgentError`] if it can't be read, or has no replies or no configuration.
pub fn recorded(path: &Path, updates: &[String]) -> Result<RecordedRun, SweAgentError> {
    let name = path.display().to_string();
    let is_yaml = path
        .extension()
        .is_some_and(|it| it == "yaml" || it == "yml");
    let read = match is_yaml {
        true => read_yaml_file(path)?.value(),
        false => trajectory::read(path)?,
    };
    let mut config = match &read["replay_config"] {
        Value::String(text) => mswea_text::read_json(text.as_bytes()).unwrap_or(Value::Null),
        other => other.clone(),
    };
    check_maps(&config).map_err(|why| SweAgentProblem::new(format!("`{name}`: {why}")))?;
    for update in updates {
        let Value::Object(more) = read_yaml_file(Path::new(update))?.value() else {
            continue;
        };
        for (section, mut value) in more {
            if section == "agent"
                && let Value::Object(agent) = &mut value
                && !agent.contains_key("model")
            {
                agent.insert("model".to_owned(), config["agent"]["model"].clone());
            }
            config[section] = value;
        }
        check_maps(&config).map_err(|why| SweAgentProblem::new(format!("`{update}`: {why}")))?;
    }
    if !config.is_object() {
        let problem = SweAgentProblem::new(format!("`{name}` has no `replay_config`"));
        let hint = "trajectories before SWE-agent 1.0, and those of attempts, can't be replayed";
        return Err(problem.hint(hint).into());
    }
    let parser = config
        .pointer("/agent/tools/parse_function/type")
        .and_then(Value::as_str);
    let parser = parser.unwrap_or("function_calling").to_owned();
    let replies = replies(&read["history"], &parser).map_err(|why| {
        SweAgentProblem::new(format!("`{name}`: {why}"))
            .hint("`--update_config FILE` changes `agent.tools.parse_function.type`")
    })?;
    config["agent"]["model"] = json!({"name": "replay"});
    // Values that SWE-agent has computed from the bundles.
    if let Some(Value::Object(tools)) = config.pointer_mut("/agent/tools") {
        for key in [
            "command_docs",
            "multi_line_command_endings",
            "submit_command_end_name",
        ] {
            tools.remove(key);
        }
    }
    for bundle in config
        .pointer_mut("/agent/tools/bundles")
        .and_then(Value::as_array_mut)
        .into_iter()
        .flatten()
    {
        let moved = bundle["path"].as_str().and_then(from_elsewhere);
        if let Some(moved) = moved {
            bundle["path"] = moved.into();
        }
    }
    let at = GivenAt::File {
        path: name,
        line: 1,
        column: 1,
    };
    let tree = GivenTree::of_value(config, &at);
    keys::check_tree(SweCommand::Run, &tree)?;
    Ok(RecordedRun { tree, replies })
}

/// The name of a bundle of SWE-agent's own, from its path on the machine that recorded the run.
fn from_elsewhere(path: &str) -> Option<String> {
    let (_, name) = path.trim_end_matches('/').rsplit_once("/tools/")?;
    let is_gone = !name.contains('/') && !Path::new(path).exists();
    is_gone.then(|| format!("tools/{name}"))
}

/// Whether a recorded configuration and its section `agent` are maps, or are missing.
fn check_maps(config: &Value) -> Result<(), String> {
    let is_map = |value: &Value| value.is_object() || value.is_null();
    match (
        is_map(config),
        is_map(config.get("agent").unwrap_or(&Value::Null)),
    ) {
        (true, true) => Ok(()),
        (false, _) => Err("`replay_config` is no map".to_owned()),
        (true, false) => Err("`agent` of the configuration is no map".to_owned()),
    }
}

fn replies(history: &Value, parser: &str) -> Result<Value, String> {
    let calls_tools = parser == "function_calling";
    let items = history.as_array().ok_or("it has no `history`")?;
    let mut replies = Vec::new();
    for (index, item) in items.iter().enumerate() {
        if item["role"] != "assistant" {
            continue;
        }
        let calls = item["tool_calls"].as_array();
        match (calls, calls_tools) {
            (Some(_), false) => {
                return Err(format!(
                    "item {index} calls a tool, and the parser `{parser}` takes none"
                ));
            }
            (None, true) => {
                return Err(format!(
                    "item {index} calls no tool, and the parser `{parser}` needs one"
                ));
            }
            _ => {}
        }
        let mut reply = json!({"content": text(&item["content"])});
        if let Some(calls) = calls {
            let calls = calls.iter().map(|call| {
                let function = &call["function"];
                let arguments = match &function["arguments"] {
                    Value::String(text) => text.clone(),
                    other => other.to_string(),
                };
                let mut made = json!({"name": function["name"], "arguments": arguments});
                if let Some(id) = call["id"].as_str() {
                    made["id"] = id.into();
                }
                made
            });
            reply["tool_calls"] = calls.collect();
        }
        replies.push(reply);
    }
    if replies.is_empty() {
        return Err("it has no replies".to_owned());
    }
    // When all replies are used, the work is submitted.
    replies.push(match parser {
        "function_calling" => {
            json!({"content": "", "tool_calls": [{"name": "submit", "arguments": "{}"}]})
        }
        "single_bash_code_block" | "all_bash_code_blocks" => {
            json!({"content": "```bash\nsubmit\n```"})
        }
        "action" | "action_only" | "identity" => json!({"content": "submit"}),
        "xml_thought_action" => json!({"content": "<command>submit</command>"}),
        _ => json!({"content": "```\nsubmit\n```"}),
    });
    Ok(replies.into())
}

/// The text of a message, whose content is a text or a list of parts.
fn text(content: &Value) -> String {
    match content {
        Value::String(text) => text.clone(),
        Value::Array(parts) => parts
            .iter()
            .filter_map(|part| part["text"].as_str())
            .collect(),
        _ => String::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn configurations_of_other_types_are_told() {
        let folder = tempfile::tempdir().unwrap();
        let file = |name: &str, text: &str| {
            let path = folder.path().join(name);
            std::fs::write(&path, text).unwrap();
            path
        };
        let update = file("u.yaml", "agent: x\n").display().to_string();
        let updates = [update];
        for (config, updates, part) in [
            ("[1]", &[][..], "`replay_config` is no map"),
            ("\"[1]\"", &[], "`replay_config` is no map"),
            ("5", &updates, "`replay_config` is no map"),
            (
                "{\"agent\": 5}",
                &[],
                "`agent` of the configuration is no map",
            ),
            (
                "{\"agent\": [1]}",
                &updates,
                "`agent` of the configuration is no map",
            ),
            (
                "{}",
                &updates,
                "u.yaml`: `agent` of the configuration is no map",
            ),
        ] {
            let text = format!(
                r#"{{"history": [{{"role": "assistant", "tool_calls": [5]}}], "replay_config": {config}}}"#
            );
            let told = recorded(&file("a.traj", &text), updates).unwrap_err();
            assert!(told.to_string().contains(part), "{config}: {told}");
        }
    }
}

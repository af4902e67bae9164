//! `run-replay`: the replies of a recorded run, and its configuration.

use std::path::Path;

use serde_json::{Value, json};

use crate::fault::{SweAgentError, SweAgentProblem};
use crate::given_at::GivenAt;
use crate::keys::{self, SweCommand};
use crate::trajectory;
use crate::tree::{GivenContent, GivenTree, read_yaml_file};

/// A recorded run.
#[derive(Clone, Debug, PartialEq)]
pub struct RecordedRun {
    /// Its configuration, without the model.
    pub tree: GivenTree,
    /// The place of all values that the record has set, and no file of `updates`.
    pub at: GivenAt,
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
    let config = match &read["replay_config"] {
        Value::String(text) => mswea_text::read_json(text.as_bytes()).map_err(|error| {
            SweAgentProblem::new(format!("`{name}`: `replay_config` is no JSON: {error}"))
        })?,
        other => other.clone(),
    };
    let at = GivenAt::Record(name.clone());
    let is_recorded = config.is_object();
    let mut tree = GivenTree::of_value(config, &at);
    check_maps(&tree).map_err(|why| SweAgentProblem::new(format!("`{name}`: {why}")))?;
    if !is_recorded && updates.is_empty() {
        let problem = SweAgentProblem::new(format!("`{name}` has no `replay_config`"));
        let hint = "trajectories before SWE-agent 1.0, and those of attempts, can't be replayed";
        return Err(problem.hint(hint).into());
    }
    for update in updates {
        let more = read_yaml_file(Path::new(update))?;
        for (section, value) in more.entries() {
            tree.remove(&[section]);
            tree.merge(value.clone().below(&[section]));
        }
        check_maps(&tree).map_err(|why| SweAgentProblem::new(format!("`{update}`: {why}")))?;
    }
    for key in ["agent.agent_configs", "agent.retry_loop"] {
        if let Some(given) = tree.given(key) {
            let problem =
                SweAgentProblem::at(&given.at, "a run of several attempts can't be replayed");
            return Err(problem
                .hint("write the `agent` of one of them into a file, and name it with `--update_config`")
                .into());
        }
    }
    let parser = tree.given("agent.tools.parse_function.type");
    let parser = parser
        .and_then(GivenTree::text)
        .unwrap_or("function_calling");
    let replies = replies(&read["history"], parser).map_err(|why| {
        SweAgentProblem::new(format!("`{name}`: {why}"))
            .hint("`--update_config FILE` changes `agent.tools.parse_function.type`")
    })?;
    tree.remove(&["agent", "model"]);
    tree.merge(GivenTree::of_value("replay".into(), &at).below(&["agent", "model", "name"]));
    // Values that SWE-agent has computed from the bundles.
    for key in [
        "command_docs",
        "multi_line_command_endings",
        "submit_command_end_name",
    ] {
        tree.remove(&["agent", "tools", key]);
    }
    if let Some(bundles) = tree.get_mut(&["agent", "tools", "bundles"]) {
        bundles.each_item(|bundle| {
            if let Some(path) = bundle.get_mut(&["path"])
                && let Some(moved) = path.text().and_then(from_elsewhere)
            {
                path.content = GivenContent::Leaf(moved.into());
            }
        });
    }
    keys::check_tree(SweCommand::Run, &tree)?;
    Ok(RecordedRun { tree, at, replies })
}

/// The name of a bundle of SWE-agent's own, from its path on the machine that recorded the run.
fn from_elsewhere(path: &str) -> Option<String> {
    let (_, name) = path.trim_end_matches('/').rsplit_once("/tools/")?;
    let is_gone = !name.contains('/') && !Path::new(path).exists();
    is_gone.then(|| format!("tools/{name}"))
}

/// Whether a recorded configuration and its section `agent` are maps, or are missing.
fn check_maps(config: &GivenTree) -> Result<(), String> {
    let is_map = |tree: Option<&GivenTree>| {
        tree.is_none_or(|it| it.is_null() || matches!(it.content, GivenContent::Map(_)))
    };
    match (is_map(Some(config)), is_map(config.get(&["agent"]))) {
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
                "\"{]\"",
                &updates,
                "a.traj`: `replay_config` is no JSON: key must be a string at line 1 column 2",
            ),
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

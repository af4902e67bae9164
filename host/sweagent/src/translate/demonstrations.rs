//! `agent.templates.demonstrations`: recorded runs that the model gets before the task, each as one
//! text, or (`put_demos_in_history`) as its messages.

use serde_json::{Map, Value, json};

use super::TranslationWork;
use super::templates::TemplateNames;
use crate::bundles;
use crate::fault::SweAgentProblem;
use crate::flags::expand;
use crate::trajectory::{self, RECORDED};
use crate::tree::{GivenTree, read_yaml_file};

/// Translates the demonstrations.
pub(super) fn demonstrations(work: &mut TranslationWork<'_>) {
    let names = TemplateNames::of(work);
    let paths = work.texts("agent.templates.demonstrations");
    let Some(tree) = work
        .given("agent.templates.demonstrations")
        .filter(|_| !paths.is_empty())
    else {
        return;
    };
    let in_history = work.given("agent.templates.put_demos_in_history");
    let in_history = in_history.is_some_and(|it| it.value() == true);
    let template = work.text("agent.templates.demonstration_template");
    if !in_history && template.is_none() {
        let hint = "set `agent.templates.demonstration_template`, with `{{demonstration}}` in it, or `agent.templates.put_demos_in_history`";
        work.refuse(&tree.at, "the demonstrations have no template", hint);
        return;
    }
    let mut messages = Vec::new();
    for (path, item) in paths.iter().zip(tree.items()) {
        let read = read(path, item, work.input.variable).and_then(|history| {
            match (in_history, template) {
                (false, Some(template)) => {
                    Ok(vec![as_text(path, &history, &names.over(template))?])
                }
                _ => history
                    .iter()
                    .map(|entry| as_message(path, entry))
                    .collect(),
            }
        });
        match read {
            Ok(read) => messages.extend(read),
            Err(problem) => work.refuse(&item.at, problem, "leave it out, or correct the file"),
        }
    }
    work.put(
        "agent.demonstrations",
        json!({"messages": messages}),
        &tree.at,
    );
}

/// The history of a demonstration, without the system message.
fn read(
    path: &str,
    item: &GivenTree,
    variable: &dyn Fn(&str) -> Option<String>,
) -> Result<Vec<Value>, String> {
    let words = |problem: SweAgentProblem| problem.to_string();
    let path = expand(path, variable).map_err(words)?;
    let path = &bundles::located_file(&path, &item.at, variable);
    if !path.is_file() {
        let searched = bundles::searched(&item.at);
        return Err(format!(
            "there is no demonstration `{}` ({searched})",
            path.display()
        ));
    }
    let mut read = match path.extension().is_some_and(|it| it == "yaml") {
        true => read_yaml_file(path)
            .map(|tree: GivenTree| tree.value())
            .map_err(|error| error.to_string())?,
        false => trajectory::read(path).map_err(words)?,
    };
    match read["history"].take() {
        Value::Array(mut history) => {
            history.retain(|item| item["role"] != "system");
            Ok(history)
        }
        _ => Err(format!(
            "the demonstration `{}` has no `history`",
            path.display()
        )),
    }
}

/// All texts of the history, in a template.
fn as_text(path: &str, history: &[Value], template: &str) -> Result<Value, String> {
    let texts: Vec<&str> = history
        .iter()
        .filter_map(|item| item["content"].as_str())
        .collect();
    match texts.is_empty() {
        true => Err(format!("the demonstration `{path}` has no texts")),
        false => {
            let text = Value::from(texts.join("\n"));
            Ok(json!({"template": format!("{{% set demonstration = {text} %}}{template}")}))
        }
    }
}

/// An item of the history as a message.
fn as_message(path: &str, item: &Value) -> Result<Value, String> {
    const KNOWN: &[&str] = &["role", "content", "tool_calls", "tool_call_ids"];
    let (Some(entries), Some(role)) = (item.as_object(), item["role"].as_str()) else {
        return Err(format!(
            "an item of the demonstration `{path}` has no `role`"
        ));
    };
    if !["user", "assistant", "tool"].contains(&role) {
        return Err(format!(
            "an item of the demonstration `{path}` has the role `{role}`"
        ));
    }
    let content: Vec<Value> = match &item["content"] {
        Value::String(text) => vec![json!({"type": "text", "text": text})],
        Value::Array(parts) => parts.iter().map(part).collect(),
        _ => Vec::new(),
    };
    let calls = item["tool_calls"].as_array().into_iter().flatten();
    let calls = calls.map(|call| {
        let function = &call["function"];
        let arguments = match &function["arguments"] {
            Value::String(text) => text.clone(),
            other => other.to_string(),
        };
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        json!({"id": text(&call["id"]), "name": text(&function["name"]), "arguments": arguments})
    });
    let calls: Vec<Value> = calls.collect();
    let others = entries
        .iter()
        .filter(|(key, _)| !KNOWN.contains(&key.as_str()));
    let others: Map<String, Value> = others.map(|(k, v)| (k.clone(), v.clone())).collect();
    let mut extra = json!({RECORDED: others});
    for key in ["message_type", "tags"] {
        if let Some(value) = item.get(key) {
            extra[key] = value.clone();
        }
    }
    let mut message = json!({"role": role, "content": content, "extra": extra});
    if !calls.is_empty() {
        message["tool_calls"] = calls.into();
    }
    if let Some(id) = item["tool_call_ids"][0].as_str() {
        message["tool_call_id"] = id.into();
    }
    Ok(message)
}

/// A part of a message's content.
fn part(part: &Value) -> Value {
    match part["image_url"]["url"].as_str() {
        Some(url) => json!({"type": "image", "url": url}),
        None => json!({"type": "text", "text": part["text"].as_str().unwrap_or_default()}),
    }
}

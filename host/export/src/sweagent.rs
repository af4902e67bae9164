//! Trajectories of SWE-agent (`*.traj`), read and written.

use mswea_core::Usage;
use serde_json::{Value, json};

use crate::conversation::{Conversation, ConversationStep, RecordedCall, ShownResult, StepSource};
use crate::markdown::command;

/// Whether a file's content is a trajectory of SWE-agent.
pub fn is_sweagent(value: &Value) -> bool {
    let has_steps = value.get("trajectory").is_some_and(Value::is_array)
        && value.get("info").is_some_and(Value::is_object);
    // Some of its files have the history alone.
    let has_history =
        || value.get("history").is_some_and(Value::is_array) && value.get("trajectory").is_none();
    (has_steps || has_history()) && value.get("messages").is_none()
}

/// The run of a trajectory of SWE-agent. It has neither times nor the tokens of single steps.
pub fn from_sweagent(value: &Value) -> Conversation {
    let info = &value["info"];
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let count = |key: &str| info["model_stats"][key].as_u64().unwrap_or_default();
    let history = value["history"].as_array().cloned().unwrap_or_default();
    let (opening, all) = match value["trajectory"].as_array() {
        Some(all) => (history, all.clone()),
        None => steps_of_history(history),
    };
    let task = opening
        .iter()
        .find(|it| it["role"] == "user" && it["is_demo"] != true);
    let task = task.map(|it| content(&it["content"]));
    let mut steps = prompts(&opening);
    steps.extend(all.iter().enumerate().map(|(number, it)| step(number, it)));
    // All zero if they were not counted.
    let calls = info["model_stats"]["api_calls"]
        .as_u64()
        .filter(|it| *it > 0);
    let cost = info["model_stats"]["instance_cost"].as_f64();
    Conversation {
        run_id: text(&value["environment"]),
        program: ("SWE-agent".to_owned(), text(&info["swe_agent_version"])),
        model: replayed_model(&replayed_config(&value["replay_config"])),
        format: "SWE-agent".to_owned(),
        plugins: Vec::new(),
        steps,
        usage: Usage {
            input_tokens: count("tokens_sent"),
            output_tokens: count("tokens_received"),
            ..Usage::default()
        },
        cost: cost.filter(|it| calls.is_some() || *it > 0.0),
        exit_status: info["exit_status"].as_str().map(str::to_owned),
        submission: text(&info["submission"]),
        failure: info["error"].as_str().map(str::to_owned),
        queries: calls,
        task: task.unwrap_or_default(),
        ..Conversation::default()
    }
}

/// The run in SWE-agent's format. It lacks the state of the environment, which is not recorded, and
/// the messages of each query, which are those of the history before it. `mswea-host sweagent`
/// writes complete trajectories itself.
pub fn to_sweagent(run: &Conversation) -> Value {
    let mut history: Vec<Value> = Vec::new();
    let mut trajectory: Vec<Value> = Vec::new();
    for step in &*run.told() {
        history.push(said(step));
        let mut observation = Vec::new();
        for shown in &step.shown {
            observation.push(shown.text.as_str());
            if !shown.is_unseen {
                history.push(observed(shown, step));
            }
        }
        if step.source == StepSource::Agent && step.is_reply {
            let seconds = step.shown.iter().filter_map(|it| it.seconds);
            trajectory.push(json!({
                "action": actions(step),
                "observation": observation.join("\n"),
                "response": step.text,
                "thought": step.text,
                "execution_time": seconds.sum::<f64>(),
                "state": {},
                // SWE-agent repeats the whole history here in each step.
                "query": [],
                "extra_info": {},
            }));
        }
    }
    let calls = run.steps.iter().filter(|step| step.is_reply).count() as u64;
    let submission = match run.submission.is_empty() {
        true => Value::Null,
        false => run.submission.as_str().into(),
    };
    let config = json!({ "agent": { "model": { "name": run.model } } });
    json!({
        "trajectory": trajectory,
        "history": history,
        "info": {
            "model_stats": {
                // SWE-agent adds these up, so an unknown cost has no other form.
                "instance_cost": run.cost.unwrap_or_default(),
                "tokens_sent": run.usage.input_tokens,
                "tokens_received": run.usage.output_tokens,
                "api_calls": calls.max(run.queries.unwrap_or_default()),
            },
            "submission": submission,
            // SWE-agent has no place for it.
            "error": run.failure,
            // SWE-agent's viewer shows the submission of a run that ended with this word.
            "exit_status": run.exit_status.as_deref().map(|it| if it == "Submitted" { "submitted" } else { it }),
        },
        // SWE-agent has a text with JSON here.
        "replay_config": config.to_string(),
        "environment": run.run_id,
    })
}

/// The commands of a step, one per line.
fn actions(step: &ConversationStep) -> String {
    let commands = step.calls.iter().map(|call| command(&call.arguments));
    commands.collect::<Vec<_>>().join("\n")
}

/// The message of a step, as an item of the history.
fn said(step: &ConversationStep) -> Value {
    let (role, kind) = match step.source {
        StepSource::System => ("system", "system_prompt"),
        StepSource::User => ("user", "observation"),
        StepSource::Agent => ("assistant", "action"),
    };
    let mut item = json!({
        "role": role, "content": content_of(&step.text, &step.images), "agent": "main", "message_type": kind,
    });
    if step.source == StepSource::Agent && !step.is_reply {
        // A part of a demonstration.
        item["is_demo"] = true.into();
    } else if step.source == StepSource::Agent {
        item["thought"] = step.text.as_str().into();
        item["action"] = actions(step).into();
    }
    let calls = step.calls.iter().filter(|call| !call.is_of_text);
    let calls: Vec<Value> = calls
        .map(|call| {
            json!({ "id": call.id, "type": "function",
                "function": { "name": call.name, "arguments": call.arguments.to_string() } })
        })
        .collect();
    if !calls.is_empty() {
        item["tool_calls"] = calls.into();
    }
    item
}

/// A result, as an item of the history.
fn observed(shown: &ShownResult, step: &ConversationStep) -> Value {
    let mut item = json!({
        "role": "user", "content": content_of(&shown.text, &shown.images), "agent": "main",
        "message_type": "observation",
    });
    let mut called = step.calls.iter().filter(|call| !call.is_of_text);
    if let Some(call) = called.find(|call| Some(&call.id) == shown.call.as_ref()) {
        item["role"] = "tool".into();
        item["tool_call_ids"] = json!([call.id]);
    }
    item
}

fn content_of(text: &str, images: &[String]) -> Value {
    if images.is_empty() {
        return text.into();
    }
    let images = images.iter();
    let images = images.map(|url| json!({ "type": "image_url", "image_url": { "url": url } }));
    std::iter::once(json!({ "type": "text", "text": text }))
        .chain(images)
        .collect()
}

/// The config with which the run can be repeated (`replay_config`), which is JSON or a text that holds JSON.
pub fn replayed_config(config: &Value) -> Value {
    match config {
        Value::String(text) => serde_json::from_str(text).unwrap_or_default(),
        config => config.clone(),
    }
}

/// The model in such a config; of several agents that of the first one.
pub fn replayed_model(config: &Value) -> Option<String> {
    let names = ["/agent/model/name", "/agent/agent_configs/0/model/name"];
    let mut names = names.iter().filter_map(|it| config.pointer(it)?.as_str());
    names.next().map(str::to_owned)
}

/// The messages before the first reply. Demonstrations are part of them.
fn prompts(history: &[Value]) -> Vec<ConversationStep> {
    let is_reply = |it: &&Value| it["role"] == "assistant" && it["is_demo"] != true;
    let prompts = history.iter().take_while(|it| !is_reply(it));
    let steps = prompts.map(|it| ConversationStep {
        source: match it["role"].as_str() {
            Some("system") => StepSource::System,
            Some("assistant") => StepSource::Agent,
            _ => StepSource::User,
        },
        text: content(&it["content"]),
        ..ConversationStep::default()
    });
    steps.collect()
}

/// The prompts in a part of SWE-agent's history, and the steps as its trajectory has them.
pub fn steps_of_history(items: Vec<Value>) -> (Vec<Value>, Vec<Value>) {
    let (mut prompts, mut steps) = (Vec::new(), Vec::<Value>::new());
    for mut item in items {
        let is_reply = item["role"] == "assistant" && item["is_demo"] != true;
        if is_reply {
            let said = json!(content(&item["content"]));
            let thought = item.get_mut("thought").map(Value::take);
            let thought = thought.filter(|it| it.as_str().is_some_and(|it| !it.is_empty()));
            let action = item.get_mut("action").map(Value::take);
            steps.push(
                json!({ "action": action, "thought": thought.unwrap_or(said), "observation": "" }),
            );
        } else if let Some(Value::String(shown)) =
            steps.last_mut().map(|step| &mut step["observation"])
        {
            if !shown.is_empty() {
                shown.push('\n');
            }
            shown.push_str(&content(&item["content"]));
        } else {
            prompts.push(item);
        }
    }
    (prompts, steps)
}

fn step(number: usize, it: &Value) -> ConversationStep {
    let text = |key: &str| it[key].as_str().unwrap_or_default().to_owned();
    let action = text("action");
    let thought = match text("thought") {
        thought if thought.is_empty() => text("response"),
        thought => thought,
    };
    let id = format!("action_{number}");
    let call = RecordedCall {
        id: id.clone(),
        name: "bash".to_owned(),
        arguments: json!({ "command": action.trim_end() }),
        is_of_text: true,
    };
    let has_action = !action.trim().is_empty();
    ConversationStep {
        source: StepSource::Agent,
        text: thought,
        calls: Vec::from_iter(has_action.then_some(call)),
        shown: vec![ShownResult {
            call: has_action.then_some(id),
            text: text("observation"),
            seconds: it["execution_time"].as_f64(),
            ..ShownResult::default()
        }],
        is_reply: true,
        ..ConversationStep::default()
    }
}

/// The text of a message, which may consist of parts.
fn content(value: &Value) -> String {
    match value {
        Value::Array(parts) => {
            let texts = parts.iter().filter_map(|it| it["text"].as_str());
            texts.collect::<Vec<_>>().join("\n")
        }
        value => value.as_str().unwrap_or_default().to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_trajectory_is_read() {
        let value = json!({
            "environment": "repo__1",
            "trajectory": [
                { "action": "ls\n", "observation": "a", "thought": "look", "response": "r", "execution_time": 0.5 },
                { "action": "", "observation": "no action", "thought": "", "response": "hm", "execution_time": 0.0 },
            ],
            "history": [
                { "role": "system", "content": "s" },
                { "role": "assistant", "content": "demo", "is_demo": true },
                { "role": "user", "content": [{ "type": "text", "text": "task" }] },
                { "role": "assistant", "content": "r" },
            ],
            "info": {
                "exit_status": "submitted", "submission": "diff", "swe_agent_version": "1.1.0",
                "model_stats": { "instance_cost": 0.5, "tokens_sent": 10, "tokens_received": 3, "api_calls": 2 },
            },
            "replay_config": "{\"agent\":{\"model\":{\"name\":\"m\"}}}",
        });
        assert!(is_sweagent(&value));
        let run = from_sweagent(&value);
        let texts: Vec<&str> = run.steps.iter().map(|step| step.text.as_str()).collect();
        assert_eq!(texts, ["s", "demo", "task", "look", "hm"]);
        assert_eq!(run.steps[3].calls[0].arguments["command"], "ls");
        assert_eq!(run.steps[3].shown[0].seconds, Some(0.5));
        assert_eq!(run.steps[4].calls.len(), 0);
        assert_eq!((run.cost, run.usage.input_tokens), (Some(0.5), 10));
        assert_eq!(run.model.as_deref(), Some("m"));
        assert_eq!(run.exit_status.as_deref(), Some("submitted"));
        assert!(!is_sweagent(&json!({ "messages": [], "info": {} })));
        // The written trajectory is read as the same run.
        let mut again = from_sweagent(&to_sweagent(&run));
        assert_eq!(again.program.1, "");
        again.program.1.clone_from(&run.program.1);
        // The file has only the role of a prompt.
        again.steps[..3].clone_from_slice(&run.steps[..3]);
        assert_eq!(again, run);
    }

    #[test]
    fn a_history_alone_is_a_run_and_a_demonstration_is_not_its_task() {
        let value = json!({"history": [
            {"role": "system", "content": "s"},
            {"role": "user", "content": "a demonstration", "is_demo": true},
            {"role": "assistant", "content": "shown", "is_demo": true},
            {"role": "user", "content": "the task"},
            {"role": "assistant", "content": "said", "thought": "thought", "action": "ls"},
            {"role": "user", "content": "file"},
            {"role": "assistant", "content": "done", "action": "submit"},
        ], "info": {"model_stats": {"instance_cost": 0.0, "api_calls": 0}}});
        assert!(is_sweagent(&value));
        let run = from_sweagent(&value);
        assert_eq!(
            (run.task.as_str(), run.cost, run.queries),
            ("the task", None, None)
        );
        let texts: Vec<&str> = run.steps.iter().map(|it| it.text.as_str()).collect();
        assert_eq!(
            texts,
            [
                "s",
                "a demonstration",
                "shown",
                "the task",
                "thought",
                "done"
            ]
        );
        assert_eq!(run.steps[4].shown[0].text, "file");
    }
}

//! SWE-agent's trajectory, made from the events of a journal.

use std::path::Path;

use serde_json::{Map, Value, json};

use mswea_core::{EDITED_FILES, Event, Message, Part, TOOL_STATE};
use mswea_record::journal::{self, JournalError, Record};
use mswea_run::SAMPLED;

use crate::fault::SweAgentProblem;

/// The most bytes of the queries of all steps together. Each query is the whole history at that
/// time, so their size grows with the square of the number of steps.
const LARGEST_QUERIES: usize = 64 << 20;
/// The approximate number of bytes of a message besides its texts.
const MESSAGE_BYTES: usize = 200;

/// The version of SWE-agent whose format is written.
const VERSION: &str = "1.1.0";
/// The key of a demonstration's message with the keys of the recorded message.
pub(crate) const RECORDED: &str = "recorded";
/// The line by which a tool asks for another reply, and for its output to be shown.
const RETRY_MARK: &str = "###SWE-AGENT-RETRY-WITH-OUTPUT###";
/// The files that the submission has modified, with different numbers of lines around the changes;
/// and the text if there are none.
pub(crate) const EDITED: [&str; 3] = ["edited_files30", "edited_files50", "edited_files70"];
const NOTHING_EDITED: &str = "Empty. No edited files found.";
/// The version of SWE-ReX that belongs to that version.
const REX_VERSION: &str = "1.4.0";

/// Makes the trajectory of the journal at `path`. `config` is the configuration of the run.
///
/// # Errors
/// [`JournalError`] if the journal can't be read.
pub fn trajectory(path: &Path, config: &Value, environment: &str) -> Result<Value, JournalError> {
    let log = journal::read(path)?;
    Ok(of_records(&log.records, config, environment))
}

/// Makes the trajectory of these records.
pub fn of_records(records: &[Record], config: &Value, environment: &str) -> Value {
    let mut book = Book::default();
    for record in records {
        book.take(record);
    }
    book.info.insert(
        "model_stats".to_owned(),
        json!({
            "instance_cost": book.cost,
            "tokens_sent": book.sent,
            "tokens_received": book.received,
            "api_calls": book.queries,
        }),
    );
    json!({
        "trajectory": book.steps,
        "history": book.history,
        "info": book.info,
        // In SWE-agent's format, this is a text with JSON.
        "replay_config": config.to_string(),
        "environment": environment,
    })
}

#[derive(Default)]
struct Book {
    steps: Vec<Value>,
    history: Vec<Value>,
    /// Feedback that is dropped with the next accepted reply.
    asked_again: Vec<Value>,
    info: Map<String, Value>,
    state: Map<String, Value>,
    open: Option<OpenEntry>,
    cost: f64,
    sent: u64,
    received: u64,
    queries: u32,
    /// The number of bytes in the queries of all steps.
    query_bytes: usize,
}

/// A step that has a reply.
struct OpenEntry {
    query: Value,
    reply: Message,
    action: String,
    thought: String,
    observation: String,
    started: f64,
    seconds: f64,
}

impl Book {
    fn take(&mut self, record: &Record) {
        match &record.event {
            Event::RunStarted { .. } => {
                for (key, value) in [
                    ("swe_agent_hash", "unavailable"),
                    ("swe_agent_version", VERSION),
                    ("swe_rex_version", REX_VERSION),
                    ("swe_rex_hash", "unavailable"),
                    ("mswea_host_version", env!("CARGO_PKG_VERSION")),
                ] {
                    self.info.insert(key.to_owned(), value.into());
                }
            }
            Event::Opening { messages } => {
                for message in messages {
                    self.history.push(match message.extra.get("is_demo") {
                        Some(_) => shown_item(message),
                        None if message.role == "system" => item(message, "system_prompt"),
                        None => item(message, "observation"),
                    });
                }
            }
            Event::Reply { reply, cost, .. } => {
                self.cost += cost.unwrap_or_default();
                if let Some(usage) = &reply.usage {
                    self.sent = self.sent.saturating_add(usage.input_tokens);
                    self.received = self.received.saturating_add(usage.output_tokens);
                }
                let how = reply.message.extra.get(SAMPLED);
                // Otherwise the reply answered a question.
                let is_own = how.is_none_or(|how| how.get("colleagues").is_some());
                self.queries += u32::from(is_own);
                self.open = Some(OpenEntry {
                    query: self.query(),
                    thought: reply.message.text(),
                    reply: reply.message.clone(),
                    action: String::new(),
                    observation: String::new(),
                    started: record.t,
                    seconds: 0.0,
                });
            }
            // The questions of history processors and samplers are paid, too.
            Event::AskReply { reply, cost, .. } => {
                self.queries += 1;
                self.cost += cost.unwrap_or_default();
                if let Some(usage) = &reply.usage {
                    self.sent = self.sent.saturating_add(usage.input_tokens);
                    self.received = self.received.saturating_add(usage.output_tokens);
                }
            }
            Event::QueryFailed {
                cost: Some(cost), ..
            } => self.cost += cost,
            Event::Accepted { actions } => self.accepted(actions),
            Event::Rejected {
                code,
                feedback,
                requery,
                ..
            } => {
                match (code.as_str(), &mut self.open) {
                    // The tool asks to forget the reply.
                    ("retry-without-output", open) => *open = None,
                    ("retry-with-output", Some(open)) => {
                        open.observation = open.observation.replace(RETRY_MARK, "");
                    }
                    _ => {}
                }
                self.close();
                let Some(requery) = requery else {
                    self.history
                        .extend(feedback.iter().map(|it| item(it, "user")));
                    return;
                };
                // An accepted reply is taken back.
                while self
                    .history
                    .last()
                    .is_some_and(|it| it["message_type"] == "action")
                {
                    self.history.pop();
                }
                self.asked_again = requery
                    .quote
                    .iter()
                    .map(|it| item(it, "assistant"))
                    .chain(feedback.iter().map(|it| item(it, "user")))
                    .collect();
            }
            Event::Action { .. } => {
                if let Some(open) = &mut self.open {
                    open.started = record.t;
                }
            }
            Event::Output { output, .. } => {
                if let Some(Value::Object(state)) = output.extra.get(TOOL_STATE) {
                    self.state.extend(state.clone());
                }
                if let Some(open) = &mut self.open {
                    open.seconds += (record.t - open.started).max(0.0);
                    open.observation.push_str(&output.output);
                }
            }
            Event::Observed { messages, .. } => {
                self.close();
                for message in messages {
                    self.history.push(item(message, "observation"));
                }
            }
            Event::Salvaged { output } => {
                if let Some(Value::Object(texts)) = output.extra.get(EDITED_FILES) {
                    self.info.extend(texts.clone());
                }
            }
            Event::RunEnded {
                exit_status,
                submission,
                ..
            } => self.ended(exit_status, submission),
            _ => {}
        }
    }

    fn accepted(&mut self, actions: &[mswea_core::Action]) {
        self.asked_again.clear();
        let Some(open) = &mut self.open else { return };
        let commands: Vec<&str> = actions.iter().map(|it| it.command.as_str()).collect();
        open.action = commands.join("\n");
        let thought = actions
            .first()
            .and_then(|it| it.extra.get("thought")?.as_str());
        if let Some(thought) = thought {
            open.thought = thought.to_owned();
        }
        let mut item = item(&open.reply, "action");
        item["thought"] = open.thought.as_str().into();
        item["action"] = open.action.as_str().into();
        item["thinking_blocks"] = json!([]);
        if item.get("tool_calls").is_none() {
            item["tool_calls"] = Value::Null;
        }
        self.history.push(item);
    }

    /// The messages of the next query; an empty list if the queries of all steps together would be
    /// too large.
    fn query(&mut self) -> Value {
        if self.query_bytes > LARGEST_QUERIES {
            return json!([]);
        }
        let messages = self.history.iter().chain(&self.asked_again);
        self.query_bytes += messages.clone().map(text_bytes).sum::<usize>();
        match self.query_bytes > LARGEST_QUERIES {
            true => json!([]),
            false => messages.cloned().collect(),
        }
    }

    /// Completes the open step.
    fn close(&mut self) {
        let Some(open) = self.open.take() else { return };
        let mut step = json!({
            "action": open.action,
            "observation": open.observation,
            "response": open.reply.text(),
            "thought": open.thought,
            "execution_time": open.seconds,
            "state": self.state,
            "query": null,
            "extra_info": open.reply.extra.get(SAMPLED).cloned().unwrap_or(json!({})),
        });
        step["query"] = open.query;
        self.steps.push(step);
    }

    fn ended(&mut self, status: &str, submission: &str) {
        let has_patch = !submission.trim().is_empty();
        if let Some(open) = &mut self.open {
            open.observation = match status {
                "submitted" => submission.to_owned(),
                _ => "Exited".to_owned(),
            };
            self.close();
        } else if status == "submitted" {
            // SWE-agent shows the patch in place of the tool's output.
            if let Some(last) = self.steps.last_mut() {
                last["observation"] = submission.into();
            }
            match self.history.last_mut() {
                Some(last) if last["message_type"] == "observation" => {
                    last["content"] = submission.into();
                }
                _ => {
                    let message = Message::new("user", submission);
                    self.history.push(item(&message, "observation"));
                }
            }
        } else if status == "exit_command" {
            // The command was not run, and its step shows that.
            if let Some(last) = self.steps.last_mut() {
                last["observation"] = "Exited".into();
            }
            if let Some(last) = self.history.last_mut()
                && last["message_type"] == "observation"
            {
                last["content"] = "Exited".into();
            }
        } else {
            let observation = match has_patch {
                true => "Exited (autosubmitted)",
                false => "",
            };
            let query = self.query();
            self.steps.push(json!({
                "action": "",
                "observation": observation,
                "response": "",
                "thought": status,
                "execution_time": 0.0,
                "state": self.state,
                "query": query,
                "extra_info": {},
            }));
        }
        let patch = if has_patch {
            submission.into()
        } else {
            Value::Null
        };
        self.info.insert("submission".to_owned(), patch);
        self.info.insert("exit_status".to_owned(), status.into());
        for key in EDITED {
            let nothing = || NOTHING_EDITED.into();
            match has_patch {
                true => drop(self.info.entry(key).or_insert_with(nothing)),
                false => drop(self.info.insert(key.to_owned(), nothing())),
            }
        }
    }
}

/// The approximate number of bytes of a message in a file.
fn text_bytes(item: &Value) -> usize {
    let text = |value: &Value| match value {
        Value::String(text) => text.len(),
        Value::Null => 0,
        other => other.to_string().len(),
    };
    MESSAGE_BYTES
        + ["content", "thought", "action", "tool_calls"]
            .map(|key| text(&item[key]))
            .iter()
            .sum::<usize>()
}

/// A message of a demonstration, with the keys of the recorded message.
fn shown_item(message: &Message) -> Value {
    let kind = message.extra.get("message_type").and_then(Value::as_str);
    let mut item = item(message, kind.unwrap_or("demonstration"));
    if let Some(Value::Object(recorded)) = message.extra.get(RECORDED) {
        for (key, value) in recorded {
            item[key] = value.clone();
        }
    }
    item["is_demo"] = true.into();
    item
}

/// A message as an item of SWE-agent's history.
fn item(message: &Message, kind: &str) -> Value {
    let images = message
        .content
        .iter()
        .any(|part| matches!(part, Part::Image { .. }));
    let content = match images {
        false => Value::from(message.text()),
        true => message
            .content
            .iter()
            .filter_map(|part| match part {
                Part::Text { text } => Some(json!({"type": "text", "text": text})),
                Part::Image { url, .. } => {
                    Some(json!({"type": "image_url", "image_url": {"url": url}}))
                }
                _ => None,
            })
            .collect(),
    };
    let mut item = json!({
        "role": message.role,
        "content": content,
        "agent": "main",
        "message_type": kind,
    });
    if !message.tool_calls.is_empty() {
        let calls = message.tool_calls.iter().map(|call| {
            json!({
                "id": call.id,
                "type": "function",
                "function": {"name": call.name, "arguments": call.arguments},
            })
        });
        item["tool_calls"] = calls.collect();
    }
    if let Some(id) = &message.tool_call_id {
        item["tool_call_ids"] = json!([id]);
    }
    item
}

/// The text of a file.
pub(crate) fn text(path: &Path) -> Result<String, SweAgentProblem> {
    mswea_files::read_text(path, mswea_files::RECORDS)
        .map_err(|error| SweAgentProblem::new(format!("can't read `{}`: {error}", path.display())))
}

/// Reads a trajectory.
///
/// # Errors
/// [`SweAgentProblem`] if the file can't be read, or is not a trajectory.
pub fn read(path: &Path) -> Result<Value, SweAgentProblem> {
    let name = path.display();
    let text = text(path)?;
    let value: Value = mswea_text::read_json(text.as_bytes()).map_err(|error| {
        SweAgentProblem::new(format!("`{name}` is no JSON: {error}"))
            .hint("a trajectory of SWE-agent is a file `*.traj`")
    })?;
    match value.is_object() {
        true => Ok(value),
        false => Err(SweAgentProblem::new(format!("`{name}` is no JSON object"))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_queries_of_a_long_run_take_a_limited_memory() {
        let mut book = Book::default();
        let message = Message::new("user", "x".repeat(1 << 20));
        book.history.push(item(&message, "observation"));
        let queries: Vec<Value> = (0..100).map(|_| book.query()).collect();
        let whole = queries.iter().filter(|it| it[0]["content"].is_string());
        assert_eq!(whole.count(), 63);
        assert!(queries[63..].iter().all(|it| *it == json!([])));
    }
}

//! The events that a trajectory of mini-swe-agent amounts to, so that what works on a journal works on
//! it as well.
//!
//! A trajectory has no event of its own for what happened, so some of it is concluded from the messages:
//! which action has submitted, and which ones did not run. Token usage, prices, plugins and the workspace
//! are not in it.

use serde_json::{Map, Value};

use super::{chat, messages_from_trajectory, responses};
use crate::journal::{FORMAT as JOURNAL_FORMAT, Record};
use crate::submission::MARK;
use mswea_core::{Action, Event, Message, Object, Output, Part, Reply, Usage};

/// What mini-swe-agent says of an action that did not run.
const NOT_EXECUTED: &str = "action was not executed";

/// What is said of an output that is not in the trajectory.
const NOT_RECORDED: &str = "the trajectory does not hold this output";

/// Whether a file's content is a trajectory of mini-swe-agent itself, and not of this host.
pub fn is_of_mini(value: &Value) -> bool {
    let format = value.get("trajectory_format").and_then(Value::as_str);
    format.is_some_and(|it| matches!(it, "mini-swe-agent-1" | "mini-swe-agent-1.1"))
        && value.pointer("/info/mswea").is_none()
}

/// The events of a trajectory ([`is_of_mini`]), as a journal would hold them. `run_id` names the run in
/// them. Where the trajectory does not say which actions a reply had (`extra.actions`), its step has
/// none.
///
/// # Errors
/// When a message is in a shape that has no neutral form; says which and why.
pub fn records_from_trajectory(trajectory: &Value, run_id: &str) -> Result<Vec<Record>, String> {
    let messages = messages_from_trajectory(trajectory)?;
    let opening = messages.iter().take_while(|it| is_opening(it)).count();
    let task = messages[..opening].iter().rfind(|it| it.role == "user");
    let mut events = Events {
        t: messages.iter().find_map(time).unwrap_or_default(),
        ..Events::default()
    };
    let version = trajectory.pointer("/info/mini_version");
    let version = version.and_then(Value::as_str).unwrap_or_default();
    events.push(Event::RunStarted {
        format: JOURNAL_FORMAT.to_owned(),
        run_id: run_id.to_owned(),
        host_version: format!("mini-swe-agent {version}"),
        task: task.map(Message::text).unwrap_or_default(),
        config: config(trajectory),
        plugins: Value::Array(Vec::new()),
        parent: None,
    });
    events.push(Event::EnvironmentReady {
        handle: Value::Null,
        replaced: None,
        message: None,
    });
    events.push(Event::SetUpDone {
        handle: Value::Null,
    });
    let mut rest = messages;
    let after = rest.split_off(opening);
    events.push(Event::Opening { messages: rest });
    events.read(after);
    Ok(events.records)
}

/// The sections of its config, with the classes beside them.
fn config(trajectory: &Value) -> Value {
    let mut config = Map::new();
    for (section, class) in [
        ("agent", "agent_class"),
        ("model", "model_class"),
        ("environment", "environment_class"),
    ] {
        let given = trajectory.pointer(&format!("/info/config/{section}"));
        let Some(Value::Object(mut keys)) = given.cloned() else {
            continue;
        };
        // What is null was not set.
        keys.retain(|_, value| !value.is_null());
        let path = trajectory.pointer(&format!("/info/config/{section}_type"));
        if let Some(path) = path {
            keys.entry(class).or_insert_with(|| path.clone());
        }
        config.insert(section.to_owned(), keys.into());
    }
    config.insert("mini".to_owned(), true.into());
    config.into()
}

fn is_opening(message: &Message) -> bool {
    matches!(message.role.as_str(), "system" | "user")
        && !["actions", "interrupt_type", "returncode"]
            .iter()
            .any(|key| message.extra.contains_key(*key))
}

fn is_rejection(message: &Message) -> bool {
    message.extra.get("interrupt_type") == Some(&Value::from("FormatError"))
}

fn time(message: &Message) -> Option<f64> {
    message.extra.get("timestamp")?.as_f64()
}

fn text<'m>(message: &'m Message, key: &str) -> &'m str {
    let value = message.extra.get(key);
    value.and_then(Value::as_str).unwrap_or_default()
}

#[derive(Default)]
struct Events {
    records: Vec<Record>,
    t: f64,
    queries: u32,
    cost: f64,
}

impl Events {
    fn push(&mut self, event: Event) {
        self.records.push(Record {
            seq: self.records.len() as u64 + 1,
            t: self.t,
            event,
        });
    }

    fn read(&mut self, messages: Vec<Message>) {
        let mut messages = messages.into_iter().peekable();
        while let Some(message) = messages.next() {
            self.t = time(&message).unwrap_or(self.t);
            if message.role == "assistant" {
                let has_actions = message.extra.contains_key("actions");
                // An older trajectory does not mark observations.
                let is_observation = |it: &Message| {
                    it.role != "exit"
                        && it.role != "assistant"
                        && !it.extra.contains_key("interrupt_type")
                        && (!has_actions || it.extra.contains_key("returncode"))
                };
                let mut observed = Vec::new();
                while let Some(next) = messages.next_if(is_observation) {
                    observed.push(next);
                }
                let exit = messages.peek();
                let exit = exit.filter(|it| text(it, "exit_status") == "Submitted");
                let submission = exit.map(|it| text(it, "submission").to_owned());
                self.step(message, observed, submission);
            } else if is_rejection(&message) {
                self.rejected(message);
            } else if message.role == "exit" {
                self.end(message);
            } else {
                self.push(Event::Message { message });
            }
        }
    }

    fn replied(&mut self, reply: Reply, extra: &Object) {
        self.queries += 1;
        let (query, timestamp) = (self.queries, self.t);
        let cost = extra.get("cost").and_then(Value::as_f64);
        self.cost += cost.unwrap_or_default();
        self.push(Event::QueryStarted { query, view: None });
        self.push(Event::Reply {
            reply,
            cost,
            timestamp,
        });
    }

    fn step(&mut self, mut message: Message, observed: Vec<Message>, submission: Option<String>) {
        let extra = std::mem::take(&mut message.extra);
        drop_empty_call(&mut message);
        let actions = extra.get("actions").cloned().unwrap_or_default();
        let actions: Vec<Action> = serde_json::from_value(actions).unwrap_or_default();
        let response = extra.get("response").cloned();
        self.replied(reply(message, response), &extra);
        self.push(Event::Accepted {
            actions: actions.clone(),
        });
        let submits = submission.as_ref().map(|_| submitting(&actions, &observed));
        for (index, action) in actions.iter().enumerate() {
            let shown = observation(&actions, &observed, index);
            let output = match (shown, &submission) {
                (_, Some(text)) if submits == Some(index) => Output {
                    output: format!("{MARK}\n{text}"),
                    ..Output::default()
                },
                (Some(shown), _) if text(shown, "exception_info") == NOT_EXECUTED => continue,
                (Some(shown), _) => output(shown),
                // It ran, since a later one has submitted.
                (None, Some(_)) if submits > Some(index) => Output::not_executed(NOT_RECORDED),
                (None, _) => continue,
            };
            let (action, timestamp) = (action.clone(), shown.and_then(time).unwrap_or(self.t));
            self.t = timestamp;
            self.push(Event::Action { index, action });
            self.push(Event::Output {
                index,
                output,
                timestamp,
            });
        }
        self.push(Event::Observed { messages: observed });
        if submission.is_some() {
            self.push(Event::Submitted { submission: None });
        }
    }

    fn rejected(&mut self, message: Message) {
        let response = message.extra.get("response").cloned();
        let said = response.as_ref().and_then(of_response);
        let said =
            said.unwrap_or_else(|| Message::new("assistant", text(&message, "model_response")));
        self.replied(reply(said, response), &message.extra);
        self.push(Event::Rejected {
            code: "format-error".to_owned(),
            message: message.text(),
            feedback: Some(message),
            is_fault: false,
            requery: None,
        });
    }

    fn end(&mut self, message: Message) {
        self.push(Event::RunEnded {
            exit_status: text(&message, "exit_status").to_owned(),
            submission: text(&message, "submission").to_owned(),
            cost: Some(self.cost),
            queries: self.queries,
            usage: Usage::default(),
            extra: Object::new(),
            message: Some(message),
        });
    }
}

/// The action that has submitted: the first one that seems not to have run. Where nothing is said of any,
/// it is the first one with the mark in its command.
fn submitting(actions: &[Action], observed: &[Message]) -> usize {
    let is_unrun = |index: &usize| {
        let shown = observation(actions, observed, *index);
        shown.is_some_and(|it| text(it, "exception_info") == NOT_EXECUTED)
    };
    let marked = || actions.iter().position(|it| it.command.contains(MARK));
    let first = (0..actions.len()).find(is_unrun).or_else(marked);
    first.unwrap_or(actions.len().saturating_sub(1))
}

/// What the model was told of an action: by its call's id, else by its place. Of several calls with the same id
/// each has the answer in its turn.
fn observation<'m>(
    actions: &[Action],
    observed: &'m [Message],
    index: usize,
) -> Option<&'m Message> {
    match &actions[index].tool_call_id {
        id @ Some(_) => {
            let before = actions[..index].iter().filter(|it| it.tool_call_id == *id);
            let mut answers = observed.iter().filter(|it| it.tool_call_id == *id);
            answers.nth(before.count())
        }
        None => observed.get(index),
    }
}

/// The output of an action that ran, from what stands beside the observation.
fn output(shown: &Message) -> Output {
    let mut extra = shown.extra.clone();
    for key in ["raw_output", "returncode", "exception_info", "timestamp"] {
        extra.shift_remove(key);
    }
    let returncode = shown.extra.get("returncode").and_then(Value::as_i64);
    Output {
        output: text(shown, "raw_output").to_owned(),
        returncode: returncode.and_then(|it| it.try_into().ok()).unwrap_or(-1),
        exception_info: text(shown, "exception_info").to_owned(),
        extra,
    }
}

/// litellm writes `function_call: null` into each reply, and never sends it back.
fn drop_empty_call(message: &mut Message) {
    for part in &mut message.content {
        if let Part::Opaque {
            data: Value::Object(keys),
            ..
        } = part
            && keys.get("function_call").is_some_and(Value::is_null)
        {
            keys.shift_remove("function_call");
        }
    }
}

/// What the model said, from the provider's response.
fn of_response(response: &Value) -> Option<Message> {
    let decoded = responses::decode(response);
    let decoded =
        decoded.or_else(|| Some(chat::decode(response.pointer("/choices/0/message")?)))?;
    let mut message = decoded.ok()?;
    message.extra.clear();
    Some(message)
}

fn reply(message: Message, response: Option<Value>) -> Reply {
    let word = |path: &str| {
        let value = response.as_ref().and_then(|it| it.pointer(path));
        value.and_then(Value::as_str).unwrap_or_default().to_owned()
    };
    // In the words of the adapters: the first is that of chat completions, the others are of the
    // Responses API.
    let finish_reason = match word("/choices/0/finish_reason") {
        reason if !reason.is_empty() => reason,
        _ => match word("/incomplete_details/reason").as_str() {
            "max_output_tokens" => "length".to_owned(),
            "content_filter" => "content_filter".to_owned(),
            _ => word("/status"),
        },
    };
    Reply {
        message,
        finish_reason,
        model: word("/model"),
        response,
        ..Reply::default()
    }
}

#[cfg(test)]
#[path = "events_tests.rs"]
mod tests;

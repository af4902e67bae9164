//! The events that a trajectory without a journal amounts to, so that what works on a journal works on it as
//! well. It is mini-swe-agent's, or one of this host, which says more (`info.mswea`).
//!
//! A trajectory has no event of its own for what happened, so some of it is concluded from the messages:
//! which action has submitted, and which ones did not run. The workspace is not in it, and in mini-swe-agent's
//! neither are the plugins.

use serde_json::{Map, Value};

use super::{FORMAT, chat, messages_from_trajectory, responses, usage_of};
use crate::journal::Record;

use mswea_core::{
    Action, ErrorClass, Event, MARK, Message, Object, Output, Part, Reply, ToolCall, Usage,
};

/// mini-swe-agent's message about an action that did not run.
const NOT_EXECUTED: &str = "action was not executed";

/// The format of version 1.
const FORMAT_1: &str = "mini-swe-agent-1";

/// How version 1 finds the command in a text, unless the agent's config says otherwise.
pub const FENCES_1: &str = "```bash\\s*\\n(.*?)\\n```";

/// The text in place of an output that is not in the trajectory.
const NOT_RECORDED: &str = "the trajectory does not hold this output";

/// Whether a file's content is a trajectory in the format of mini-swe-agent, which is also this host's.
pub fn is_trajectory(value: &Value) -> bool {
    let format = value.get("trajectory_format").and_then(Value::as_str);
    format.is_some_and(|it| it == FORMAT || it == FORMAT_1)
}

/// Whether a file's content is a trajectory of mini-swe-agent itself, and not of this host.
pub fn is_of_mini(value: &Value) -> bool {
    is_trajectory(value) && value.pointer("/info/mswea").is_none()
}

/// The cost and the tokens of a whole run, by the head of its trajectory and by the sums of its replies, some of
/// which may lack a cost.
pub fn totals(info: &Value, usage: &Usage, cost: f64, lacks_costs: bool) -> (Option<f64>, Usage) {
    let mut events = Events {
        info,
        records: Vec::new(),
        t: 0.0,
        queries: 0,
        cost,
        usage: usage.clone(),
        lacks_costs,
    };
    events.bill_rest();
    (events.known_cost(), events.usage)
}

/// The events of a trajectory ([`is_trajectory`]), as a journal would hold them. `run_id` names the run in
/// them if the trajectory does not. Where it does not say which actions a reply had (`extra.actions`), its step
/// has none.
///
/// # Errors
/// A text with the message and the mistake, if a message has an unknown format.
pub fn records_from_trajectory(trajectory: &Value, run_id: &str) -> Result<Vec<Record>, String> {
    let messages = messages_from_trajectory(trajectory)?;
    let opening = messages.iter().take_while(|it| is_opening(it)).count();
    let task = messages[..opening].iter().rfind(|it| it.role == "user");
    let info = &trajectory["info"];
    let own = &info["mswea"];
    let started = own["started"].as_f64();
    let started = started.or_else(|| messages.iter().find_map(time));
    let mut events = Events {
        info,
        records: Vec::new(),
        t: started.unwrap_or_default(),
        queries: 0,
        cost: 0.0,
        usage: Usage::default(),
        lacks_costs: false,
    };
    let string = |value: &Value| value.as_str().map(str::to_owned);
    let of_mini = || {
        let version = info["mini_version"].as_str().unwrap_or_default();
        format!("mini-swe-agent {version}")
    };
    events.push(Event::RunStarted {
        // Not that of a journal: it has no times of commands.
        format: string(&trajectory["trajectory_format"]).unwrap_or_else(|| FORMAT.to_owned()),
        run_id: string(&own["run_id"]).unwrap_or_else(|| run_id.to_owned()),
        host_version: string(&own["version"]).unwrap_or_else(of_mini),
        task: string(&own["task"])
            .or_else(|| task.map(Message::text))
            .unwrap_or_default(),
        config: config(trajectory),
        plugins: match &own["plugins"] {
            Value::Null => Value::Array(Vec::new()),
            plugins => plugins.clone(),
        },
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

/// The sections of its config; in mini-swe-agent's the classes are beside them.
fn config(trajectory: &Value) -> Value {
    let info = &trajectory["info"];
    let own = info.get("mswea");
    let mut config = Map::new();
    for (section, class) in [
        ("agent", "agent_class"),
        ("model", "model_class"),
        ("environment", "environment_class"),
    ] {
        let given = info.pointer(&format!("/config/{section}"));
        let Some(Value::Object(mut keys)) = given.cloned() else {
            continue;
        };
        // A null value means that the key was not set.
        keys.retain(|_, value| !value.is_null());
        let path = info.pointer(&format!("/config/{section}_type"));
        if let Some(path) = path.filter(|_| own.is_none()) {
            keys.entry(class).or_insert_with(|| path.clone());
        }
        config.insert(section.to_owned(), keys.into());
    }
    match own {
        None => {
            config.insert("mini".to_owned(), true.into());
            if trajectory["trajectory_format"] == FORMAT_1 {
                // The key by which a config of version 1 is known. There it belongs to the agent.
                let agent = config.entry("agent").or_insert_with(|| Map::new().into());
                if let Some(agent) = agent.as_object_mut() {
                    agent
                        .entry("action_regex")
                        .or_insert_with(|| FENCES_1.into());
                }
            }
        }
        Some(own) => {
            let rest = own["config"].as_object().into_iter().flatten();
            config.extend(rest.map(|(key, value)| (key.clone(), value.clone())));
        }
    }
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

struct Events<'v> {
    /// What is told of the whole run.
    info: &'v Value,
    records: Vec<Record>,
    t: f64,
    queries: u32,
    cost: f64,
    usage: Usage,
    /// A reply has none.
    lacks_costs: bool,
}

impl Events<'_> {
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
                // Older trajectories do not mark observations.
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
        let is_ended = |record: &Record| matches!(record.event, Event::RunEnded { .. });
        if !self.records.last().is_some_and(is_ended) {
            self.bill_rest();
            let info = self.info;
            let status = info["exit_status"].as_str();
            // Older trajectories have no message for the end.
            if let Some(status) = status.filter(|it| !it.is_empty()) {
                let submission = info["submission"].as_str().unwrap_or_default();
                self.ended(status.to_owned(), submission.to_owned(), None);
            }
        }
    }

    /// Whether something has no known price, by the head.
    fn is_unpriced(&self) -> bool {
        self.info.pointer("/mswea/cost_known") == Some(&Value::Bool(false))
    }

    /// Whether an unknown price is written as 0.
    fn hides_prices(&self) -> bool {
        let tracking = self.info.pointer("/config/model/cost_tracking");
        let is_of_mini = self.info.get("mswea").is_none();
        self.is_unpriced() || is_of_mini && tracking.is_some_and(|it| it == "ignore_errors")
    }

    /// The dollars of the whole run, as far as they are known.
    fn total(&self) -> Option<f64> {
        let total = self.info.pointer("/model_stats/instance_cost")?.as_f64();
        total.filter(|it| it.is_finite() && *it >= 0.0)
    }

    /// The dollars of the whole run, if all its prices are known.
    fn known_cost(&self) -> Option<f64> {
        match self.lacks_costs {
            _ if self.is_unpriced() => None,
            true if self.hides_prices() => None,
            true => self.total(),
            false => Some(self.total().unwrap_or(self.cost)),
        }
    }

    /// What was billed and has no message: failed queries, and those of processors.
    fn bill_rest(&mut self) {
        let total = self.info.pointer("/mswea/usage").cloned();
        let total = total.and_then(|it| serde_json::from_value::<Usage>(it).ok());
        let mut usage = total.unwrap_or_default();
        usage.subtract(&self.usage);
        let cost = self.total().unwrap_or_default() - self.cost;
        // Sums of fractions differ in their last digits.
        let cost = if cost > 1e-9 { cost } else { 0.0 };
        if cost > 0.0 || usage != Usage::default() {
            self.usage.add(&usage);
            self.cost += cost;
            self.bill(usage, Some(cost));
        }
        if self.is_unpriced() {
            self.bill(Usage::default(), None);
        }
    }

    fn bill(&mut self, usage: Usage, cost: Option<f64>) {
        self.push(Event::QueryFailed {
            class: ErrorClass::Other("unknown".to_owned()).into(),
            message: "the trajectory has no message for this".to_owned(),
            usage: Some(usage),
            cost,
        });
    }

    /// Returns the tokens.
    fn replied(&mut self, mut reply: Reply, extra: &Object) -> Option<Usage> {
        self.queries += 1;
        let (query, timestamp) = (self.queries, self.t);
        let own = extra.get("mswea").and_then(|own| own.get("usage"));
        let own = own.and_then(|own| serde_json::from_value(own.clone()).ok());
        let usage = own.or_else(|| reply.response.as_ref().and_then(usage_of));
        self.usage.add(&usage.clone().unwrap_or_default());
        reply.usage.clone_from(&usage);
        let cost = extra.get("cost").and_then(Value::as_f64);
        let cost = cost.filter(|cost| *cost > 0.0 || !self.hides_prices());
        self.cost += cost.unwrap_or_default();
        self.lacks_costs |= cost.is_none();
        self.push(Event::QueryStarted { query, view: None });
        self.push(Event::Reply {
            reply,
            cost,
            timestamp,
        });
        usage
    }

    fn step(&mut self, mut message: Message, observed: Vec<Message>, submission: Option<String>) {
        let mut extra = std::mem::take(&mut message.extra);
        drop_empty_call(&mut message);
        let actions = extra.shift_remove("actions").unwrap_or_default();
        let actions: Vec<Action> = serde_json::from_value(actions).unwrap_or_default();
        let response = extra.shift_remove("response");
        message.extra = extra.clone();
        // They join the history with the reply.
        for key in ["cost", "timestamp", "mswea"] {
            message.extra.shift_remove(key);
        }
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
                // The action ran, because a later one has submitted.
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
        self.push(Event::Observed {
            messages: observed,
            shown: Vec::new(),
        });
        if submission.is_some() {
            self.push(Event::Submitted { submission: None });
        }
    }

    fn rejected(&mut self, mut message: Message) {
        let response = message.extra.get("response").cloned();
        let said = response.as_ref().and_then(of_response);
        let said =
            said.unwrap_or_else(|| Message::new("assistant", text(&message, "model_response")));
        let usage = self.replied(reply(said, response), &message.extra);
        if let Some(usage) = usage {
            // As this host writes it.
            let own = || serde_json::json!({ "usage": usage });
            message.extra.entry("mswea").or_insert_with(own);
        }
        self.push(Event::Rejected {
            code: "format-error".to_owned(),
            message: message.text(),
            feedback: Some(message),
            is_fault: false,
            requery: None,
        });
    }

    fn end(&mut self, message: Message) {
        self.bill_rest();
        let (status, submission) = (text(&message, "exit_status"), text(&message, "submission"));
        self.ended(status.to_owned(), submission.to_owned(), Some(message));
    }

    fn ended(&mut self, exit_status: String, submission: String, message: Option<Message>) {
        let info = self.info;
        let own = &info["mswea"];
        self.t = own["ended"].as_f64().unwrap_or(self.t);
        self.push(Event::RunEnded {
            exit_status,
            submission,
            cost: self.known_cost(),
            queries: self.queries,
            usage: self.usage.clone(),
            extra: own["error"].as_object().cloned().unwrap_or_default(),
            message,
        });
    }
}

/// The index of the action that has submitted: the first one that seems not to have run. If that
/// can't be told, the first one whose command contains the mark.
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

/// The output of an action that ran, from the data beside its observation.
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

/// Removes `function_call: null`, which litellm writes into each reply and never sends back.
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

/// The model's message, from the provider's response.
fn of_response(response: &Value) -> Option<Message> {
    if let Some(blocks) = response.get("content").and_then(Value::as_array) {
        return Some(of_blocks(blocks));
    }
    let of_choice = || {
        let mut message = response.pointer("/choices/0/message")?.clone();
        // Some servers leave out the role.
        let keys = message.as_object_mut()?;
        keys.entry("role").or_insert_with(|| "assistant".into());
        Some(chat::decode(&message))
    };
    let decoded = responses::decode(response).or_else(of_choice)?;
    let mut message = decoded.ok()?;
    message.extra.clear();
    Some(message)
}

/// A message of Anthropic's API.
fn of_blocks(blocks: &[Value]) -> Message {
    let mut message = Message::new("assistant", "");
    message.content.clear();
    for block in blocks {
        let word = |key: &str| block[key].as_str().unwrap_or_default().to_owned();
        match block["type"].as_str() {
            Some("text") => message.content.push(Part::text(word("text"))),
            Some("tool_use") => message.tool_calls.push(ToolCall {
                id: word("id"),
                name: word("name"),
                arguments: match &block["input"] {
                    Value::String(text) => text.clone(),
                    input => input.to_string(),
                },
                extra: Object::new(),
            }),
            _ => {}
        }
    }
    message
}

fn reply(message: Message, response: Option<Value>) -> Reply {
    let word = |path: &str| {
        let value = response.as_ref().and_then(|it| it.pointer(path));
        value.and_then(Value::as_str).unwrap_or_default().to_owned()
    };
    // The words of the adapters for it: the first is that of chat completions, the second ones are
    // those of Anthropic, the others are those of the Responses API.
    let finish_reason = match word("/choices/0/finish_reason") {
        reason if !reason.is_empty() => reason,
        _ if !word("/stop_reason").is_empty() => match word("/stop_reason").as_str() {
            "end_turn" | "stop_sequence" => "stop".to_owned(),
            "max_tokens" | "model_context_window_exceeded" => "length".to_owned(),
            "tool_use" => "tool_calls".to_owned(),
            "refusal" => "content_filter".to_owned(),
            other => other.to_owned(),
        },
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

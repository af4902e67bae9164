//! Makes a conversation from the events of a journal, even if the run was killed.

use std::collections::BTreeMap;

use mswea_core::{Action, Answer, Event, Message, Output, Part, Reply, Usage, View};
use mswea_record::journal::Record;
use serde_json::{Value, json};

use crate::conversation::{
    Conversation, ConversationStep, RecordedCall, ShownResult, StepSource, TokenIds,
};

/// The text that mini-swe-agent writes as the result of a call whose command ended the run.
const NOT_EXECUTED: &str = "action was not executed";

/// Makes the conversation of these events.
pub fn from_records(records: &[Record]) -> Conversation {
    let mut reading = ConversationReader::default();
    for record in records {
        reading.take(record);
    }
    reading.end()
}

/// Makes a conversation from events one by one, also while the run continues.
#[derive(Default)]
pub struct ConversationReader {
    told: Conversation,
    /// The index of the last step of the model.
    agent: Option<usize>,
    /// The calls of the actions of the step.
    of_actions: Vec<Option<String>>,
    started: BTreeMap<usize, f64>,
    /// The time of the last query, and its view.
    asked: Option<f64>,
    view: Option<View>,
    /// The pauses before its retries.
    pauses: Vec<(f64, f64)>,
    /// Outputs that no message contains yet, with their durations.
    ran: BTreeMap<usize, (Output, Option<f64>)>,
    cost: f64,
    is_unpriced: bool,
    /// The cost of the whole run, as its end says: the replies of a trajectory may have none.
    total: Option<f64>,
    /// The time of the last event.
    last: Option<f64>,
}

impl ConversationReader {
    /// The conversation so far. Its cost is returned by [`Self::cost`].
    pub fn so_far(&self) -> &Conversation {
        &self.told
    }

    /// The conversation so far, mutable. Steps must not be added or removed.
    pub fn so_far_mut(&mut self) -> &mut Conversation {
        &mut self.told
    }

    /// The complete conversation of a run that does not continue.
    pub fn end(mut self) -> Conversation {
        self.settle();
        self.told.cost = self.cost();
        self.told
    }

    /// The dollars so far; none if any price is unknown.
    pub fn cost(&self) -> Option<f64> {
        self.total.or((!self.is_unpriced).then_some(self.cost))
    }

    /// The index of the first step that later events may change.
    pub fn first_open(&self) -> usize {
        self.agent.unwrap_or(self.told.steps.len())
    }

    /// Adds an event.
    pub fn take(&mut self, record: &Record) {
        let t = record.t;
        self.clock(&record.event, t);
        match &record.event {
            Event::RunStarted {
                format,
                run_id,
                host_version,
                config,
                plugins,
                task,
                ..
            } => {
                let told = &mut self.told;
                told.run_id.clone_from(run_id);
                told.format.clone_from(format);
                told.task.clone_from(task);
                told.program = match host_version.split_once(' ') {
                    Some((name, version)) => (name.to_owned(), version.to_owned()),
                    None => ("mswea-host".to_owned(), host_version.clone()),
                };
                let model = config.pointer("/model/model_name").and_then(Value::as_str);
                told.model = model.map(str::to_owned);
                let all = plugins.as_array().map(Vec::as_slice).unwrap_or_default();
                told.plugins = all.iter().map(named).collect();
            }
            Event::RunResumed { .. } | Event::Reopened { .. } => {
                self.told.exit_status = None;
                self.told.submission.clear();
                self.told.failure = None;
                self.total = None;
            }
            Event::Opening { messages } => {
                for message in messages {
                    self.message(message, t);
                }
            }
            Event::EnvironmentReady {
                message: Some(message),
                ..
            }
            | Event::Message { message } => self.message(message, t),
            Event::QueryStarted { query, view } => {
                self.told.queries = self.told.queries.max(Some(u64::from(*query)));
                self.asked = Some(t).filter(|t| *t > 0.0);
                self.view = *view;
                self.pauses.clear();
            }
            Event::Retry { wait_seconds, .. } => self.pauses.push((t, *wait_seconds)),
            Event::Reply {
                reply,
                cost,
                timestamp,
            } => self.reply(reply, *cost, *timestamp),
            Event::Accepted { actions } => self.accepted(actions),
            Event::Rejected { code, feedback, .. } => {
                if let Some(step) = self.step() {
                    step.rejected = Some(code.clone());
                }
                if let Some(message) = feedback {
                    self.observe(message, None, false);
                }
            }
            Event::QueryFailed {
                usage: Some(usage),
                cost,
                ..
            } => self.bill(Some(usage), *cost),
            Event::AskReply { reply, cost, .. } => self.bill(reply.usage.as_ref(), *cost),
            Event::Action { index, .. } => {
                self.started.insert(*index, t);
            }
            Event::Output {
                index,
                output,
                timestamp,
            } => {
                // A trajectory has no times of its commands.
                let is_journal = self.told.format.starts_with("mswea-journal-");
                let start = self.started.get(index).filter(|_| is_journal);
                let seconds = start.map(|start| timestamp - start);
                self.ran.insert(*index, (output.clone(), seconds));
            }
            Event::Observed { messages, shown } => {
                let one_each = messages.len() == self.of_actions.len();
                for (index, message) in messages.iter().enumerate() {
                    let is_shown = shown.get(index).is_some_and(Option::is_some);
                    self.observe(message, one_each.then_some(index), is_shown);
                }
                if messages.is_empty() {
                    self.settle();
                }
                self.ran.clear();
            }
            Event::Answered {
                message: Some(message),
                ..
            } => self.message(message, t),
            Event::Answered {
                answer: Answer::Say { text },
                ..
            } => self.message(&Message::new("user", text.as_str()), t),
            Event::RunEnded {
                exit_status,
                submission,
                cost,
                queries,
                extra,
                ..
            } => {
                self.total = *cost;
                self.told.queries = self.told.queries.max(Some(u64::from(*queries)));
                // mini-swe-agent's name is the second.
                let mut told = ["message", "exception_str"].iter();
                let told = told.find_map(|key| extra.get(*key)?.as_str());
                self.told.failure = told.filter(|it| !it.is_empty()).map(str::to_owned);
                self.told.exit_status = Some(exit_status.clone());
                self.told.submission.clone_from(submission);
            }
            _ => {}
        }
    }

    /// Takes the time of an event; a trajectory may have none.
    fn clock(&mut self, event: &Event, t: f64) {
        if t <= 0.0 || !t.is_finite() {
            return;
        }
        self.told.started.get_or_insert(t);
        let goes_on = matches!(event, Event::RunResumed { .. } | Event::Reopened { .. });
        let passed = self.last.replace(t).filter(|_| !goes_on);
        let passed = passed.map_or(0.0, |last| (t - last).max(0.0));
        *self.told.seconds.get_or_insert(0.0) += passed;
    }

    fn step(&mut self) -> Option<&mut ConversationStep> {
        self.told.steps.get_mut(self.agent?)
    }

    fn bill(&mut self, usage: Option<&Usage>, cost: Option<f64>) {
        if let Some(usage) = usage {
            self.told.usage.add(usage);
        }
        match cost {
            Some(cost) => self.cost += cost,
            None => self.is_unpriced = true,
        }
    }

    /// Adds a message that is not a result. It may be a message of the model, as an example in the
    /// prompts.
    fn message(&mut self, message: &Message, t: f64) {
        let source = match message.role.as_str() {
            "system" => StepSource::System,
            "assistant" => StepSource::Agent,
            "tool" => return self.observe(message, None, false),
            "exit" => return,
            _ => StepSource::User,
        };
        let step = ConversationStep {
            source,
            time: Some(t).filter(|t| *t > 0.0),
            text: message.text(),
            images: images(message),
            calls: calls(message),
            ..ConversationStep::default()
        };
        if source == StepSource::Agent {
            self.begin(step);
        } else {
            self.told.steps.push(step);
        }
    }

    fn begin(&mut self, step: ConversationStep) {
        self.settle();
        self.agent = Some(self.told.steps.len());
        self.told.steps.push(step);
        self.of_actions.clear();
        self.started.clear();
    }

    fn reply(&mut self, reply: &Reply, cost: Option<f64>, timestamp: f64) {
        self.bill(reply.usage.as_ref(), cost);
        let message = &reply.message;
        let reasoning = message.content.iter().filter_map(|part| match part {
            Part::Reasoning { text, .. } if !text.is_empty() => Some(text.as_str()),
            _ => None,
        });
        let reasoning = reasoning.collect::<Vec<_>>().join("\n");
        let (asked, view) = (self.asked.take(), self.view.take());
        let pauses = std::mem::take(&mut self.pauses);
        self.begin(ConversationStep {
            source: StepSource::Agent,
            asked,
            view,
            pauses,
            time: Some(timestamp).filter(|t| *t > 0.0),
            text: message.text(),
            images: images(message),
            reasoning,
            model: Some(reply.model.clone()).filter(|it| !it.is_empty()),
            calls: calls(message),
            usage: reply.usage.clone(),
            tokens: reply
                .response
                .as_ref()
                .map(TokenIds::of)
                .unwrap_or_default(),
            cost,
            is_reply: true,
            finish_reason: reply.finish_reason.clone(),
            ..ConversationStep::default()
        });
    }

    fn accepted(&mut self, actions: &[Action]) {
        let number = self.told.steps.len();
        let Some(step) = self.step() else { return };
        if step.calls.is_empty() {
            let made = actions
                .iter()
                .enumerate()
                .map(|(index, action)| RecordedCall {
                    id: action
                        .tool_call_id
                        .clone()
                        .unwrap_or_else(|| format!("action_{number}_{index}")),
                    name: "bash".to_owned(),
                    arguments: json!({ "command": action.command }),
                    is_of_text: true,
                });
            step.calls = made.collect();
            let ids = step.calls.iter().map(|call| Some(call.id.clone()));
            self.of_actions = ids.collect();
        } else {
            let ids = actions.iter().map(|action| action.tool_call_id.clone());
            self.of_actions = ids.collect();
        }
    }

    /// Adds a message with the result of the action with this index, if there is one. With `is_shown` it shows the
    /// recorded output of its action; else, in a trajectory, its own data have what is known of that.
    fn observe(&mut self, message: &Message, index: Option<usize>, is_shown: bool) {
        let of_index = index.and_then(|index| self.of_actions.get(index).cloned().flatten());
        let call = message.tool_call_id.clone().or(of_index);
        let Some(step) = self.step() else {
            return;
        };
        let call = call.filter(|id| step.calls.iter().any(|it| it.id == *id));
        let index = match &call {
            Some(id) => self
                .of_actions
                .iter()
                .position(|it| it.as_ref() == Some(id)),
            None => index,
        };
        let ran = index.and_then(|index| self.ran.remove(&index));
        let exception = message.extra.get("exception_info").and_then(Value::as_str);
        let shown = match ran {
            Some((output, seconds)) if exception == Some(NOT_EXECUTED) => {
                unseen(call, output, seconds)
            }
            ran => {
                let (output, seconds) = ran.unzip();
                let output = output.as_ref().filter(|_| is_shown);
                let returncode = message.extra.get("returncode").and_then(Value::as_i64);
                let exception = exception.or(output.map(|it| it.exception_info.as_str()));
                ShownResult {
                    call,
                    text: message.text(),
                    images: images(message),
                    returncode: returncode.or(output.map(|it| it.returncode.into())),
                    exception: exception.filter(|it| !it.is_empty()).map(str::to_owned),
                    seconds: seconds.flatten(),
                    is_unseen: false,
                }
            }
        };
        if let Some(step) = self.step() {
            step.shown.push(shown);
        }
    }

    /// Adds the outputs that were never sent to the model, because the run was killed or this was
    /// its last step. Must be called when no event follows.
    pub fn settle(&mut self) {
        for (index, (output, seconds)) in std::mem::take(&mut self.ran) {
            let call = self.of_actions.get(index).cloned().flatten();
            if let Some(step) = self.step() {
                let call = call.filter(|id| step.calls.iter().any(|it| it.id == *id));
                step.shown.push(unseen(call, output, seconds));
            }
        }
    }
}

fn unseen(call: Option<String>, output: Output, seconds: Option<f64>) -> ShownResult {
    ShownResult {
        call,
        text: output.output,
        returncode: Some(i64::from(output.returncode)),
        exception: Some(output.exception_info).filter(|it| !it.is_empty()),
        seconds,
        is_unseen: true,
        ..ShownResult::default()
    }
}

fn named(plugin: &Value) -> Value {
    let fields = ["name", "kind", "version", "sha256"].into_iter();
    let fields = fields.filter_map(|key| Some((key.to_owned(), plugin.get(key)?.clone())));
    Value::Object(fields.collect())
}

fn images(message: &Message) -> Vec<String> {
    let urls = message.content.iter().filter_map(|part| match part {
        Part::Image { url, .. } => Some(url.clone()),
        _ => None,
    });
    urls.collect()
}

fn calls(message: &Message) -> Vec<RecordedCall> {
    let calls = message.tool_calls.iter().map(|call| RecordedCall {
        id: call.id.clone(),
        name: call.name.clone(),
        arguments: match serde_json::from_str(&call.arguments) {
            Ok(Value::Object(object)) => Value::Object(object),
            _ => json!({ "raw": call.arguments }),
        },
        is_of_text: false,
    });
    calls.collect()
}

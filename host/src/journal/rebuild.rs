//! What a journal's events amount to: the message list, and where the run stood.

use serde_json::{Value, json};

use super::{Event, Record};
use crate::roles::{Action, Message, Object, Output, Reply, Usage};

/// A reply as it joins the history. The loop and [`messages`] both use this, so that the list
/// in memory and the one rebuilt from the journal are the same by construction.
pub fn accepted_message(
    reply: Reply,
    actions: &[Action],
    cost: Option<f64>,
    timestamp: f64,
) -> Message {
    let mut message = reply.message;
    let mut extra = Object::new();
    extra.insert("actions".into(), json!(actions));
    extra.insert("response".into(), reply.response.unwrap_or_default());
    // readers of trajectories add these up; whether the sum is the truth is said elsewhere
    extra.insert("cost".into(), json!(cost.unwrap_or(0.0)));
    extra.insert("timestamp".into(), json!(timestamp));
    if let Some(usage) = &reply.usage {
        // under a key of our own: the format has no word for it
        extra.insert("mswea".into(), json!({ "usage": usage }));
    }
    for (key, value) in std::mem::take(&mut message.extra) {
        extra.entry(key).or_insert(value);
    }
    message.extra = extra;
    message
}

/// The history of a run, exactly as the loop had it.
pub fn messages(records: &[Record]) -> Vec<Message> {
    let events = records.iter().map(|record| &record.event);
    let made_of = events.filter(|event| {
        matches!(
            event,
            Event::Message { .. } | Event::Reply { .. } | Event::Accepted { .. }
        )
    });
    history(made_of.cloned())
}

/// The same, of records that nobody needs any more: their memory is given back on the way, as a
/// submission may be large and stands in several of them.
pub fn into_messages(records: Vec<Record>) -> Vec<Message> {
    history(records.into_iter().map(|record| record.event))
}

fn history(events: impl Iterator<Item = Event>) -> Vec<Message> {
    let mut messages = Vec::new();
    let mut last: Option<(Reply, Option<f64>, f64)> = None;
    for event in events {
        match event {
            Event::Message { message } => messages.push(message),
            Event::Reply {
                reply,
                cost,
                timestamp,
            } => last = Some((reply, cost, timestamp)),
            Event::Accepted { actions } => {
                if let Some((reply, cost, timestamp)) = last.take() {
                    messages.push(accepted_message(reply, &actions, cost, timestamp));
                }
            }
            _ => {}
        }
    }
    messages
}

/// Where a run stood when its journal ended.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct State {
    /// The run's id; empty if even the first line is missing.
    pub run_id: String,
    /// Version of the host that began it.
    pub host_version: String,
    /// The task.
    pub task: String,
    /// The resolved config.
    pub config: Value,
    /// The plugins.
    pub plugins: Value,
    /// Unix seconds of the first event.
    pub started: Option<f64>,
    /// Unix seconds of the last event.
    pub last: Option<f64>,
    /// Queries that were begun, failed ones included.
    pub queries: u32,
    /// Questions of history processors that were put to the model, failed ones included.
    pub questions: u32,
    /// Dollars, as far as prices were known.
    pub cost: f64,
    /// Something was billed whose price is unknown, so `cost` is too low.
    pub cost_unknown: bool,
    /// Tokens of all replies.
    pub usage: Usage,
    /// Malformed replies since the last good one.
    pub format_errors: u32,
    /// Requests that were sent again.
    pub retries: u32,
    /// What plugins failed at: plugin, message.
    pub faults: Vec<(String, String)>,
    /// What was begun and not finished.
    pub pending: Pending,
    /// What the salvage command printed.
    pub salvage: Option<Output>,
    /// The end, if it was an orderly one.
    pub ended: Option<End>,
}

/// How a run ended.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct End {
    /// `Submitted`, `LimitsExceeded`, ...
    pub exit_status: String,
    /// What was submitted.
    pub submission: String,
    /// What went wrong, if anything.
    pub extra: Object,
}

/// What a run was in the middle of.
#[derive(Clone, Debug, Default, PartialEq)]
pub enum Pending {
    /// Between two steps, or over.
    #[default]
    Nothing,
    /// Waiting for the model's answer: it may have been billed.
    Query,
    /// The answer is there and paid for, and was not parsed yet.
    Reply {
        /// The answer.
        reply: Box<Reply>,
        /// Its price.
        cost: Option<f64>,
        /// When it came.
        timestamp: f64,
    },
    /// The reply was rejected, and the feedback on it is not in the history yet.
    Rejected {
        /// The problem's word.
        code: String,
        /// What was wrong.
        message: String,
    },
    /// In the middle of a step's actions.
    Step(OpenStep),
}

/// A step whose observations may not be complete.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct OpenStep {
    /// What the model asked for.
    pub actions: Vec<Action>,
    /// What came of them, as far as they ended: output and time.
    pub outputs: Vec<Option<(Output, f64)>>,
    /// The action that was running: whatever it did may or may not have happened, so it must
    /// be reported as interrupted and never run again unasked.
    pub interrupted: Option<(usize, Action)>,
    /// Messages that joined the history since the reply.
    pub observed: usize,
}

/// Follows the events to their end.
pub fn state(records: &[Record]) -> State {
    let mut state = State::default();
    for record in records {
        state.started.get_or_insert(record.t);
        // Shadows are waited for when the run is over: they don't make it longer.
        if !matches!(
            record.event,
            Event::ShadowDiverged { .. } | Event::ShadowEnded { .. }
        ) {
            state.last = Some(record.t);
        }
        state.apply(&record.event);
    }
    state
}

impl State {
    fn apply(&mut self, event: &Event) {
        match event {
            Event::RunStarted {
                run_id,
                host_version,
                task,
                config,
                plugins,
                ..
            } => {
                self.run_id.clone_from(run_id);
                self.host_version.clone_from(host_version);
                self.task.clone_from(task);
                self.config.clone_from(config);
                self.plugins.clone_from(plugins);
            }
            Event::Message { .. } => match &mut self.pending {
                Pending::Step(step) => step.observed += 1,
                Pending::Rejected { .. } => self.pending = Pending::Nothing,
                _ => {}
            },
            Event::QueryStarted { query } => {
                self.queries = *query;
                self.pending = Pending::Query;
            }
            Event::Retry { .. } => self.retries += 1,
            Event::Reply {
                reply,
                cost,
                timestamp,
            } => {
                self.charge(reply.usage.as_ref(), *cost, true);
                self.pending = Pending::Reply {
                    reply: Box::new(reply.clone()),
                    cost: *cost,
                    timestamp: *timestamp,
                };
            }
            Event::Accepted { actions } => {
                self.format_errors = 0;
                self.pending = Pending::Step(OpenStep {
                    actions: actions.clone(),
                    outputs: vec![None; actions.len()],
                    interrupted: None,
                    observed: 0,
                });
            }
            Event::Rejected { code, message } => {
                self.format_errors += 1;
                self.pending = Pending::Rejected {
                    code: code.clone(),
                    message: message.clone(),
                };
            }
            Event::QueryFailed { usage, cost, .. } => {
                self.charge(usage.as_ref(), *cost, false);
                self.pending = Pending::Nothing;
            }
            Event::AskReply { reply, cost, .. } => self.charge(reply.usage.as_ref(), *cost, true),
            Event::Action { index, action } => {
                if let Pending::Step(step) = &mut self.pending {
                    step.interrupted = Some((*index, action.clone()));
                }
            }
            Event::Output {
                index,
                output,
                timestamp,
            } => {
                if let Pending::Step(step) = &mut self.pending {
                    step.interrupted = None;
                    if let Some(slot) = step.outputs.get_mut(*index) {
                        *slot = Some((output.clone(), *timestamp));
                    }
                }
            }
            Event::PluginFault { plugin, message } => {
                self.faults.push((plugin.clone(), message.clone()));
            }
            Event::Salvaged { output } => self.salvage = Some(output.clone()),
            Event::RunEnded {
                exit_status,
                submission,
                extra,
                ..
            } => {
                self.pending = Pending::Nothing;
                self.ended = Some(End {
                    exit_status: exit_status.clone(),
                    submission: submission.clone(),
                    extra: extra.clone(),
                });
            }
            Event::Asked { .. } => self.questions += 1,
            Event::Rewritten { .. }
            | Event::Denied { .. }
            | Event::ShadowDiverged { .. }
            | Event::ShadowEnded { .. } => {}
        }
    }

    /// A reply is always billed; a failure only if it says so.
    fn charge(&mut self, usage: Option<&Usage>, cost: Option<f64>, is_reply: bool) {
        if let Some(usage) = usage {
            self.usage.add(usage);
        }
        match cost {
            Some(cost) => self.cost += cost,
            None => self.cost_unknown |= is_reply || usage.is_some(),
        }
    }
}

#[cfg(test)]
mod tests;

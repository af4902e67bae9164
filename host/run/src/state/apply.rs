//! The changes of the state by each event.

use std::sync::Arc;

use serde_json::{Value, json};

use super::failures::{is_filtered, timeouts};
use super::{Confirmation, PaidReply, Phase, Salvaging, Slot, Stage, State};
use crate::calls::add_raw;
use crate::sampler::SAMPLED;
use crate::submission::submission;
use mswea_core::{Action, End, Event, Message, Object, Reply, TOOL_STATE, exit_message};
use mswea_record::{Ending, plausible_cost};

impl State {
    /// Applies one event, which was recorded at `t` (Unix seconds). What the state keeps of the event is
    /// moved, because copies of a reply or an output would cost more than the rest of a step's events.
    pub fn apply(&mut self, t: f64, event: Event) {
        if matches!(
            event,
            Event::ShadowDiverged { .. } | Event::ShadowEnded { .. }
        ) {
            // These events concern shadows only, and may be written after the end of the run.
            return;
        }
        self.started.get_or_insert(t);
        if matches!(event, Event::RunResumed { .. } | Event::Reopened { .. }) {
            // The time since the last event of the earlier process does not count.
            self.account.last = None;
        }
        self.account.take_time(t);
        self.change(t, event);
        self.last = Some(t);
    }

    fn change(&mut self, t: f64, event: Event) {
        match event {
            Event::RunStarted { .. } | Event::RunResumed { .. } | Event::Reopened { .. } => {
                self.begin(event);
            }
            Event::EnvironmentReady { .. } | Event::SetUpDone { .. } => self.prepare(event),
            Event::Opening { messages } => {
                self.messages.clear();
                self.join(messages);
                self.is_opened = true;
            }
            Event::Message { message } => self.join([message]),
            Event::QueryStarted { .. }
            | Event::Reply { .. }
            | Event::Accepted { .. }
            | Event::Rejected { .. }
            | Event::QueryFailed { .. } => self.query(event),
            Event::Retry { .. } => self.retries = self.retries.saturating_add(1),
            Event::Asked {
                processor,
                messages,
                ..
            } => {
                self.account.questions = self.account.questions.saturating_add(1);
                self.answers.ask(&processor, &messages);
            }
            Event::AskReply { reply, cost, .. } => {
                self.account.charge(reply.usage.as_ref(), cost, true);
                self.answers.answer(reply);
            }
            Event::Allowed { index }
            | Event::Confirmed { index, .. }
            | Event::Action { index, .. }
            | Event::Output { index, .. }
            | Event::Rewritten { index, .. }
            | Event::Denied { index, .. } => self.act(t, index, event),
            Event::Observed { messages, shown } => self.observe(messages, &shown),
            Event::Interrupted => self.interrupt(),
            Event::Answered {
                question,
                answer,
                message,
            } => self.answer(&question, &answer, message),
            Event::PluginFault { plugin, message } => {
                self.faults.push((plugin, message));
            }
            Event::ShadowDiverged { .. } | Event::ShadowEnded { .. } => {}
            Event::Submitted { .. }
            | Event::Ending { .. }
            | Event::SalvageStarted
            | Event::Salvaged { .. }
            | Event::RunEnded { .. } => self.close(event),
        }
    }

    fn begin(&mut self, event: Event) {
        match event {
            Event::RunStarted {
                run_id,
                host_version,
                task,
                config,
                plugins,
                parent,
                ..
            } => {
                self.run_id = run_id;
                self.task = task;
                self.parent = parent;
                self.describe(host_version, config, plugins);
            }
            Event::RunResumed {
                host_version,
                config,
                plugins,
            } => {
                self.describe(host_version, config, plugins);
                self.reopen(self.has_ended());
            }
            Event::Reopened { has_ended } => self.reopen(has_ended),
            _ => {}
        }
    }

    fn describe(&mut self, host_version: String, config: Value, plugins: Value) {
        self.host_version = host_version;
        self.config = config;
        self.plugins = plugins;
    }

    /// Removes an earlier end, and resets operations that the end of the process has aborted.
    fn reopen(&mut self, has_ended: bool) {
        while self.messages.last().is_some_and(|it| it.role == "exit") {
            self.messages.pop();
        }
        if self.phase == Phase::Querying || matches!(self.end, Some(End::Query { .. })) {
            // A query without a reply is sent again with the same number.
            self.account.queries = self.account.queries.saturating_sub(1);
        }
        // An accepted submission stays accepted: only the end has to be recorded again. After any
        // other end, the run continues.
        if has_ended {
            self.end = None;
            self.parser_faults = 0;
            self.account.format_errors = 0;
        }
        self.ended = None;
        self.is_interrupted = false;
        // The output of the salvage command stays until the command runs again.
        if self.end.is_none() || self.salvaging == Salvaging::Begun {
            self.salvaging = Salvaging::Due;
        }
        if self.answers.forget_open() {
            self.account.questions = self.account.questions.saturating_sub(1);
        }
        if let Phase::Acting(step) = &mut self.phase {
            step.reopen();
        }
        self.environment.is_ready = false;
        self.environment.is_gone = false;
        if self.phase == Phase::Querying {
            self.phase = Phase::Idle;
        }
    }

    fn prepare(&mut self, event: Event) {
        let environment = &mut self.environment;
        match event {
            Event::EnvironmentReady {
                handle,
                replaced,
                message,
            } => {
                environment.handle = handle;
                environment.is_ready = true;
                environment.is_set_up &= replaced.is_none();
                self.say(message);
            }
            Event::SetUpDone { handle } => {
                if !handle.is_null() {
                    environment.handle = handle;
                }
                environment.is_set_up = true;
            }
            _ => {}
        }
    }

    /// Adds a message of the host or of the user. If there is an open step, its remaining actions
    /// do not run, and the message follows its observations.
    pub(super) fn say(&mut self, message: Option<Message>) {
        let Some(message) = message else {
            return;
        };
        match &mut self.phase {
            Phase::Acting(step) => {
                step.is_cut = true;
                step.said.push(message);
            }
            _ => self.join([message]),
        }
    }

    fn query(&mut self, event: Event) {
        match event {
            Event::QueryStarted { query, .. } => {
                self.account.queries = query;
                self.stable = self.messages.len();
                self.phase = Phase::Querying;
            }
            Event::Reply {
                reply,
                cost,
                timestamp,
            } => {
                self.account.charge(reply.usage.as_ref(), cost, true);
                if is_counted_before(&reply) {
                    self.account.questions = self.account.questions.saturating_sub(1);
                }
                self.phase = Phase::Replied(Arc::new(PaidReply {
                    reply,
                    cost: plausible_cost(cost),
                    timestamp,
                }));
            }
            Event::Accepted { actions } => self.accept(actions),
            Event::Rejected { .. } => self.reject(event),
            Event::QueryFailed {
                usage, cost, class, ..
            } => {
                if is_filtered(&class) {
                    // Only under SWE-agent's rules the run goes on then, with a further query.
                    self.account.format_errors = self.account.format_errors.saturating_add(1);
                    if self.phase == Phase::Querying {
                        self.phase = Phase::Idle;
                    }
                }
                self.account.charge(usage.as_ref(), cost, false);
                self.answers.forget_open();
            }
            _ => {}
        }
    }

    fn reject(&mut self, event: Event) {
        let Event::Rejected {
            feedback,
            is_fault,
            requery,
            ..
        } = event
        else {
            return;
        };
        if let Some(requery) = requery {
            self.ask_again(requery, feedback, is_fault);
            return;
        }
        self.account.format_errors = self.account.format_errors.saturating_add(1);
        self.parser_faults = match is_fault {
            true => self.parser_faults.saturating_add(1),
            false => 0,
        };
        self.phase = Phase::Idle;
        self.join(feedback);
    }

    fn act(&mut self, t: f64, index: usize, event: Event) {
        let Phase::Acting(step) = &mut self.phase else {
            return;
        };
        let Some(slot) = step.slots.get_mut(index) else {
            return;
        };
        match event {
            Event::Allowed { .. } => slot.stage = Stage::Allowed,
            Event::Confirmed { policy, answer, .. } => {
                let action = slot.judged().clone();
                slot.confirmations.push(Confirmation {
                    policy,
                    action,
                    answer,
                });
            }
            Event::Action { action, .. } => {
                if action != slot.action {
                    slot.rewritten = Some(action);
                }
                slot.stage = Stage::Running;
                self.command_begun = t;
                self.has_acted = true;
            }
            Event::Output {
                output, timestamp, ..
            } => {
                if slot.stage == Stage::Running {
                    self.execution_seconds += (t - self.command_begun).max(0.0);
                    self.timeouts = timeouts(self.timeouts, &output);
                }
                self.submission = submission(&output);
                if let Some(Value::Object(state)) = output.extra.get(TOOL_STATE) {
                    self.tool_state.clone_from(state);
                }
                self.environment.is_gone = output.says_environment_gone();
                slot.stage = Stage::Done(Box::new((output, timestamp)));
            }
            Event::Rewritten {
                policy,
                original,
                action,
                ..
            } => {
                slot.verdicts.push(json!({
                    "policy": policy,
                    "verdict": "rewritten",
                    "original": original.command,
                    "executed": action.command,
                }));
                slot.rewritten = Some(action);
            }
            Event::Denied { policy, reason, .. } => slot.deny(&policy, &reason),
            _ => {}
        }
    }

    fn observe(&mut self, mut messages: Vec<Message>, shown: &[Option<usize>]) {
        let Phase::Acting(step) = std::mem::take(&mut self.phase) else {
            return self.join(messages);
        };
        for (message, index) in messages.iter_mut().zip(shown) {
            let slot = index.and_then(|index| step.slots.get(index));
            if let Some(Stage::Done(done)) = slot.map(|slot| &slot.stage) {
                add_raw(&mut message.extra, &done.0, done.1);
            }
        }
        self.join(messages);
        self.join(step.said);
    }

    fn close(&mut self, event: Event) {
        match event {
            Event::Submitted { submission } => {
                if submission.is_some() {
                    self.submission = submission;
                }
                self.end = Some(End::Submitted);
            }
            Event::Ending { end } => {
                self.environment.is_gone |= matches!(end, End::Environment { .. });
                self.end = Some(end);
            }
            Event::SalvageStarted => self.salvaging = Salvaging::Begun,
            Event::Salvaged { output } => {
                self.salvaging = Salvaging::Over;
                self.salvage = Some(output);
            }
            Event::RunEnded {
                exit_status,
                submission,
                extra,
                message,
                ..
            } => {
                // On a full disk the end may be recorded twice, the second time without the
                // submission. Then the exit message is in the history already.
                let earlier = self.ended.take().map(|ended| ended.submission);
                let submission = match earlier {
                    Some(earlier) if submission.is_empty() => earlier,
                    _ => submission,
                };
                if self.messages.last().is_none_or(|last| last.role != "exit") {
                    let error = extra.get("message").and_then(Value::as_str);
                    let exit = || exit_message(&exit_status, &submission, error);
                    let exit = message.unwrap_or_else(exit);
                    self.messages.push(Arc::new(exit));
                }
                self.ended = Some(Ending {
                    exit_status,
                    submission,
                    extra,
                });
            }
            _ => {}
        }
    }

    pub(super) fn join(&mut self, messages: impl IntoIterator<Item = Message>) {
        self.messages.extend(messages.into_iter().map(Arc::new));
    }
}

/// Whether a reply was the answer to a question, which was counted. As the reply of the query, it
/// must not be counted again.
fn is_counted_before(reply: &Reply) -> bool {
    let how = reply.message.extra.get(SAMPLED);
    how.is_some_and(|how| how.get("colleagues").is_none())
}

impl Slot {
    fn deny(&mut self, policy: &str, reason: &str) {
        self.verdicts.push(json!({
            "policy": policy,
            "verdict": "denied",
            "original": self.judged().command,
            "reason": reason,
        }));
        self.stage = Stage::Denied(format!("action was not executed: {reason}"));
    }
}

/// The message with which a reply joins the history.
pub fn accepted_message(
    reply: Reply,
    actions: &[Action],
    cost: Option<f64>,
    timestamp: f64,
) -> Message {
    let mut message = reply.message;
    let mut extra = Object::with_capacity(5 + message.extra.len());
    extra.insert("actions".into(), json!(actions));
    extra.insert("response".into(), reply.response.unwrap_or_default());
    // Programs that read trajectories add these costs. The trajectory's `info` says whether the sum
    // is complete.
    extra.insert("cost".into(), json!(cost.unwrap_or(0.0)));
    extra.insert("timestamp".into(), json!(timestamp));
    if let Some(usage) = &reply.usage {
        // Under this host's key: the format has no key for the usage.
        extra.insert("mswea".into(), json!({ "usage": usage }));
    }
    for (key, value) in std::mem::take(&mut message.extra) {
        extra.entry(key).or_insert(value);
    }
    message.extra = extra;
    message
}

//! A run out of its journal, event by event.

use std::collections::BTreeMap;
use std::path::Path;

use super::{
    Form, Left, Question, RecordedOutcome, RecordedVerdict, Run, Step, lighten, stand_ins,
};
use crate::journal::{self, Event};
use crate::roles::{Action, Message, Output, Reply};

/// Reads a run; with it, what a person should know of the file.
///
/// A torn last line is what a killed host leaves: it had not taken effect, and all that was
/// before it has.
pub(super) fn read(path: &Path, name: &str) -> Result<(Run, Option<String>), Left> {
    let mut builder = Builder::new(name);
    let log = journal::each(path, |record| builder.take(record.event))
        .map_err(|error| Left::Damaged(error.to_string()))?;
    let note = log.torn.map(|torn| {
        format!(
            "its last line ({}) is torn, as a killed run leaves it; what is before it is used",
            torn.line
        )
    });
    Ok((builder.finish(), note))
}

struct Builder {
    run: Run,
    reply: Option<(Reply, Option<f64>, f64)>,
    asked: Option<(String, Vec<Message>)>,
    /// The outputs of the open step, by the action's index.
    outputs: BTreeMap<usize, Output>,
    is_open: bool,
}

impl Builder {
    fn new(name: &str) -> Self {
        Self {
            run: Run {
                name: name.to_owned(),
                form: Form::Journal,
                run_id: String::new(),
                history: Vec::new(),
                steps: Vec::new(),
                questions: Vec::new(),
            },
            reply: None,
            asked: None,
            outputs: BTreeMap::new(),
            is_open: false,
        }
    }

    fn take(&mut self, event: Event) {
        match event {
            Event::RunStarted { run_id, .. } => self.run.run_id = run_id,
            Event::Message { message } => {
                let is_observation = matches!(message.role.as_str(), "tool" | "user");
                self.run.history.push(lighten(message));
                if self.is_open
                    && is_observation
                    && let Some(step) = self.run.steps.last_mut()
                {
                    step.observed.end = self.run.history.len();
                }
            }
            Event::QueryStarted { query } => {
                self.close(false);
                self.reply = None;
                self.run.steps.push(Step {
                    number: query,
                    seen: self.run.history.len(),
                    ..Step::default()
                });
            }
            Event::Reply {
                mut reply,
                cost,
                timestamp,
            } => {
                reply.response = None;
                if let Some(step) = self.run.steps.last_mut() {
                    step.reply = Some(Reply {
                        message: lighten(reply.message.clone()),
                        ..reply.clone()
                    });
                }
                self.reply = Some((reply, cost, timestamp));
            }
            Event::Accepted { actions } => self.accepted(actions),
            Event::Rejected { code, .. } => {
                if let Some(step) = self.run.steps.last_mut() {
                    step.outcome = Some(RecordedOutcome::Malformed(Some(code)));
                }
            }
            Event::Asked {
                purpose, messages, ..
            } => self.asked = Some((purpose, messages)),
            Event::AskReply { reply, .. } => {
                if let Some((purpose, messages)) = self.asked.take() {
                    self.run.questions.push(Question {
                        purpose,
                        messages: messages.into_iter().map(lighten).collect(),
                        reply: Reply {
                            response: None,
                            ..reply
                        },
                    });
                }
            }
            Event::Action { index, action } => self.verdict(index, RecordedVerdict::Ran(action)),
            Event::Denied {
                index,
                policy,
                reason,
                ..
            } => self.verdict(index, RecordedVerdict::Denied { policy, reason }),
            Event::Output { index, output, .. } => {
                self.outputs.insert(index, output);
            }
            Event::RunEnded { exit_status, .. } => {
                self.close(exit_status.eq_ignore_ascii_case("submitted"));
            }
            Event::Retry { .. }
            | Event::QueryFailed { .. }
            | Event::Rewritten { .. }
            | Event::PluginFault { .. }
            | Event::Salvaged { .. }
            | Event::ShadowDiverged { .. }
            | Event::ShadowEnded { .. } => {}
        }
    }

    fn accepted(&mut self, actions: Vec<Action>) {
        let Some((reply, cost, timestamp)) = self.reply.take() else {
            return;
        };
        let message = journal::accepted_message(reply, &actions, cost, timestamp);
        self.run.history.push(lighten(message));
        let here = self.run.history.len();
        if let Some(step) = self.run.steps.last_mut() {
            step.outcome = Some(RecordedOutcome::Actions(actions));
            step.observed = here..here;
            self.is_open = true;
        }
    }

    fn verdict(&mut self, index: usize, verdict: RecordedVerdict) {
        if let Some(step) = self.run.steps.last_mut() {
            step.verdicts.push((index, verdict));
        }
    }

    /// Everything of the last step is there. The output that submitted was shown to nobody.
    fn close(&mut self, is_submission: bool) {
        let mut outputs = std::mem::take(&mut self.outputs);
        if !std::mem::take(&mut self.is_open) {
            return;
        }
        if is_submission {
            outputs.pop_last();
        }
        let Some(step) = self.run.steps.last_mut() else {
            return;
        };
        let answered: Vec<&str> = self.run.history[step.observed.clone()]
            .iter()
            .filter_map(|message| message.tool_call_id.as_deref())
            .collect();
        let executed = outputs.len();
        let (mut all, skipped) =
            stand_ins(step.reply.as_ref(), step.actions(), executed, &answered);
        let actions = step.actions();
        all.extend(
            outputs
                .into_iter()
                .filter_map(|(index, output)| Some((actions.get(index)?.clone(), output))),
        );
        all.extend(skipped);
        step.outputs = all;
    }

    fn finish(mut self) -> Run {
        self.close(false);
        self.run
    }
}

//! Reads a run from its journal, event by event.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use super::{
    Left, RecordedOutcome, RecordedQuestion, RecordedVerdict, Run, RunFileFormat, Step, lighten,
    stand_ins,
};
use mswea_core::Event;
use mswea_core::{Action, Message, Output, Reply};
use mswea_record::journal;
use mswea_run::{Phase, State};

/// Reads a run; also returns a warning about the file, if there is one.
///
/// An incomplete last line is left by a host that was killed: its event had not taken effect, while
/// all earlier ones had.
pub(super) fn read(path: &Path, name: &str) -> Result<(Run, Option<String>), Left> {
    let mut builder = JournalRunBuilder::new(name);
    let log = journal::each(path, |record| builder.take(record.t, record.event))
        .map_err(|error| Left::Damaged(error.to_string()))?;
    let note = log.torn.map(|torn| {
        format!(
            "its last line ({}) is torn, as a killed run leaves it; what is before it is used",
            torn.line
        )
    });
    Ok((builder.finish(), note))
}

struct JournalRunBuilder {
    run: Run,
    /// The state after the events so far. Its messages are moved to `run` after each event.
    state: State,
    asked: Option<(String, Vec<Message>)>,
    /// The outputs of the open step, by the action's index.
    outputs: BTreeMap<usize, Output>,
    is_open: bool,
}

impl JournalRunBuilder {
    fn new(name: &str) -> Self {
        Self {
            run: Run {
                name: name.to_owned(),
                form: RunFileFormat::Journal,
                run_id: String::new(),
                history: Vec::new(),
                steps: Vec::new(),
                questions: Vec::new(),
            },
            state: State::default(),
            asked: None,
            outputs: BTreeMap::new(),
            is_open: false,
        }
    }

    fn take(&mut self, t: f64, event: Event) {
        self.state.apply(t, event.clone());
        let is_accepted = matches!(event, Event::Accepted { .. });
        for message in self.state.messages.drain(..) {
            let is_observation = matches!(message.role.as_str(), "tool" | "user");
            self.run
                .history
                .push(lighten(Arc::unwrap_or_clone(message)));
            if self.is_open
                && is_observation
                && !is_accepted
                && let Some(step) = self.run.steps.last_mut()
            {
                step.observed.end = self.run.history.len();
            }
        }
        match event {
            Event::RunStarted { run_id, .. } => self.run.run_id = run_id,
            Event::RunResumed { .. } => {
                let history = &mut self.run.history;
                while history.last().is_some_and(|it| it.role == "exit") {
                    history.pop();
                }
            }
            Event::QueryStarted { query, .. } => {
                self.close(false);
                // A query without a reply is sent again with the same number when the run is resumed.
                self.run
                    .steps
                    .pop_if(|step| step.number == query && step.reply.is_none());
                self.run.steps.push(Step {
                    number: query,
                    seen: self.run.history.len(),
                    ..Step::default()
                });
            }
            Event::Reply { reply, .. } => {
                if let Some(step) = self.run.steps.last_mut() {
                    step.reply = Some(Reply {
                        message: lighten(reply.message),
                        response: None,
                        ..reply
                    });
                }
            }
            Event::Accepted { actions } => self.accepted(actions),
            Event::Rejected { code, .. } => {
                if let Some(step) = self.run.steps.last_mut() {
                    step.outcome = Some(RecordedOutcome::Malformed(Some(code)));
                }
            }
            // A sample of the step is no question of a processor.
            Event::Asked { .. } if self.state.phase == Phase::Querying => {}
            Event::Asked {
                purpose, messages, ..
            } => self.asked = Some((purpose, messages)),
            Event::AskReply { reply, .. } => {
                if let Some((purpose, messages)) = self.asked.take() {
                    self.run.questions.push(RecordedQuestion {
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
            _ => {}
        }
    }

    fn accepted(&mut self, actions: Vec<Action>) {
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

    /// Ends the step, whose events are complete. The output that submitted was not shown to the
    /// model.
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

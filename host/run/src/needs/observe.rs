//! Makes messages of the outputs of a step. Tool calls that were not executed get a result as well,
//! also those of which the parser made no action: providers refuse a call without a result.

use super::patience::unless_over;
use crate::agent::Agent;
use crate::calls::{add_raw, answers};
use crate::multimodal::Multimodal;
use crate::plain;
use crate::prompts::template_failed;
use crate::state::{OpenStep, Stage};
use mswea_core::{Action, End, Event, Message, Output, PluginFault};

/// The actions whose outputs the model gets, with the outputs.
#[derive(Default)]
struct Outputs {
    actions: Vec<Action>,
    outputs: Vec<Output>,
    /// The index of each action in the step; none of one that did not run.
    indexes: Vec<Option<usize>>,
    /// The time of those that did not run.
    now: f64,
}

impl Outputs {
    fn push(&mut self, action: Action, output: Output, index: Option<usize>) {
        self.actions.push(action);
        self.outputs.push(output);
        self.indexes.push(index);
    }

    /// The outputs of a step. The output that submits is left out: its call gets the same result as a
    /// call that was not executed. With `is_bare`, the call that submits, the calls after it and the
    /// unused calls get no result.
    /// With `has_calls`, the parser reads tool calls; then a command of the user gets a result, too.
    fn of(step: &OpenStep, submits: bool, is_bare: bool, has_calls: bool, now: f64) -> Self {
        let mut all = Self {
            now,
            ..Self::default()
        };
        if !(submits && is_bare) {
            for action in &step.unused {
                let reason = "no command was found in this tool call";
                all.push(action.clone(), Output::not_executed(reason), None);
            }
        }
        let done = |slot: &&crate::state::Slot| matches!(slot.stage, Stage::Done(_));
        let done = step.slots.iter().take_while(done).count();
        let shown = if submits {
            done.saturating_sub(1)
        } else {
            done
        };
        for (index, slot) in step.slots[..shown].iter().enumerate() {
            if let Some(output) = slot.output() {
                all.push(slot.action.clone(), output.clone(), Some(index));
            }
        }
        let skipped = step.slots[shown..].iter().map(|slot| &slot.action);
        let is_answered =
            |action: &&Action| action.tool_call_id.is_some() || (step.is_own && has_calls);
        for action in skipped.filter(is_answered) {
            if !(submits && is_bare) {
                let output = Output::not_executed("action was not executed");
                all.push(action.clone(), output, None);
            }
        }
        all
    }
}

impl Agent {
    pub(crate) async fn observe(&mut self) -> Result<(), End> {
        let (outputs, submits, before) = {
            let state = self.recorder.state();
            let submits = state.submission.is_some();
            let bare = self.settings.bare_submission;
            let now = self.context.clock.now();
            let step = state.step();
            let has_calls = !self.parts.parser.tools().is_empty();
            let outputs = step.map(|step| {
                let hides_last = submits || step.is_withdrawn;
                Outputs::of(step, hides_last, bare, has_calls, now)
            });
            let before = state.messages.len();
            (outputs.unwrap_or_default(), submits, before)
        };
        let mut messages = Vec::new();
        if !outputs.outputs.is_empty() {
            self.update_variables();
            messages = self.formatted(&outputs, submits).await?;
        }
        let shown = self.complete(&mut messages, &outputs);
        self.record(Event::Observed { messages, shown })?;
        self.show_messages(before);
        Ok(())
    }

    /// After a submission no model will read the messages, so nothing about them fails the run.
    async fn formatted(&mut self, all: &Outputs, submits: bool) -> Result<Vec<Message>, End> {
        let time_left = self.time_left();
        let formatted = self.parts.formatter.format(&all.actions, &all.outputs);
        let plain = || plain::format(&all.actions, &all.outputs);
        let message = match unless_over(&self.context, time_left, formatted).await {
            // The run ends for this reason after the step, which is kept.
            Err(_) => return Ok(plain()),
            Ok(Ok(messages)) => match answers(&all.actions, &messages) {
                Ok(()) => return Ok(messages),
                Err(reason) => format!(
                    "plugin `{}` broke the contract: {reason}",
                    self.parts.formatter.name()
                ),
            },
            Ok(Err(PluginFault {
                template: Some(problem),
                ..
            })) => {
                let message = format!("an observation can't be rendered: {problem}");
                if !submits {
                    // The outputs are in the journal, but the model would not get them in the
                    // configured form.
                    return Err(template_failed(message));
                }
                message
            }
            Ok(Err(fault)) => fault.message,
        };
        self.fault(self.parts.formatter.name(), &message)?;
        Ok(plain())
    }

    /// Finds images, and returns for each message the index of the action whose output it shows. A message about an
    /// action that did not run gets the keys of an observation here, because its output is recorded nowhere else.
    fn complete(&self, messages: &mut [Message], all: &Outputs) -> Vec<Option<usize>> {
        let multimodal = self.parts.multimodal.as_ref();
        let images_wanted = multimodal.is_some_and(Multimodal::takes_observations);
        let one_each = messages.len() == all.outputs.len();
        let mut shown = Vec::with_capacity(messages.len());
        for (position, message) in messages.iter_mut().enumerate() {
            // By index, if there is one message for each action, because some servers use an id
            // twice.
            let same = |index: &usize| all.actions[*index].tool_call_id == message.tool_call_id;
            let belongs = match &message.tool_call_id {
                _ if one_each && same(&position) => Some(position),
                Some(_) => (0..all.actions.len()).find(same),
                None => None,
            };
            let ran = belongs.and_then(|index| all.indexes[index]);
            if let (Some(index), None) = (belongs, ran) {
                add_raw(&mut message.extra, &all.outputs[index], all.now);
            }
            shown.push(ran);
            if images_wanted {
                self.find_images(message);
            }
        }
        if shown.iter().all(Option::is_none) {
            shown.clear();
        }
        shown
    }
}

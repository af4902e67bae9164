//! Runs an action in the environment, skips it, or reports it as interrupted.

use std::borrow::Cow;
use std::time::Duration;

use serde_json::json;

use crate::agent::Agent;
use crate::escapes::without_escapes;
use crate::rules::AgentRules;
use crate::state::Slot;
use crate::submission;
use mswea_core::{Command, End, Event, Object, Output, Progress};

impl Agent {
    pub(crate) async fn run_action(&mut self, index: usize) -> Result<(), End> {
        let (action, of) = {
            let state = self.recorder.state();
            let slots = state.step().map_or(&[][..], |step| &step.slots);
            let action = slots.get(index).map(|slot| slot.judged().clone());
            (action.unwrap_or_default(), slots.len())
        };
        // The mode was another one during the query, or the run was resumed after it.
        if self.settings.has_person
            && self.remembered != Some(self.recorder.state().account.queries)
        {
            self.remember().await;
        }
        self.record(Event::Action {
            index,
            action: action.clone(),
        })?;
        self.show(&Progress::ActionStarted {
            action: &action,
            index,
            of,
        });
        let most = self.settings.action_timeout;
        let timeout = self.time_left().map_or(most, |left| {
            // Never zero: to an executor that means its own timeout.
            left.min(most).max(Duration::from_millis(1))
        });
        let command = Command {
            timeout: Some(timeout),
            ..Command::new(&action.command)
        };
        let stop = &self.context.stop;
        let mut output = self.parts.executor.execute(&command, stop).await;
        if self.settings.rules == AgentRules::SweAgent
            && let Cow::Owned(shown) = without_escapes(&output.output)
        {
            output.output = shown;
        }
        self.put_out(index, submission::refuse_cut(output))
    }

    /// Skips an action that the policies or the user did not allow.
    pub(crate) fn skip_action(&self, index: usize, reason: &str) -> Result<(), End> {
        self.put_out(index, Output::not_executed(reason))
    }

    /// The host was killed while the action ran. What it did is unknown, so it is not run again.
    pub(crate) fn report_interrupted(&self, index: usize) -> Result<(), End> {
        let mut extra = Object::new();
        extra.insert("exception_type".into(), "HostInterrupted".into());
        let output = Output::not_executed(
            "the agent's host was stopped while this command ran, and its output is lost: it may have \
             run in full, in part or not at all; it was not run again",
        );
        self.put_out(index, Output { extra, ..output })
    }

    pub(crate) fn put_out(&self, index: usize, mut output: Output) -> Result<(), End> {
        let verdicts = {
            let state = self.recorder.state();
            let slot = state.step().and_then(|step| step.slots.get(index));
            slot.map(Slot::told_verdicts).unwrap_or_default()
        };
        if !verdicts.is_empty() {
            output
                .extra
                .insert("mswea".into(), json!({ "policies": verdicts }));
        }
        // A submission that can't be recorded is not lost for that.
        self.record_or_apply(Event::Output {
            index,
            output: output.clone(),
            timestamp: self.context.clock.now(),
        })?;
        self.show(&Progress::ActionEnded {
            output: &output,
            index,
        });
        Ok(())
    }
}

//! The changes of the state by the user: interruptions, and answers to questions.

use super::{OpenStep, Phase, State};
use mswea_core::{Answer, Message};

impl State {
    pub(super) fn interrupt(&mut self) {
        self.is_interrupted = true;
        if self.end.is_none() {
            // The user was asked about the submission, and interrupted the question.
            self.withdraw();
        }
        match &mut self.phase {
            Phase::Acting(step) => step.is_cut = true,
            Phase::Querying => self.phase = Phase::Idle,
            Phase::Idle | Phase::Replied(_) => {}
        }
    }

    pub(super) fn answer(&mut self, question: &str, answer: &Answer, message: Option<Message>) {
        self.is_interrupted = false;
        if let Answer::Act { command } = answer {
            self.join(message);
            if matches!(self.phase, Phase::Idle) {
                self.phase = Phase::Acting(OpenStep::own(command));
            }
            return;
        }
        if let Some(message) = message {
            self.withdraw();
            self.say(Some(message));
            return;
        }
        match answer {
            Answer::Say { text } => {
                self.withdraw();
                self.say(Some(Message::new("user", text.as_str())));
            }
            Answer::Yes if question == "actions" => self.confirm(&[]),
            Answer::EditAll { commands } => self.confirm(commands),
            Answer::Raise { steps, cost } => {
                self.raised.steps = self.raised.steps.saturating_add(*steps);
                self.raised.cost += cost;
            }
            Answer::Yes
            | Answer::No { .. }
            | Answer::Edit { .. }
            | Answer::Act { .. }
            | Answer::TakeOver => {}
        }
    }

    /// Drops a submission that is not accepted.
    fn withdraw(&mut self) {
        let is_withdrawn = self.submission.take().is_some();
        if let Phase::Acting(step) = &mut self.phase {
            step.is_withdrawn |= is_withdrawn;
        }
    }

    fn confirm(&mut self, commands: &[String]) {
        if let Phase::Acting(step) = &mut self.phase {
            step.confirm(commands);
        }
    }
}

//! How a reply joins the history, and how it is taken back. The feedback on a reply that is not
//! used may be a temporary question, which the next accepted reply replaces.

use std::sync::Arc;

use super::apply::accepted_message;
use super::{OpenStep, Phase, State};
use crate::calls::unused_calls;
use mswea_core::{Action, Message, Requery};

impl State {
    /// Ends the history after `base` messages, and returns the rest.
    fn cut(&mut self, base: usize) -> Vec<Arc<Message>> {
        self.stable = self.stable.min(base);
        self.messages.split_off(base.min(self.messages.len()))
    }

    /// Takes the reply back, and asks the model again.
    pub(super) fn ask_again(
        &mut self,
        requery: Requery,
        feedback: Option<Message>,
        is_fault: bool,
    ) {
        let (base, question) = match std::mem::take(&mut self.phase) {
            Phase::Acting(step) => {
                self.account.format_errors = step.format_errors;
                self.cut(step.base);
                (step.base, step.question)
            }
            _ => {
                let base = self.question.unwrap_or(self.messages.len());
                (base, self.cut(base))
            }
        };
        if requery.is_counted {
            self.account.format_errors = self.account.format_errors.saturating_add(1);
        }
        self.parser_faults = match is_fault {
            true => self.parser_faults.saturating_add(1),
            false => 0,
        };
        match feedback {
            Some(feedback) => self.join(requery.quote.into_iter().chain([feedback])),
            // The same question once more.
            None => self.messages.extend(question),
        }
        self.question = (self.messages.len() > base).then_some(base);
    }

    pub(super) fn accept(&mut self, actions: Vec<Action>) {
        let format_errors = std::mem::take(&mut self.account.format_errors);
        self.parser_faults = 0;
        let Phase::Replied(paid) = std::mem::take(&mut self.phase) else {
            return;
        };
        let paid = Arc::try_unwrap(paid).unwrap_or_else(|paid| (*paid).clone());
        let base = self.question.take().unwrap_or(self.messages.len());
        let unused = unused_calls(&paid.reply, &actions);
        let message = accepted_message(paid.reply, &actions, paid.cost, paid.timestamp);
        let step = OpenStep {
            base,
            question: self.cut(base),
            format_errors,
            ..OpenStep::new(unused, actions)
        };
        self.messages.push(Arc::new(message));
        if !step.unused.is_empty() || !step.slots.is_empty() {
            self.phase = Phase::Acting(step);
        }
    }
}

//! Questions that history processors put to the model: charged, limited and recorded like
//! queries, and put once. An instance may be dropped at any time; the one after it asks again
//! what it can't know, and gets the answer that was paid for.

use std::collections::HashMap;

use async_trait::async_trait;
use sha2::{Digest as _, Sha256};

use super::Interrupt;
use super::account::{Account, Limits, Pricing};
use super::agent::record;
use super::global::GlobalAccount;
use crate::journal::Event;
use crate::roles::{
    Asker, Context, ErrorClass, Message, Model, ModelError, Progress, REMEMBERED, Reply,
};

/// The answers of a run, by processor and question.
#[derive(Default)]
pub(super) struct Answers(HashMap<[u8; 32], Reply>);

impl Answers {
    /// Names a question. Nothing but its words counts: the same ones get the same answer.
    fn key(processor: &str, messages: &[Message]) -> [u8; 32] {
        let mut hash = Sha256::new();
        hash.update(processor.as_bytes());
        for message in messages {
            // What can't be told apart by serde can't be told apart by a model.
            hash.update([0]);
            hash.update(serde_json::to_vec(message).unwrap_or_default());
        }
        hash.finalize().into()
    }
}

/// Puts a processor's question to the model.
pub(super) struct LoopAsker<'a> {
    pub(super) model: &'a mut dyn Model,
    pub(super) account: &'a mut Account,
    pub(super) pricing: &'a dyn Pricing,
    pub(super) global: &'a GlobalAccount,
    pub(super) context: &'a Context,
    pub(super) limits: &'a Limits,
    pub(super) answers: &'a mut Answers,
    /// What cut a question short that is not the processor's fault: it ends the run.
    pub(super) cut: Option<Interrupt>,
}

impl LoopAsker<'_> {
    /// Records an event; a journal that can't be written ends the run.
    fn record(&mut self, event: &Event) -> Result<(), ModelError> {
        record(self.context, event).map_err(|interrupt| self.cut_by("journal", interrupt))
    }

    fn cut_by(&mut self, class: &str, interrupt: Interrupt) -> ModelError {
        let status = interrupt.exit_status().to_owned();
        self.cut = Some(interrupt);
        ModelError::new(
            ErrorClass::Other(class.to_owned()),
            format!("the run ends (`{status}`), so nothing more is asked"),
        )
    }
}

#[async_trait]
impl Asker for LoopAsker<'_> {
    async fn ask(
        &mut self,
        processor: &str,
        purpose: &str,
        messages: Vec<Message>,
    ) -> Result<Reply, ModelError> {
        let key = Answers::key(processor, &messages);
        if let Some(answer) = self.answers.0.get(&key) {
            let mut answer = answer.clone();
            answer.extra.insert(REMEMBERED.to_owned(), true.into());
            return Ok(answer);
        }
        if let Some(interrupt) = self.cut.take() {
            return Err(self.cut_by("limit", interrupt));
        }
        let within = self.account.check(self.limits);
        if let Err(interrupt) = within.and_then(|()| self.global.check()) {
            return Err(self.cut_by("limit", interrupt));
        }
        self.account.questions += 1;
        self.record(&Event::Asked {
            processor: processor.to_owned(),
            purpose: purpose.to_owned(),
            messages: messages.clone(),
        })?;
        self.context
            .front
            .show(&Progress::Asked { processor, purpose });
        let reply = match self.model.ask(messages, self.context).await {
            Ok(reply) => reply,
            Err(error) => {
                let failed = failure(&error, self.account, self.pricing);
                self.global.add(&failed);
                self.record(&failed)?;
                if error.class == ErrorClass::Interrupted {
                    self.cut = Some(Interrupt::UserInterruption);
                }
                return Err(error);
            }
        };
        let cost = self.account.charge(reply.usage.as_ref(), self.pricing);
        // If that was the last one, the check before the next query ends the run.
        let _ = self.global.charge(cost);
        self.record(&Event::AskReply {
            processor: processor.to_owned(),
            reply: reply.clone(),
            cost,
        })?;
        self.context.front.show(&Progress::Answered {
            processor,
            reply: &reply,
            cost,
        });
        // The provider's own words are in the journal; no plugin gets them.
        let answer = Reply {
            response: None,
            ..reply
        };
        self.answers.0.insert(key, answer.clone());
        Ok(answer)
    }

    fn remembers(&self, processor: &str, messages: &[Message]) -> bool {
        let key = Answers::key(processor, messages);
        self.answers.0.contains_key(&key)
    }
}

/// Charges what a failed query or question was billed all the same; the event that tells of it.
pub(super) fn failure(error: &ModelError, account: &mut Account, pricing: &dyn Pricing) -> Event {
    let usage = error.usage.as_ref();
    Event::QueryFailed {
        class: error.class.clone(),
        message: error.message.clone(),
        usage: usage.cloned(),
        cost: usage.and_then(|usage| account.charge(Some(usage), pricing)),
    }
}

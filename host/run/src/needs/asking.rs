//! Questions of history processors to the model: charged, limited and recorded like queries. Each
//! question is sent only once: if an instance is dropped, the next one asks the same questions
//! again and gets the recorded replies.

use async_trait::async_trait;

use crate::global::GlobalAccount;
use crate::next::exceeded;
use crate::recorder::Recorder;
use crate::settings::RunLimits;
use mswea_core::{
    Asker, Context, End, Event, Message, Model, ModelError, ModelFailure, Pricing, Progress,
    REMEMBERED, Reply, Tool,
};
use mswea_record::plausible_cost;

/// Sends a processor's question to the model.
pub(crate) struct LoopAsker<'a> {
    pub(crate) model: &'a mut dyn Model,
    pub(crate) recorder: &'a Recorder,
    pub(crate) pricing: &'a dyn Pricing,
    pub(crate) global: &'a GlobalAccount,
    pub(crate) context: &'a Context,
    pub(crate) limits: &'a RunLimits,
    /// Why a question was aborted, if the processor is not at fault: this ends the run.
    pub(crate) cut: Option<End>,
}

impl LoopAsker<'_> {
    /// Records an event; a journal that can't be written ends the run.
    fn record(&mut self, event: Event) -> Result<(), ModelError> {
        let recorded = self.recorder.write(event);
        recorded.map_err(|failed| self.cut_by(ModelFailure::Journal, failed.into()))
    }

    fn cut_by(&mut self, failure: ModelFailure, end: End) -> ModelError {
        let status = end.exit_status();
        self.cut = Some(end);
        ModelError::new(
            failure,
            format!("the run ends (`{status}`), so no further question is sent"),
        )
    }

    fn check_limits(&self) -> Result<(), End> {
        if let Some(end) = exceeded(&self.recorder.state(), self.limits) {
            return Err(end);
        }
        self.global.check()
    }
}

/// A question to the model.
pub(crate) struct LoopQuestion<'q> {
    /// The asker: a processor, or another name that distinguishes the question.
    pub(crate) asker: &'q str,
    pub(crate) purpose: &'q str,
    /// The messages as the journal has them. Together with `asker` they are the question's identity.
    pub(crate) recorded: Vec<Message>,
    /// The messages that are sent.
    pub(crate) messages: Vec<Message>,
}

impl LoopAsker<'_> {
    /// Sends a question, unless it was answered before.
    pub(crate) async fn put(
        &mut self,
        question: LoopQuestion<'_>,
        tools: &[Tool],
    ) -> Result<Reply, ModelError> {
        let LoopQuestion {
            asker: processor,
            purpose,
            recorded,
            messages,
        } = question;
        let known = {
            let state = self.recorder.state();
            state.answers.get(processor, &recorded).cloned()
        };
        if let Some(mut answer) = known {
            answer.extra.insert(REMEMBERED.to_owned(), true.into());
            return Ok(answer);
        }
        if let Some(end) = self.cut.take() {
            return Err(self.cut_by(ModelFailure::Limit, end));
        }
        if let Err(end) = self.check_limits() {
            return Err(self.cut_by(ModelFailure::Limit, end));
        }
        self.record(Event::Asked {
            processor: processor.to_owned(),
            purpose: purpose.to_owned(),
            messages: recorded,
        })?;
        self.context
            .front
            .show(&Progress::Asked { processor, purpose });
        let reply = match self.model.ask(messages, tools, self.context).await {
            Ok(reply) => reply,
            Err(error) => return Err(self.failed(error)),
        };
        let usage = reply.usage.as_ref();
        let cost = plausible_cost(usage.and_then(|usage| self.pricing.cost(usage)));
        // If this reply reaches the limit, the check before the next query ends the run.
        let _ = self.global.charge(cost);
        self.record(Event::AskReply {
            processor: processor.to_owned(),
            reply: reply.clone(),
            cost,
        })?;
        self.context.front.show(&Progress::Answered {
            processor,
            reply: &reply,
            cost,
        });
        Ok(Reply {
            response: None,
            ..reply
        })
    }

    /// Records that a question has failed; returns the error, or that of the journal.
    fn failed(&mut self, error: ModelError) -> ModelError {
        match error.class {
            ModelFailure::Interrupted => self.cut = Some(End::Interrupted),
            // A later event might be written; without this one the journal is not whole.
            ModelFailure::Journal => self.cut = Some(End::of_query(&error)),
            _ => {}
        }
        let failed = failure(&error, self.pricing);
        self.global.add(&failed);
        match self.record(failed) {
            Ok(()) => error,
            Err(unwritten) => unwritten,
        }
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
        let question = LoopQuestion {
            asker: processor,
            purpose,
            recorded: messages.clone(),
            messages,
        };
        self.put(question, &[]).await
    }

    fn remembers(&self, processor: &str, messages: &[Message]) -> bool {
        let state = self.recorder.state();
        state.answers.get(processor, messages).is_some()
    }
}

/// The event of a failed query or question, with the tokens that were billed for it.
pub(super) fn failure(error: &ModelError, pricing: &dyn Pricing) -> Event {
    let usage = error.usage.as_ref();
    Event::QueryFailed {
        class: error.class.clone(),
        message: error.message.clone(),
        usage: usage.cloned(),
        cost: plausible_cost(usage.and_then(|usage| pricing.cost(usage))),
    }
}

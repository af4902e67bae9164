//! Questions to a model outside of an agent's loop. They are limited, charged and recorded like the
//! questions of history processors, in a journal of their own.

use std::sync::Arc;

use crate::global::GlobalAccount;
use crate::needs::asking::LoopAsker;
use crate::recorder::Recorder;
use crate::settings::RunLimits;
use crate::state::State;
use mswea_core::{
    Asker as _, Context, End, Event, Message, Model, ModelError, ModelFailure, Pricing, Reply,
};
use mswea_record::Account;

/// A model that is asked, and the recorder of the questions.
pub struct Inquiry {
    model: Box<dyn Model>,
    pricing: Arc<dyn Pricing>,
    global: Arc<GlobalAccount>,
    limits: RunLimits,
    context: Context,
    recorder: Arc<Recorder>,
}

impl Inquiry {
    /// An inquiry whose journal is that of `context`, with its first event recorded.
    ///
    /// # Errors
    /// The system's error if the journal can't be written.
    pub fn begin(
        model: Box<dyn Model>,
        pricing: Arc<dyn Pricing>,
        global: Arc<GlobalAccount>,
        limits: RunLimits,
        context: Context,
        first: &Event,
    ) -> std::io::Result<Self> {
        let recorder = Arc::new(Recorder::new(context.journal.clone(), State::default()));
        let context = Context {
            journal: recorder.clone(),
            ..context
        };
        recorder
            .write(first.clone())
            .map_err(std::io::Error::other)?;
        Ok(Self {
            model,
            pricing,
            global,
            limits,
            context,
            recorder,
        })
    }

    /// Sends a question. `asker` is the name of the asker, and distinguishes questions with the
    /// same text: a question of the same asker with the same text is sent only once.
    ///
    /// # Errors
    /// [`ModelError`] if there is no reply, a limit is reached, the run is stopped, or the journal
    /// can't be written.
    pub async fn ask(
        &mut self,
        asker: &str,
        purpose: &str,
        messages: Vec<Message>,
    ) -> Result<Reply, ModelError> {
        if self.context.stop.is_stopped() {
            let words = "the question is not sent: the run is stopped";
            return Err(ModelError::new(ModelFailure::Interrupted, words));
        }
        let mut sending = LoopAsker {
            model: &mut *self.model,
            recorder: &self.recorder,
            pricing: &*self.pricing,
            global: &self.global,
            context: &self.context,
            limits: &self.limits,
            cut: None,
        };
        sending.ask(asker, purpose, messages).await
    }

    /// The tokens and the cost of the questions so far.
    pub fn account(&self) -> Account {
        self.recorder.state().account.clone()
    }

    /// Records the end: of a run that is complete, or of one that was stopped.
    ///
    /// # Errors
    /// The system's error if the journal can't be written.
    pub fn end(&self, is_whole: bool) -> std::io::Result<()> {
        let end = match is_whole {
            true => End::Submitted,
            false => End::Interrupted,
        };
        let account = self.account();
        let ended = Event::RunEnded {
            exit_status: end.exit_status().to_owned(),
            submission: String::new(),
            cost: account.known_cost(),
            queries: account.questions,
            usage: account.usage,
            extra: mswea_core::Object::new(),
            message: None,
        };
        self.recorder.write(ended).map_err(std::io::Error::other)
    }
}

//! Questions to a model that belong to no agent's loop. They are limited, charged and recorded in a journal of
//! their own, as the questions of history processors are.

use std::sync::Arc;

use crate::global::GlobalAccount;
use crate::needs::asking::LoopAsker;
use crate::recorder::Recorder;
use crate::settings::RunLimits;
use crate::state::{Account, State};
use mswea_core::{
    Asker as _, Context, End, Event, Message, Model, ModelError, ModelFailure, Pricing, Reply,
};

/// A model that is asked, and the record of it.
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
    /// When the journal can't be written.
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

    /// Sends a question. `asker` is who asks and is unique among the questions, because the same question of
    /// the same asker is sent only once.
    ///
    /// # Errors
    /// [`ModelError`] if there is no reply: also at a limit, after a stop, or if the journal can't be written.
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

    /// What the questions have used so far.
    pub fn account(&self) -> Account {
        self.recorder.state().account.clone()
    }

    /// Records the end: that of a run which has done what it was to do, or which was stopped.
    ///
    /// # Errors
    /// When the journal can't be written.
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

//! The environment, the workspace, and the first messages.

use super::patience::unless_over;
use crate::agent::Agent;
use mswea_core::{End, Event, ExecutorError, Message, Object, Progress};

impl Agent {
    pub(crate) async fn make_ready(&mut self) -> Result<(), End> {
        let known = {
            let environment = &self.recorder.state().environment;
            // A container that is not on record has no handle.
            let was_there = environment.is_set_up || !environment.handle.is_null();
            was_there.then(|| environment.handle.clone())
        };
        let started = self.parts.executor.start(&self.context, known.as_ref());
        let ready = started.await.map_err(|error| self.unusable(&error))?;
        let before = self.recorder.state().messages.len();
        let is_opened = self.recorder.state().is_opened;
        let notice = ready.replaced.as_deref();
        let notice = notice.map(|why| self::notice(why, ready.is_restored));
        if let Some(notice) = &notice {
            self.show(&Progress::Warning(notice));
        }
        self.record(Event::EnvironmentReady {
            handle: ready.handle,
            replaced: ready.replaced,
            message: notice
                .filter(|_| is_opened)
                .map(|text| Message::new("user", text)),
        })?;
        self.learn_place();
        self.show_messages(before);
        Ok(())
    }

    /// Adds the executor's variables to those of the templates.
    pub(crate) fn learn_place(&self) {
        if self.recorder.state().environment.is_set_up {
            let variables = &self.parts.prompts.variables;
            variables.add(self.parts.executor.template_vars());
            variables.learn(&self.parts.executor.tool_state());
        }
    }

    pub(crate) async fn set_up(&mut self) -> Result<(), End> {
        let set_up = self.parts.executor.set_up(&self.context);
        let handle = set_up.await.map_err(|error| self.unusable(&error))?;
        self.record(Event::SetUpDone { handle })?;
        self.learn_place();
        Ok(())
    }

    fn unusable(&self, error: &ExecutorError) -> End {
        if self.context.stop.is_stopped() {
            return End::Interrupted;
        }
        End::Environment {
            message: error.to_string(),
        }
    }

    pub(crate) async fn open(&mut self) -> Result<(), End> {
        self.update_variables();
        let none = Object::new();
        let opening = self.parts.prompts.opening(&none);
        let opening = unless_over(&self.context, self.time_left(), opening).await??;
        let tried = self.parts.prompts.try_out();
        for warning in unless_over(&self.context, self.time_left(), tried).await?? {
            self.show(&Progress::Warning(&warning));
        }
        let mut messages = opening;
        for message in &mut messages {
            self.find_images(message);
        }
        self.record(Event::Opening { messages })?;
        self.show_messages(0);
        Ok(())
    }

    /// Updates the variables of templates.
    pub(crate) fn update_variables(&self) {
        let now = self.context.clock.now();
        let state = self.recorder.state();
        let variables = &self.parts.prompts.variables;
        variables.update(&state.account, now);
        variables.learn(&state.tool_state);
    }

    /// Finds the images in a message that was made from a template. Feedback on malformed replies
    /// is not searched, as in mini-swe-agent, because it quotes the model.
    pub(crate) fn find_images(&self, message: &mut Message) {
        if let Some(multimodal) = &self.parts.multimodal
            && let Err(error) = multimodal.expand(message)
        {
            self.show(&Progress::Warning(&error.to_string()));
        }
    }
}

/// The message to the model about a new environment: which of its changes are there.
fn notice(why: &str, is_restored: bool) -> String {
    let files = match is_restored {
        true => {
            "The files of the repository have been restored; whatever else those commands changed in the \
             old one is not there."
        }
        false => "What those commands changed in the old one is not there.",
    };
    format!(
        "The environment that the commands so far ran in is gone ({why}). A new one has been made. {files}"
    )
}

//! The end of a run: saves the work, ends everything that was started, and records the end.

use std::time::Duration;

use crate::agent::{Agent, Ended};
use mswea_core::{Command, End, Event, Message, Object, Output, Progress, Stop, exit_message};
use mswea_git::SavedChanges;
use serde_json::Value;

/// The time limit of the clean-up after the run was asked twice to stop.
const LAST_WAIT: Duration = Duration::from_secs(2);

/// Stands for the script that prints the changes, as in the config.
const OWN_COMMAND: &str = "@patch";

/// Why there is no environment to save from.
enum Lost {
    Place(String),
    /// The journal can't be written.
    Recording(End),
}

impl Agent {
    /// Whether there is work to be saved. There is none before the first command or before the end of
    /// the set-up, and work that an earlier end has saved is not saved again.
    pub(crate) fn has_work(&self) -> bool {
        let state = self.recorder.state();
        let environment = &state.environment;
        let can_be_ready = environment.is_ready || state.end == Some(End::Submitted);
        let is_usable = can_be_ready && environment.is_set_up && !environment.is_gone;
        // The executor's command may be known only once the environment is ready.
        let has_command = self.salvage_command().is_some()
            || !environment.is_ready && !self.settings.salvage_is_explicit;
        // Nothing that this host does itself is done before a command has run.
        let has_begun = match self.settings.salvage_is_explicit {
            true => state.account.queries > 0,
            false => state.has_acted,
        };
        is_usable && has_begun && has_command
    }

    /// Saves the work, whatever ended the run. A second Ctrl-C skips this; if the run has
    /// submitted, its work is safe, and the first Ctrl-C skips it.
    pub(crate) async fn salvage(&mut self) -> Result<(), End> {
        self.parts.person.leave();
        if !self.recorder.state().environment.is_ready {
            match self.find_place().await {
                Ok(()) => {}
                Err(Lost::Recording(end)) => return Err(end),
                Err(Lost::Place(why)) => {
                    let lost = format!("the salvage of the changes is lost: {why}");
                    return self.give_up_salvage("SalvageLost", &lost);
                }
            }
        }
        let Some(command) = self.salvage_command() else {
            return Ok(());
        };
        let begun = self.record_or_apply(Event::SalvageStarted);
        let is_submitted = self.recorder.state().end == Some(End::Submitted);
        // The result is recorded before the environment is removed, which may take seconds.
        let saved = match self.save(&command, is_submitted).await {
            Some(output) => {
                let output = self.told(&command, output);
                self.record_or_apply(Event::Salvaged { output })
            }
            None => self.give_up_salvage("SalvageStopped", "the salvage command was stopped"),
        };
        begun.and(saved)
    }

    /// A host that was killed after the submission has left its environment: finds it again.
    async fn find_place(&mut self) -> Result<(), Lost> {
        let known = self.recorder.state().environment.handle.clone();
        let stop = self.context.stop.clone();
        let started = tokio::select! {
            biased;
            () = stop.stopped() => return Err(Lost::Place("the run was stopped again".to_owned())),
            started = self.parts.executor.start(&self.context, Some(&known)) => started,
        };
        let ready = started.map_err(|error| Lost::Place(error.to_string()))?;
        let event = Event::EnvironmentReady {
            handle: ready.handle,
            replaced: ready.replaced.clone(),
            message: None,
        };
        self.record_or_apply(event).map_err(Lost::Recording)?;
        match ready.replaced {
            Some(why) => Err(Lost::Place(format!(
                "the environment that it worked in is gone ({why})"
            ))),
            None => Ok(()),
        }
    }

    /// Records why nothing was saved. After another end than a submission, the user has stopped the salvage
    /// twice, and is not told.
    fn give_up_salvage(&self, kind: &str, why: &str) -> Result<(), End> {
        if self.recorder.state().end == Some(End::Submitted) {
            let text = format!("{why}; this does not change the submission");
            self.show(&Progress::Warning(&text));
        }
        let mut output = Output::not_executed(why);
        output.extra.insert("exception_type".into(), kind.into());
        self.record_or_apply(Event::Salvaged { output })
    }

    fn salvage_command(&self) -> Option<String> {
        if self.settings.salvage_is_explicit {
            return self.settings.salvage_command.clone();
        }
        let command = self.parts.executor.salvage_command()?;
        Some(format!("{}{command}", self.settings.salvage_prologue))
    }

    /// The result of the salvage: the patch, with what can't be in it, which the user is told.
    fn told(&self, command: &str, mut output: Output) -> Output {
        if !self.settings.salvage_is_explicit {
            // The reason contains the command, which is a long script of this host's own.
            output.exception_info = output.exception_info.replace(command, OWN_COMMAND);
            if let Some(Value::String(reason)) = output.extra.get_mut("exception") {
                *reason = reason.replace(command, OWN_COMMAND);
            }
        }
        if !output.exception_info.is_empty() {
            let why = &output.exception_info;
            self.show(&Progress::Warning(&format!(
                "the changes are not saved: {why}"
            )));
        }
        if self.settings.salvage_is_explicit {
            return output;
        }
        let Some(saved) = SavedChanges::of(&output.output) else {
            if output.exception_info.is_empty() {
                self.show(&Progress::Warning(
                    "the changes are not saved: the environment's shell could not run the script for it",
                ));
            }
            return output;
        };
        output.output = saved.patch;
        if output.extra.contains_key("elided_bytes") {
            self.show(&Progress::Warning(
                "saved changes: the patch is larger than what is kept of it, and can't be applied",
            ));
            output.returncode = 1;
        }
        for note in &saved.notes {
            self.show(&Progress::Warning(&format!("saved changes: {note}")));
        }
        if !saved.notes.is_empty() {
            output.extra.insert("notes".into(), saved.notes.into());
        }
        if let Some(archive) = saved.archive {
            // The patch is not all.
            output.returncode = 1;
            output.extra.insert("archive".into(), archive.into());
        }
        output
    }

    async fn save(&mut self, command: &str, is_submitted: bool) -> Option<Output> {
        let stop = self.context.stop.clone();
        let never = Stop::never();
        let command = Command {
            text: command,
            timeout: Some(self.settings.salvage_timeout),
            whole: true,
            apart: true,
        };
        let given_up = async {
            match is_submitted {
                true => stop.stopped().await,
                false => stop.stopped_twice().await,
            }
        };
        tokio::select! {
            biased;
            () = given_up => None,
            output = self.parts.executor.execute(&command, &never) => Some(output),
        }
    }

    /// Ends everything that was started, and records the end.
    pub(crate) async fn close(mut self, end: End) -> Ended {
        self.parts.person.leave();
        self.clean_up().await;
        let end = self.record_end(end);
        let exit_status = self.exit_status(&end);
        let state = std::mem::take(&mut *self.recorder.state());
        let saved = self.settings.rules.saved(&state, &end);
        let submission = saved.or_else(|| state.submission.clone());
        let submission = submission.unwrap_or_default();
        self.show(&Progress::Ended {
            end: &end,
            exit_status: &exit_status,
            submission: &submission,
            cost: state.account.known_cost(),
            steps: state.account.queries,
            usage: &state.account.usage,
        });
        Ended {
            end,
            exit_status,
            submission,
            account: state.account.clone(),
            state,
            is_recorded: self.recorder.is_complete(),
        }
    }

    async fn clean_up(&mut self) {
        self.forget().await;
        // After a second Ctrl-C, the guardian and the next start of the host finish the clean-up.
        let stop = self.context.stop.clone();
        let unfinished = tokio::select! {
            () = self.parts.executor.cleanup() => false,
            () = async {
                stop.stopped_twice().await;
                tokio::time::sleep(LAST_WAIT).await;
            } => true,
        };
        if unfinished {
            self.show(&Progress::Warning(
                "not everything is cleaned up: what is left is removed in the background, by the next \
                 start, or by `mswea-host gc`",
            ));
        }
        for onlooker in std::mem::take(&mut self.parts.onlookers) {
            tokio::select! {
                seen = onlooker.finish() => self.show(&Progress::Seen(&seen)),
                () = stop.stopped_twice() => {}
            }
        }
    }

    /// Records the end. On a full disk there may be room for the end although there is none for the
    /// submission. Returns why the run ended: its own reason, or that the journal can't be written.
    fn record_end(&self, end: End) -> End {
        let before = self.recorder.state().messages.len();
        let submission = self.submission(&end);
        let mut recorded = self.record(self.ended(&end, submission, self.exit_with_images(&end)));
        if recorded.is_err() {
            recorded = self.record_or_apply(self.ended(&end, String::new(), None));
        }
        self.show_messages(before);
        recorded.err().unwrap_or(end)
    }

    /// The submission: the model's, or what the salvage command has saved.
    fn submission(&self, end: &End) -> String {
        let state = self.recorder.state();
        let saved = self.settings.rules.saved(&state, end);
        saved.unwrap_or_else(|| state.submitted().to_owned())
    }

    fn exit_status(&self, end: &End) -> String {
        let rules = self.settings.rules;
        let is_saved = rules.saved(&self.recorder.state(), end).is_some();
        rules.exit_status(end, is_saved)
    }

    /// The exit message of a failure, where images are searched for: mini-swe-agent searches in it.
    fn exit_with_images(&self, end: &End) -> Option<Message> {
        let error = end.error().filter(|_| self.parts.multimodal.is_some())?;
        let submission = self.submission(end);
        let mut exit = exit_message(&self.exit_status(end), &submission, Some(error));
        self.find_images(&mut exit);
        Some(exit)
    }

    fn ended(&self, end: &End, submission: String, message: Option<Message>) -> Event {
        let exit_status = self.exit_status(end);
        let state = self.recorder.state();
        let mut extra = Object::new();
        if let Some(error) = end.error() {
            extra.insert("message".into(), error.into());
        }
        Event::RunEnded {
            exit_status,
            submission,
            cost: state.account.known_cost(),
            queries: state.account.queries,
            usage: state.account.usage.clone(),
            extra,
            message,
        }
    }
}

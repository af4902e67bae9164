//! An agent: the parts of a run, its state, and the functions that perform its needs.

use std::sync::Arc;
use std::time::Duration;

use super::next::time_left_at;
use super::recorder::Recorder;
use super::settings::{Parts, RunSettings};
use super::state::State;
use mswea_core::{Context, End, Event, Message, Progress};
use mswea_record::Account;

/// One run of one task.
pub struct Agent {
    pub(crate) parts: Parts,
    pub(crate) settings: RunSettings,
    /// Its journal is `recorder`.
    pub(crate) context: Context,
    pub(crate) recorder: Arc<Recorder>,
    /// The number of messages of the history that the processors have got.
    pub(crate) seen: usize,
    /// The query whose actions have their files remembered.
    pub(crate) remembered: Option<u32>,
}

/// The result of a run.
#[derive(Clone, Debug)]
pub struct Ended {
    /// Why the run ended.
    pub end: End,
    /// The same end as an exit status under the run's rules, as in the trajectory.
    pub exit_status: String,
    /// The submission; empty if there is none. The run may have ended for another reason after the
    /// submission.
    pub submission: String,
    /// The tokens, the cost and the time that the run has used.
    pub account: Account,
    /// The state after the last event, with the whole history.
    pub state: State,
    /// Whether the journal has all events of this state.
    pub is_recorded: bool,
}

impl Agent {
    /// An agent that begins with `state`: the default one for a new run, or the state that
    /// [`State::apply`] made of a journal. The first event must be `RunStarted` or `RunResumed`.
    pub fn new(parts: Parts, settings: RunSettings, context: Context, state: State) -> Self {
        let recorder = Arc::new(Recorder::new(context.journal.clone(), state));
        let settings = RunSettings {
            has_policies: !parts.policies.is_empty(),
            has_person: parts.person.is_present(),
            ..settings
        };
        Self {
            context: Context {
                journal: recorder.clone(),
                ..context
            },
            parts,
            settings,
            recorder,
            seen: 0,
            remembered: None,
        }
    }

    /// Records how the run begins.
    ///
    /// # Errors
    /// When the journal can't be written.
    pub fn begin(&self, event: &Event) -> std::io::Result<()> {
        self.context.journal.record(event).map(drop)
    }

    /// Records an event, which changes the state.
    pub(crate) fn record(&self, event: Event) -> Result<(), End> {
        Ok(self.recorder.write(event)?)
    }

    /// As `record`, but the state changes also if the event can't be written.
    pub(crate) fn record_or_apply(&self, event: Event) -> Result<(), End> {
        Ok(self.recorder.write_or_apply(event)?)
    }

    pub(crate) fn show(&self, progress: &Progress<'_>) {
        self.context.front.show(progress);
    }

    /// Shows the messages that joined the history since it had `before` of them.
    pub(crate) fn show_messages(&self, before: usize) {
        let new: Vec<Arc<Message>> = {
            let state = self.recorder.state();
            state.messages.iter().skip(before).cloned().collect()
        };
        for message in new {
            self.show(&Progress::Message(&message));
        }
    }

    /// Records that a plugin failed; the run goes on without its result.
    pub(crate) fn fault(&self, plugin: &str, message: &str) -> Result<(), End> {
        self.show(&Progress::Warning(message));
        self.record(Event::PluginFault {
            plugin: plugin.to_owned(),
            message: message.to_owned(),
        })
    }

    /// The time until the run has to end; `None` without a limit.
    pub(crate) fn time_left(&self) -> Option<Duration> {
        let now = self.context.clock.now();
        time_left_at(&self.recorder.state(), &self.settings.limits, now)
    }
}

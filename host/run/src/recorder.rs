//! The journal of a run, and the state that is computed from its events. Recording an event changes
//! the state; an event that can't be written changes nothing.

use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::state::State;
use mswea_core::{End, Event, Journal};

/// Records events and applies them.
pub(crate) struct Recorder {
    journal: Arc<dyn Journal>,
    state: Mutex<State>,
    /// Whether an event was applied that the journal does not have.
    is_incomplete: AtomicBool,
    /// Looks at the state after each event.
    #[cfg(test)]
    pub(crate) watch: std::sync::OnceLock<StateWatch>,
}

/// Looks at the state after each event.
#[cfg(test)]
pub(crate) type StateWatch = Box<dyn Fn(&State) + Send + Sync>;

/// An event could not be written. The run must end, whichever role recorded the event.
#[derive(Debug, thiserror::Error)]
#[error("the journal can't be written: {cause}; {consequence}")]
pub(crate) struct JournalFailed {
    cause: String,
    consequence: &'static str,
}

impl From<JournalFailed> for End {
    fn from(failed: JournalFailed) -> Self {
        Self::Journal {
            message: failed.to_string(),
        }
    }
}

impl Recorder {
    /// A recorder that begins with `state`.
    pub(crate) fn new(journal: Arc<dyn Journal>, state: State) -> Self {
        Self {
            journal,
            state: Mutex::new(state),
            is_incomplete: AtomicBool::new(false),
            #[cfg(test)]
            watch: std::sync::OnceLock::new(),
        }
    }

    /// The state. The guard must not be held across an `await`.
    pub(crate) fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Writes an event, and changes the state by it.
    ///
    /// # Errors
    /// [`JournalFailed`] if it can't be written; the state is as it was.
    pub(crate) fn write(&self, event: Event) -> Result<(), JournalFailed> {
        self.put(event, false)
    }

    /// As [`Recorder::write`], but the state changes also if the event can't be written.
    ///
    /// # Errors
    /// [`JournalFailed`] if it can't be written.
    pub(crate) fn write_or_apply(&self, event: Event) -> Result<(), JournalFailed> {
        self.put(event, true)
    }

    fn put(&self, event: Event, applies_always: bool) -> Result<(), JournalFailed> {
        let mut state = self.state();
        let (t, recorded) = match self.journal.record(&event) {
            Ok(t) => (t, Ok(())),
            Err(error) => {
                let failed = JournalFailed {
                    cause: error.to_string(),
                    consequence: consequence(&event),
                };
                if !applies_always {
                    return Err(failed);
                }
                self.is_incomplete.store(true, Ordering::Relaxed);
                (state.last.unwrap_or_default(), Err(failed))
            }
        };
        state.apply(t, event);
        #[cfg(test)]
        if let (Ok(()), Some(watch)) = (&recorded, self.watch.get()) {
            watch(&state);
        }
        recorded
    }

    /// Whether the journal has all events of the state.
    pub(crate) fn is_complete(&self) -> bool {
        !self.is_incomplete.load(Ordering::Relaxed)
    }

    /// Waits for the disk, if the journal promises that.
    ///
    /// # Errors
    /// [`JournalFailed`] if the disk reports a failure.
    pub(crate) async fn synced(&self) -> Result<(), JournalFailed> {
        let synced = self.journal.synced().await;
        synced.map_err(|error| JournalFailed {
            cause: error.to_string(),
            consequence: "what was recorded last may be lost if this machine stops",
        })
    }
}

/// The journal that the roles get.
impl Journal for Recorder {
    fn record(&self, event: &Event) -> io::Result<f64> {
        self.write(event.clone()).map_err(io::Error::other)?;
        Ok(self.state().last.unwrap_or_default())
    }
}

fn consequence(event: &Event) -> &'static str {
    match event {
        Event::Reply { .. } | Event::AskReply { .. } => {
            "the model's last reply was paid for and is not recorded"
        }
        Event::Output { .. } => "the last command has run and its output is not recorded",
        Event::Salvaged { .. } => "what the salvage command printed is not recorded",
        Event::RunEnded { .. } => "the end of the run is not recorded",
        _ => "nothing more was done",
    }
}

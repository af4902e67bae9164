//! A new run that begins with the first steps of an earlier one.

use std::path::Path;

use mswea_core::{Answer, Event, Executor, Parent};
use mswea_record::journal::{Record, Reopened};
use mswea_run::{first_steps, fold, of_fork};

use super::{Earlier, EarlierError, of_journal};

/// The step at which a new run leaves the earlier one.
#[derive(Debug)]
pub(crate) struct Fork {
    /// The number of steps with which the new run begins.
    step: u32,
    /// The recorded events of these steps.
    pub(crate) events: Vec<Event>,
    /// The changes in the workspace after these steps, as a patch, if they were recorded.
    patch: Option<String>,
    /// Whether the workspace is restored to its state after these steps.
    restores: bool,
}

impl Fork {
    /// A fork without steps of the earlier run.
    pub(super) fn of_nothing() -> Self {
        Self {
            step: 0,
            events: Vec::new(),
            patch: None,
            restores: false,
        }
    }

    /// The patch to be restored; none if the workspace stays as it is.
    pub(crate) fn patch(&self) -> Option<&str> {
        self.patch.as_deref().filter(|_| self.restores)
    }
}

impl Earlier {
    /// Opens a journal for a new run that begins with its first `step` steps. With `restores`, the
    /// workspace is restored to its state after them.
    ///
    /// # Errors
    /// [`EarlierError`] in the cases of [`Earlier::to_read`]; if the run has fewer steps, or
    /// submits in the last of them; or if the workspace is to be restored and its state was not
    /// recorded.
    pub fn to_fork(journal: &Path, step: u32, restores: bool) -> Result<Self, EarlierError> {
        let mut earlier = Self::to_read(journal)?;
        let steps = earlier.state.account.queries;
        if step > steps {
            return Err(EarlierError::BeyondEnd { step, steps });
        }
        let part = first_steps(&earlier.records, step);
        if fold(part).submission.is_some() {
            return Err(EarlierError::SubmitsThere { step });
        }
        let patch = match step {
            0 => Some(String::new()),
            _ => last_saved(part),
        };
        if restores && earlier.is_foreign {
            return Err(EarlierError::ForeignWorkspace);
        }
        if restores && patch.is_none() {
            return Err(EarlierError::NoPatch { step });
        }
        let events = of_fork(part);
        earlier.fork = Some(Fork {
            step,
            events,
            patch,
            restores,
        });
        Ok(earlier)
    }

    /// Opens a journal for a new run that begins with all its steps, followed by a message of the
    /// user. The workspace stays as it is. An earlier submission does not count, nor does an end by
    /// a limit.
    ///
    /// # Errors
    /// [`EarlierError`] in the cases of [`Earlier::to_read`], or if the run continues in another
    /// process.
    pub fn to_continue(journal: &Path, text: &str) -> Result<Self, EarlierError> {
        let mut earlier = Self::to_read(journal)?;
        if !earlier.is_foreign {
            // Opening it with a lock refuses a run that continues in another process.
            drop(Reopened::open(journal).map_err(|error| of_journal(journal, error))?);
        }
        let mut events = of_fork(&earlier.records);
        events.retain(|event| !matches!(event, Event::Submitted { .. }));
        events.push(Event::Answered {
            question: "submission".to_owned(),
            answer: Answer::Say {
                text: text.to_owned(),
            },
            message: None,
        });
        earlier.fork = Some(Fork {
            step: earlier.state.account.queries,
            events,
            patch: None,
            restores: false,
        });
        Ok(earlier)
    }

    /// Checks, before a file is written, that the files can be restored, if that is requested.
    ///
    /// # Errors
    /// [`EarlierError::NotRestorable`] if the environment of the new run has no repository.
    pub(crate) fn check_restore(&self, place: &dyn Executor) -> Result<(), EarlierError> {
        match self.fork.as_ref().and_then(Fork::patch) {
            None => Ok(()),
            Some(_) => place
                .check_restore()
                .map_err(|error| EarlierError::NotRestorable {
                    reason: error.to_string(),
                }),
        }
    }

    /// The run and the step from which the new run comes.
    pub(crate) fn parent(&self) -> Option<Parent> {
        let fork = self.fork.as_ref()?;
        Some(Parent {
            run_id: self.state.run_id.clone(),
            step: fork.step,
        })
    }
}

/// The information of an event about the changes in the workspace.
enum Saved {
    /// The changes are this patch.
    Patch(String),
    /// The changes differ from those that were saved before.
    Unknown,
}

impl Saved {
    /// None for an event without such information.
    fn of(event: &Event) -> Option<Self> {
        match event {
            Event::Salvaged { output }
                if output.returncode == 0 && output.exception_info.is_empty() =>
            {
                Some(Self::Patch(output.output.clone()))
            }
            Event::Salvaged { .. } | Event::Action { .. } | Event::Output { .. } => {
                Some(Self::Unknown)
            }
            _ => None,
        }
    }
}

/// The patch that the last end of a run has recorded, unless commands have run since.
fn last_saved(records: &[Record]) -> Option<String> {
    let last = records.iter().rev().find_map(|it| Saved::of(&it.event));
    match last? {
        Saved::Patch(patch) => Some(patch),
        Saved::Unknown => None,
    }
}

/// The same, unless the saved text is not a patch.
pub(super) fn last_patch(records: &[Record]) -> Option<String> {
    last_saved(records).filter(|it| it.is_empty() || it.starts_with("diff --git "))
}

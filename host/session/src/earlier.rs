//! The journal of an earlier run, from which a run continues.

mod copies;
mod error;
mod finish;
mod foreign;
mod fork;
mod kept;
mod others;
mod place;
mod plugins;
mod trust;

use std::path::{Path, PathBuf};

use serde_json::Value;

use mswea_core::{Event, Executor};
use mswea_record::journal::{self, JournalError, Log, Record, Reopened, TornLine, UnknownEvent};
use mswea_run::fold;
use mswea_run::{RunSettings, State};

use super::shell;
pub use error::EarlierError;
use fork::Fork;
use mswea_record::index::HeldRunId;
use mswea_record::{RunFiles, trajectory_of};
pub(crate) use others::Others;
use place::RestoredPlace;
pub(crate) use plugins::ASKED;
pub use trust::UntrustedRecord;

/// The highest plausible cost of one query.
const MOST_DOLLARS: f64 = 1e9;

/// The journal of an earlier run.
#[derive(Debug)]
pub struct Earlier {
    journal: PathBuf,
    records: Vec<Record>,
    torn: Option<TornLine>,
    state: State,
    /// The config and the plugins with which the run continues.
    kept: kept::Kept,
    /// The lock of the journal, if the same run continues.
    held: Option<Reopened>,
    /// The id of the run, if the run itself goes on.
    held_id: Option<HeldRunId>,
    /// The plugins that the flags of this process name.
    named_anew: Vec<String>,
    accepts_changes: bool,
    /// The fork; none if the same run continues.
    fork: Option<Fork>,
    /// Whether the run is only replayed.
    is_replay: bool,
    /// It is a trajectory, and not a journal.
    is_foreign: bool,
}

impl Earlier {
    /// Opens the journal of a run that is to be continued. It is locked, and unchanged until the
    /// run has begun.
    ///
    /// # Errors
    /// [`EarlierError`] if it is no journal, is damaged, is of a later version, if its run goes on in
    /// another process or in another copy of the journal, or if the run has submitted and is over.
    pub fn to_resume(journal: &Path) -> Result<Self, EarlierError> {
        if foreign::read(journal).is_some() {
            return Err(EarlierError::ForeignResume {
                trajectory: journal.to_owned(),
            });
        }
        let (held, log) = Reopened::open(journal).map_err(|error| of_journal(journal, error))?;
        let mut earlier = Self::of(journal, log, Some(held))?;
        earlier.check_copy()?;
        if earlier.has_submitted() {
            let state = &earlier.state;
            return Err(EarlierError::Submitted {
                run_id: state.run_id.clone(),
                journal: journal.to_owned(),
                before: state.account.queries.saturating_sub(1),
            });
        }
        Ok(earlier)
    }

    /// The journal of a run that is only read; it may still go on. A trajectory in its place
    /// ([`Earlier::is_trajectory`]) is read as the events that it amounts to.
    ///
    /// # Errors
    /// [`EarlierError`] if it is not a journal, is damaged, or is of a later version.
    pub fn to_read(journal: &Path) -> Result<Self, EarlierError> {
        if let Some(value) = foreign::read(journal) {
            let log = foreign::log(journal, &value)?;
            return Ok(Self {
                is_foreign: true,
                ..Self::of(journal, log, None)?
            });
        }
        let log = journal::read(journal).map_err(|error| of_journal(journal, error))?;
        Self::of(journal, log, None)
    }

    /// Calls `take` with the events of such a file one by one, so that a long journal is never in
    /// memory as a whole.
    ///
    /// # Errors
    /// [`EarlierError`] in the cases of [`Earlier::to_read`]. The events before the error have been
    /// passed on.
    pub fn each(journal: &Path, mut take: impl FnMut(&Record)) -> Result<(), EarlierError> {
        if let Some(value) = foreign::read(journal) {
            let log = foreign::log(journal, &value)?;
            log.records.iter().for_each(take);
            return Ok(());
        }
        let (mut first, mut host, mut wrong) = (None, String::new(), None);
        let read = journal::each(journal, |record| {
            if let Event::RunStarted { host_version, .. } | Event::RunResumed { host_version, .. } =
                &record.event
            {
                host.clone_from(host_version);
            }
            first.get_or_insert(matches!(record.event, Event::RunStarted { .. }));
            wrong = wrong.take().or_else(|| impossible(&record));
            take(&record);
        });
        let log = read.map_err(|error| of_journal(journal, error))?;
        check_log(journal, first, wrong, log.unknown, host)
    }

    fn of(path: &Path, log: Log, held: Option<Reopened>) -> Result<Self, EarlierError> {
        let journal = path.to_owned();
        let first = log.records.first();
        let first = first.map(|record| matches!(record.event, Event::RunStarted { .. }));
        let wrong = log.records.iter().find_map(impossible);
        let host = log.records.iter().rev().find_map(host_of);
        let host = host.unwrap_or_default().to_owned();
        check_log(path, first, wrong, log.unknown, host)?;
        let state = fold(&log.records);
        Ok(Self {
            kept: kept::Kept::of(&log.records),
            state,
            records: log.records,
            torn: log.torn,
            journal,
            held,
            held_id: None,
            named_anew: Vec::new(),
            accepts_changes: false,
            fork: None,
            is_replay: false,
            is_foreign: false,
        })
    }

    /// Whether a file is a trajectory of mini-swe-agent, which `fork` and `replay` accept in place
    /// of a journal.
    pub fn is_foreign_trajectory(path: &Path) -> bool {
        !foreign::is_own(path) && Self::is_trajectory(path)
    }

    /// Whether a file is a trajectory: mini-swe-agent's, or one of this host, which has a journal in most cases.
    pub fn is_trajectory(path: &Path) -> bool {
        foreign::read(path).is_some()
    }

    /// Whether nothing will be sent or run ([`Earlier::to_replay`]).
    pub fn is_replay(&self) -> bool {
        self.is_replay
    }

    pub(crate) fn is_foreign(&self) -> bool {
        self.is_foreign
    }

    /// A text about the data that is not recorded of the run; none if it has a journal.
    pub fn lacks(&self) -> Option<String> {
        let what = match foreign::is_own(&self.journal) {
            _ if !self.is_foreign => return None,
            true => "a trajectory without its journal: the files of the workspace are not in it",
            false => {
                "a trajectory of mini-swe-agent: the plugins and the files of the workspace are not in it; the \
                 plugins are those of its config and the flags"
            }
        };
        Some(format!("`{}` is {what}", self.journal.display()))
    }

    /// Allows the run to continue with plugins that have changed since.
    pub fn accept_changed_plugins(&mut self) {
        self.accepts_changes = true;
    }

    /// The state of the run at the end of the journal.
    pub fn state(&self) -> &State {
        &self.state
    }

    /// The config with which the run continues. A `resume` whose environment did not become ready
    /// has not changed it.
    pub fn config(&self) -> &Value {
        &self.kept.config
    }

    /// The same config, from which the caller may remove values.
    pub fn config_mut(&mut self) -> &mut Value {
        &mut self.kept.config
    }

    /// The journal.
    pub fn journal(&self) -> &Path {
        &self.journal
    }

    /// The end of the journal, if its last line is incomplete.
    pub fn torn(&self) -> Option<&TornLine> {
        self.torn.as_ref()
    }

    /// The files of the run.
    pub fn files(&self) -> RunFiles {
        RunFiles {
            trajectory: trajectory_of(&self.journal, &self.state.config),
            journal: self.journal.clone(),
        }
    }

    /// The value of `MSWEA_RUN_ID` for the processes of the continued run. It differs from the
    /// earlier values, because the guardian of a killed host may be ending the earlier processes at
    /// this moment.
    pub(crate) fn process_id(&self) -> String {
        self.process_id_of(self.resumed_times() + 1)
    }

    /// The values of `MSWEA_RUN_ID` of all earlier processes of the run.
    pub(crate) fn process_ids(&self) -> Vec<String> {
        let times = 0..=self.resumed_times();
        times.map(|times| self.process_id_of(times)).collect()
    }

    fn resumed_times(&self) -> usize {
        let is_resumed = |event: &&Event| matches!(event, Event::RunResumed { .. });
        self.events().filter(is_resumed).count()
    }

    fn process_id_of(&self, times: usize) -> String {
        match times {
            0 => self.state.run_id.clone(),
            times => format!("{}.{times}", self.state.run_id),
        }
    }

    /// Opens the journal of a run that is to be replayed.
    ///
    /// # Errors
    /// [`EarlierError`] in the cases of [`Earlier::to_read`]; [`EarlierError::NoOutputs`] for a
    /// trajectory without the outputs of its commands.
    pub fn to_replay(journal: &Path) -> Result<Self, EarlierError> {
        let mut earlier = Self::to_read(journal)?;
        earlier.check_replayable()?;
        earlier.fork = Some(Fork::of_nothing());
        earlier.is_replay = true;
        Ok(earlier)
    }

    /// The records.
    pub fn records(&self) -> &[Record] {
        &self.records
    }

    /// Removes the records after the event with this number, to replay a part of the run.
    pub fn end_at(&mut self, seq: u64) {
        self.records.retain(|record| record.seq <= seq);
    }

    /// Takes the records, for a replay.
    pub(crate) fn take_records(&mut self) -> Vec<Record> {
        std::mem::take(&mut self.records)
    }

    /// The events of a fork's first steps; none if the same run continues.
    pub(crate) fn forked(&self) -> Option<&[Event]> {
        Some(&self.fork.as_ref()?.events)
    }

    /// Wraps the environment of a continued run, whose files are those of its last end, or of a
    /// fork. On the host's own disk, a fork works in the same folder.
    pub(crate) fn place(
        &self,
        inner: Box<dyn Executor>,
        on_host: bool,
        others: &Others,
        settings: &RunSettings,
        mut own_files: Vec<String>,
    ) -> Box<dyn Executor> {
        own_files.extend(self.files().own_files());
        let prologue = shell::own_files(&own_files);
        let Some(fork) = &self.fork else {
            return Box::new(RestoredPlace {
                inner,
                shared: None,
                patch: fork::last_patch(&self.records),
                prologue,
                is_found: false,
                is_resumed: true,
                unfinished: self.unfinished(),
                is_shared: !others.is_empty(),
                is_comparable: !settings.salvage_is_explicit,
                handle: None,
            });
        };
        let environment = &self.state.environment;
        let handle = &environment.handle;
        // A set-up that did not end belongs to the run that began it.
        let is_shared = on_host && environment.is_set_up && !handle.is_null();
        Box::new(RestoredPlace {
            inner,
            shared: is_shared.then(|| handle.clone()),
            patch: fork.patch().map(str::to_owned),
            prologue,
            is_found: false,
            is_resumed: false,
            unfinished: None,
            is_shared: false,
            is_comparable: false,
            handle: None,
        })
    }

    /// Why a new environment has replaced one that is gone, if the new one's set-up was not
    /// complete, and the model was not told.
    fn unfinished(&self) -> Option<String> {
        let mut events = self.records.iter().rev().map(|record| &record.event);
        events.find_map(|event| match event {
            Event::EnvironmentReady {
                replaced, message, ..
            } => Some(replaced.clone().filter(|_| message.is_none())),
            Event::SetUpDone { .. } => Some(None),
            _ => None,
        })?
    }

    /// The recorded events.
    pub(crate) fn events(&self) -> impl Iterator<Item = &Event> {
        self.records.iter().map(|record| &record.event)
    }

    pub(crate) fn take_held(&mut self) -> Option<Reopened> {
        self.held.take()
    }

    /// The event with which the run continues.
    pub(crate) fn resumed(config: Value, plugins: Value) -> Event {
        Event::RunResumed {
            host_version: env!("CARGO_PKG_VERSION").to_owned(),
            config,
            plugins,
        }
    }
}

/// The version of the host that continued the run with this record.
fn host_of(record: &Record) -> Option<&str> {
    match &record.event {
        Event::RunStarted { host_version, .. } | Event::RunResumed { host_version, .. } => {
            Some(host_version)
        }
        _ => None,
    }
}

/// Checks that a journal is valid. `begins`: whether its first event begins a run; `host`: the
/// version of the host that wrote its end.
fn check_log(
    journal: &Path,
    begins: Option<bool>,
    wrong: Option<JournalError>,
    unknown: Vec<UnknownEvent>,
    host: String,
) -> Result<(), EarlierError> {
    let journal = journal.to_owned();
    match begins {
        Some(true) => {}
        // An incomplete first line may still show that the file is a journal.
        None if unknown.is_empty() => return Err(EarlierError::Empty { journal }),
        _ => return Err(EarlierError::NoJournal { journal }),
    }
    if let Some(error) = wrong {
        return Err(EarlierError::Damaged { journal, error });
    }
    match unknown.into_iter().next() {
        Some(unknown) => Err(EarlierError::UnknownEvent {
            journal,
            seq: unknown.seq,
            kind: unknown.kind,
            host,
        }),
        None => Ok(()),
    }
}

/// The error for numbers that no host records: each query has at least a line of its own, and no
/// cost is negative or greater than [`MOST_DOLLARS`].
fn impossible(record: &Record) -> Option<JournalError> {
    let reason = match &record.event {
        Event::QueryStarted { query, .. } | Event::RunEnded { queries: query, .. }
            if u64::from(*query) > record.seq =>
        {
            format!("it claims {query} queries, which is more than it has lines")
        }
        Event::Reply {
            cost: Some(cost), ..
        }
        | Event::AskReply {
            cost: Some(cost), ..
        }
        | Event::QueryFailed {
            cost: Some(cost), ..
        } if !(0.0..MOST_DOLLARS).contains(cost) => {
            format!("it claims a cost of {cost:e} dollars")
        }
        _ => return None,
    };
    Some(JournalError::Line {
        line: usize::try_from(record.seq).unwrap_or(usize::MAX),
        reason,
    })
}

fn of_journal(path: &Path, error: JournalError) -> EarlierError {
    let journal = path.to_owned();
    match error {
        // The first line is not an event.
        JournalError::Line { line: 1, .. } if !trust::begins_as_journal(path) => {
            EarlierError::NoJournal { journal }
        }
        error @ (JournalError::Io { .. }
        | JournalError::Unwritable { .. }
        | JournalError::Locked { .. }) => EarlierError::Unreadable(error),
        error => EarlierError::Damaged { journal, error },
    }
}

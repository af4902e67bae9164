//! The record of a run: its journal, and the trajectory that is made of it at the start, repeatedly
//! during the run, and at its end.
//!
//! Separate threads write the trajectory, so that a slow disk or a pipe without a reader does not
//! delay the loop. Before its first event, a run has only reserved the journal's name, so a refused
//! run does not change the files of an earlier run.

mod crash;
mod moments;
mod sync;
mod writers;

use std::convert::Infallible;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, TryLockError};
use std::time::{Duration, Instant};

use async_trait::async_trait;
use mswea_core::{Clock, Event, Front, Journal, Progress, Stop};
use mswea_executor::begin_aside;
use mswea_record::journal::{
    Claim, JournalChange, JournalError, JournalFile, Record, Reopened, Spot,
};
use mswea_record::trajectory::{self, Target};
use mswea_run::State;
use mswea_run::fold;
use tokio::sync::{Notify, OwnedSemaphorePermit, oneshot};

use super::digests::DigestFile;
use super::record_error::{OutputError, Unwritten};
use mswea_record::{RunFiles, index, runs_folder};
use sync::DiskSync;
use writers::WriterShare;
pub(crate) use writers::Writers;

/// The longest time in which a pipe for the trajectory may accept no data.
const PIPE_TIME_LIMIT: Duration = Duration::from_secs(10);

/// The longest wait at the end of a run for a file system that does not answer. Other runs of the
/// process wait for the same permits to write.
const FILE_TIME_LIMIT: Duration = Duration::from_secs(120);

/// The journal of a run, and the trajectory that is made of it.
pub(crate) struct RunRecord {
    files: RunFiles,
    /// Folders that were made for them.
    folders: Vec<PathBuf>,
    /// The absolute path of the journal, which is valid also if the working directory is removed.
    home: PathBuf,
    /// The place where the journal is continued if a command removes it.
    elsewhere: Arc<Spot>,
    target: Target,
    /// The place of the trajectory if a command removes its folder.
    refuge: Arc<Spot>,
    /// The digests of what is recorded, for a later `resume` or `fork`.
    digests: DigestFile,
    /// The actual place of the trajectory, if it differs from the configured one.
    moved: Mutex<Option<PathBuf>>,
    run_id: String,
    journal: Mutex<Journaling>,
    front: Arc<dyn Front>,
    /// Notified when an event was recorded after the last write of the trajectory.
    dirty: Notify,
    /// Held by the thread that writes the trajectory; true once the last one is written.
    writing: Mutex<bool>,
    /// The run's share in the threads that write trajectories.
    writers: WriterShare,
    /// Whether the warning about a failed write was shown.
    warned: AtomicBool,
    settings: JournalSettings,
    sync: DiskSync,
}

/// The settings of the journal of a run.
pub(crate) struct JournalSettings {
    /// Whether to wait for the disk at the end of each step.
    pub(crate) fsync: bool,
    /// Gives the times of the events.
    pub(crate) clock: Clock,
}

impl JournalSettings {
    fn apply(&self, journal: JournalFile) -> JournalFile {
        journal.with_clock(self.clock.clone())
    }
}

enum Journaling {
    /// Nothing was recorded yet.
    Claimed(Claim),
    /// The journal of an earlier process of the run, in which this process has recorded nothing
    /// yet.
    Held(Reopened),
    Begun(Arc<JournalFile>),
    /// There is no journal: it could not be begun, or the run was refused.
    Never,
}

impl RunRecord {
    /// Reserves the names, and checks that the files can be written. `held` is the journal of a run
    /// that is continued.
    ///
    /// # Errors
    /// [`OutputError`] with the reason if they can't be written.
    pub(crate) fn reserve(
        files: RunFiles,
        held: Option<Reopened>,
        run_id: &str,
        front: Arc<dyn Front>,
        writers: &Arc<Writers>,
        settings: JournalSettings,
    ) -> Result<Self, OutputError> {
        let folders = files
            .make_room()
            .map_err(|error| OutputError::of(&files, error.to_string()))?;
        let absolute = |path: &PathBuf| std::path::absolute(path).unwrap_or_else(|_| path.clone());
        let folders = folders.iter().map(absolute).collect();
        let home = absolute(&files.journal);
        match Self::tried(&files, held, &home) {
            Ok((target, journaling)) => Ok(Self {
                folders,
                home,
                elsewhere: in_state(run_id, "events.jsonl"),
                refuge: in_state(run_id, "traj.json"),
                digests: DigestFile::of(run_id),
                moved: Mutex::default(),
                run_id: run_id.to_owned(),
                target,
                journal: Mutex::new(journaling),
                front,
                dirty: Notify::new(),
                writing: Mutex::new(false),
                writers: writers.share(),
                warned: AtomicBool::new(false),
                sync: DiskSync::new(settings.fsync),
                settings,
                files,
            }),
            Err(error) => {
                remove(&folders);
                Err(error)
            }
        }
    }

    fn tried(
        files: &RunFiles,
        held: Option<Reopened>,
        home: &Path,
    ) -> Result<(Target, Journaling), OutputError> {
        if let Some(held) = held {
            return Ok((Target::of(&files.trajectory)?, Journaling::Held(held)));
        }
        let target = Target::begun(&files.trajectory)?;
        let claim = JournalFile::claim(home).map_err(|error| match error.kind() {
            // Two runs with the same `-o`.
            io::ErrorKind::WouldBlock => OutputError::Taken(error),
            _ => OutputError::of(files, format!("its journal can't be made: {error}")),
        })?;
        Ok((target, Journaling::Claimed(claim)))
    }

    /// The names of the run's files.
    pub(crate) fn files(&self) -> &RunFiles {
        &self.files
    }

    /// The current path of the journal; `None` if the run never began.
    pub(crate) fn journal(&self) -> Option<PathBuf> {
        self.begun().map(|journal| journal.path())
    }

    /// Removes the reserved names and new folders of a run that never began.
    pub(crate) fn forget(&self) {
        let mut journaling = match self.journal.try_lock() {
            Ok(journaling) => journaling,
            Err(TryLockError::Poisoned(journaling)) => journaling.into_inner(),
            // The journal is being begun, on a file system that does not answer.
            Err(TryLockError::WouldBlock) => return,
        };
        if let Journaling::Claimed(claim) = std::mem::replace(&mut *journaling, Journaling::Never) {
            claim.release();
            self.target.forget();
            remove(&self.folders);
        }
    }

    /// Begins the journal: from now on the trajectory is that of this run, and the files of an
    /// earlier run with the same name are kept under another name.
    fn begin(&self, claim: Claim, event: &Event) -> io::Result<Arc<JournalFile>> {
        // In this order, so that a trajectory never belongs to another run than its journal,
        // whenever the host is killed.
        if !self.target.is_stream() {
            let line = Record {
                seq: 1,
                t: self.settings.clock.now(),
                event: event.clone(),
            };
            let mut value = fold(&[line]).into_trajectory();
            trajectory::set_journal(&mut value, self.files.journal_seen_from_trajectory());
            let written = self.target.write(&value);
            written.map_err(|error| io::Error::other(error.to_string()))?;
        }
        let journal = self.settings.apply(claim.begin()?);
        index::note(&self.run_id, &self.home);
        Ok(Self::copied(journal))
    }

    /// With a second copy, which no command can reach.
    fn copied(journal: JournalFile) -> Arc<JournalFile> {
        let state = runs_folder();
        Arc::new(match state.is_dir() {
            true => journal.with_copy(&state),
            false => journal.with_copy(&std::env::temp_dir()),
        })
    }

    /// Writes the trajectory repeatedly, as long as this future is polled.
    pub(crate) async fn keep_up(self: &Arc<Self>) -> Infallible {
        // The first event has written the first one.
        let mut took = None;
        loop {
            tokio::time::sleep(self.writers.pause(took)).await;
            self.dirty.notified().await;
            let permit = self.permit().await;
            let this = self.clone();
            let (done, written) = oneshot::channel();
            let write = move || {
                let _permit = permit;
                let begun = Instant::now();
                if let Err(error) = this.write_again() {
                    tracing::warn!(%error, "the trajectory could not be brought up to date");
                }
                let _ = done.send(begun.elapsed());
            };
            // Without a thread, the trajectory is written at the end only.
            drop(begin_aside(write));
            took = written.await.ok();
        }
    }

    /// Waits for a permit to write. A pipe needs none, because it may block for long.
    async fn permit(&self) -> Option<OwnedSemaphorePermit> {
        match self.target.is_stream() {
            true => None,
            false => self.writers.permit().await,
        }
    }

    /// Writes the trajectory during the run.
    fn write_again(&self) -> Result<(), Unwritten> {
        let is_last = lock(&self.writing);
        let Some(journal) = self.begun().filter(|_| !*is_last) else {
            return Ok(());
        };
        // A file that a command has moved away (`git stash`) could not be moved back if a new file
        // were in its place. And data in a pipe can't be replaced.
        let is_aside = journal.path() != self.home || !self.target.is_there();
        if is_aside || self.target.is_stream() {
            return Ok(());
        }
        self.write(&journal, None)
    }

    fn write_last(&self, state: Option<State>) -> Result<(), Unwritten> {
        let mut is_last = lock(&self.writing);
        *is_last = true;
        let journal = self.begun().ok_or(Unwritten::Nothing)?;
        if let Err(error) = self.sync.now(&journal) {
            self.warn(&format!("the end may not be on the disk: {error}"));
        }
        if let Err(error) = journal.bring_home() {
            self.warn(&error.to_string());
        }
        if self.target.is_lost() {
            return self.write_to_refuge(&journal);
        }
        self.write(&journal, state)?;
        let strayed = self.target.strayed();
        if let Some(place) = strayed.clone().or_else(|| journal.strayed()) {
            self.warn(&format!(
                "a command has moved the folder of `{}`: this run's files are in `{}`, where that folder is now",
                self.files.trajectory.display(),
                place.parent().unwrap_or(&place).display()
            ));
        }
        *lock(&self.moved) = strayed;
        Ok(())
    }

    /// Writes the trajectory to the state folder: its own folder was removed, or something else is
    /// in its place.
    fn write_to_refuge(&self, journal: &JournalFile) -> Result<(), Unwritten> {
        let value = Self::value(journal, None, &journal.path())?;
        Target::at(self.refuge.clone()).write(&value)?;
        let place = self.refuge.shown();
        self.warn(&format!(
            "a command has removed the folder of `{}` or put something else in its place: the trajectory is `{}`",
            self.files.trajectory.display(),
            place.display()
        ));
        *lock(&self.moved) = Some(place.to_owned());
        Ok(())
    }

    /// The path of the trajectory after the run.
    pub(crate) fn trajectory(&self) -> PathBuf {
        let moved = lock(&self.moved).clone();
        moved.unwrap_or_else(|| self.files.trajectory.clone())
    }

    /// The trajectory of `state`, or else that of the journal.
    fn value(
        journal: &JournalFile,
        state: Option<State>,
        name: &Path,
    ) -> Result<serde_json::Value, JournalError> {
        let mut value = match state {
            Some(state) => state.into_trajectory(),
            None => State::from_iter(journal.log()?.records).into_trajectory(),
        };
        trajectory::set_journal(&mut value, name);
        Ok(value)
    }

    fn write(&self, journal: &JournalFile, state: Option<State>) -> Result<(), Unwritten> {
        let path = journal.path();
        let name = match path == self.home {
            true => self.files.journal_seen_from_trajectory(),
            false => &path,
        };
        Ok(self.target.write(&Self::value(journal, state, name)?)?)
    }

    /// Called after the run: puts the journal back in its place and writes the trajectory, of the last `state` if
    /// it is known. The wait ends on a stop, or after a time limit.
    ///
    /// # Errors
    /// [`Unwritten`] with the reason if the trajectory is not written.
    pub(crate) async fn finish(
        self: &Arc<Self>,
        state: Option<State>,
        stop: &Stop,
    ) -> Result<(), Unwritten> {
        let limit = match self.target.is_stream() {
            true => PIPE_TIME_LIMIT,
            false => FILE_TIME_LIMIT,
        };
        // After a stop, the wait is short.
        let patience = tokio::time::sleep(limit / if stop.is_stopped() { 5 } else { 1 });
        let write = async {
            let permit = self.permit().await;
            let (done, written) = oneshot::channel();
            let this = self.clone();
            let write = move || {
                let _permit = permit;
                let _ = done.send(this.write_last(state));
            };
            if let Err(write) = begin_aside(write) {
                write();
            }
            written.await.unwrap_or(Err(Unwritten::Lost))
        };
        let path = || self.files.trajectory.display().to_string();
        tokio::select! {
            biased;
            written = write => written,
            () = stop.stopped_again() => Err(Unwritten::Stopped(path())),
            () = patience => Err(match self.target.is_stream() {
                true => Unwritten::Unread(path()),
                false => Unwritten::Slow(path()),
            }),
        }
    }

    fn begun(&self) -> Option<Arc<JournalFile>> {
        match &*lock(&self.journal) {
            Journaling::Begun(journal) => Some(journal.clone()),
            _ => None,
        }
    }

    /// The journal; begins it if this is the first event.
    fn journaling(&self, event: &Event) -> io::Result<Arc<JournalFile>> {
        let mut journaling = lock(&self.journal);
        let journal = match std::mem::replace(&mut *journaling, Journaling::Never) {
            Journaling::Begun(journal) => journal,
            Journaling::Claimed(claim) => self.begin(claim, event)?,
            Journaling::Held(held) => {
                self.files.remove_temporary();
                let journal = held.begin()?;
                index::note(&self.run_id, &self.home);
                Self::copied(self.settings.apply(journal))
            }
            Journaling::Never => return Err(io::Error::other("there is no journal to write to")),
        };
        *journaling = Journaling::Begun(journal.clone());
        Ok(journal)
    }

    /// Called after a command, which may have changed the journal.
    fn look_after(&self, journal: &JournalFile) {
        let home = self.files.journal.display();
        match journal.check(&self.elsewhere) {
            Ok(JournalChange::None) => {}
            Ok(JournalChange::Restored) => self.warn(&format!(
                "a command has changed or replaced this run's journal `{home}`: a whole one is there again"
            )),
            Ok(JournalChange::Elsewhere(place)) => self.warn(&format!(
                "a command has removed this run's journal `{home}`: it goes on as `{}`, and is put back when the run ends",
                place.display()
            )),
            Err(error) => {
                if !self.warned.swap(true, Ordering::Relaxed) {
                    self.warn(&format!(
                        "a command has changed or removed this run's journal `{home}`, and it can't be written anew: {error}"
                    ));
                }
            }
        }
    }

    fn warn(&self, text: &str) {
        self.front.show(&Progress::Warning(text));
    }
}

impl Drop for RunRecord {
    fn drop(&mut self) {
        self.forget();
    }
}

#[async_trait]
impl Journal for RunRecord {
    fn record(&self, event: &Event) -> io::Result<f64> {
        let journal = self.journaling(event)?;
        if moments::follows_commands(event) {
            self.look_after(&journal);
        }
        // First: a host may be killed between the two.
        self.digests.note(event);
        let t = journal.record(event)?;
        self.sync.note(event);
        if moments::precedes_commands(event) {
            journal.mark();
        }
        if moments::is_in_trajectory(event) {
            self.dirty.notify_one();
        }
        Ok(t)
    }

    async fn synced(&self) -> io::Result<()> {
        match self.begun() {
            Some(journal) => self.sync.later(&journal).await,
            None => Ok(()),
        }
    }
}

/// The place of a file of the run below the user's state folder.
fn in_state(run_id: &str, ending: &str) -> Arc<Spot> {
    let path = runs_folder().join(format!("{run_id}.{ending}"));
    Arc::new(Spot::later(&path))
}

/// Removes folders that were made for a run, if they are empty; the list has the outer ones first.
fn remove(folders: &[PathBuf]) {
    for folder in folders.iter().rev() {
        let _ = std::fs::remove_dir(folder);
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

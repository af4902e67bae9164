//! The record of a run: its journal, from which the trajectory is written by a thread of its own,
//! at the start, again and again while the run goes on, and at its end.
//!
//! Until its first event a run has only reserved the journal's name: one that is refused changes
//! nothing of an earlier run.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::Context as _;
use tokio::sync::oneshot;

use super::front::CliFront;
use super::paths::{self, RunFiles};
use crate::journal::trajectory::{self, Target};
use crate::journal::{Change, Claim, Event, JournalFile, Record as Line, Spot};
use crate::roles::{Journal, Progress, Stop};

/// How long a trajectory is left as it is at least. A long one takes long to write, so the pause
/// grows with it: never more than a twentieth of the time goes there.
const PAUSE: Duration = Duration::from_secs(2);

/// How long a pipe that the trajectory goes to may stand still.
const PATIENCE: Duration = Duration::from_secs(10);

/// The journal of a run, and the trajectory that is made of it.
pub(super) struct Record {
    files: RunFiles,
    /// What was made for them.
    folders: Vec<PathBuf>,
    /// Where the journal belongs, also if the folder that the host was started in goes.
    home: PathBuf,
    /// Where it goes on if a command takes it away.
    elsewhere: Arc<Spot>,
    target: Target,
    /// Where the trajectory goes if a command takes its folder away.
    refuge: Arc<Spot>,
    /// Where the trajectory is, if not where it was to be.
    trajectory: Mutex<Option<PathBuf>>,
    journal: Mutex<Journaling>,
    front: Arc<dyn CliFront>,
    work: Mutex<Work>,
    wake: Condvar,
    /// Held by whoever writes the trajectory.
    writing: Mutex<()>,
    /// The thread is there.
    keeps_up: AtomicBool,
    fsync: bool,
}

enum Journaling {
    /// Nothing was recorded yet.
    Claimed(Claim),
    Begun(Arc<JournalFile>),
    /// It could not be begun, or the run was refused.
    Never,
}

/// What the thread has to do.
#[derive(Default)]
struct Work {
    /// Something was recorded since the trajectory was written.
    dirty: bool,
    /// Who waits for the last one.
    last: Option<oneshot::Sender<anyhow::Result<()>>>,
    /// A second warning about the same would tell nothing new.
    warned: bool,
}

impl Record {
    /// Reserves the names, and tries whether the files can be written.
    ///
    /// # Errors
    /// When they can't be: says why.
    pub(super) fn reserve(
        files: RunFiles,
        run_id: &str,
        front: Arc<dyn CliFront>,
        fsync: bool,
    ) -> Result<Self, Unwritable> {
        let folders = files
            .make_room()
            .map_err(|error| Unwritable::Other(error.to_string()))?;
        let absolute = |path: &PathBuf| std::path::absolute(path).unwrap_or_else(|_| path.clone());
        let folders = folders.iter().map(absolute).collect();
        let home = absolute(&files.journal);
        match Self::tried(&files, &home) {
            Ok((target, claim)) => Ok(Self {
                folders,
                home,
                elsewhere: in_state(run_id, "events.jsonl"),
                refuge: in_state(run_id, "traj.json"),
                trajectory: Mutex::default(),
                target,
                journal: Mutex::new(Journaling::Claimed(claim)),
                front,
                work: Mutex::default(),
                wake: Condvar::new(),
                writing: Mutex::new(()),
                keeps_up: AtomicBool::new(false),
                fsync,
                files,
            }),
            Err(error) => {
                remove(&folders);
                Err(error)
            }
        }
    }

    fn tried(files: &RunFiles, home: &Path) -> Result<(Target, Claim), Unwritable> {
        let target = Target::of(&files.trajectory)
            .map_err(|error| Unwritable::Trajectory(error.to_string()))?;
        let claim = JournalFile::claim(home).map_err(|error| match error.kind() {
            // Two runs with the same `-o`.
            io::ErrorKind::WouldBlock => Unwritable::Trajectory(error.to_string()),
            _ => Unwritable::Other(format!("its journal can't be made: {error}")),
        })?;
        Ok((target, claim))
    }

    /// Where the journal is now; none if the run never began.
    pub(super) fn journal(&self) -> Option<PathBuf> {
        Some(self.begun()?.path())
    }

    /// A run that never began leaves no trace.
    pub(super) fn forget(&self) {
        let journaling = std::mem::replace(&mut *lock(&self.journal), Journaling::Never);
        if let Journaling::Claimed(claim) = journaling {
            claim.release();
            remove(&self.folders);
        }
    }

    /// Begins: the trajectory is that of this run from now on, and what an earlier run has
    /// recorded under the same name is kept under another.
    fn begin(&self, claim: Claim, event: &Event) -> io::Result<Arc<JournalFile>> {
        // In this order: whenever the host is killed, no trajectory speaks of a run that it does
        // not belong to.
        if !self.target.is_stream() {
            let line = Line {
                seq: 1,
                t: std::time::UNIX_EPOCH
                    .elapsed()
                    .unwrap_or_default()
                    .as_secs_f64(),
                event: event.clone(),
            };
            let mut value = trajectory::from_journal(&[line]);
            trajectory::set_journal(&mut value, self.files.journal_seen_from_trajectory());
            let written = self.target.write(&value);
            written.map_err(|error| io::Error::other(error.to_string()))?;
        }
        let journal = claim.begin()?.fsync(self.fsync);
        let state = paths::state_folder();
        let journal = match state.is_dir() {
            true => journal.with_copy(&state),
            false => journal.with_copy(&std::env::temp_dir()),
        };
        Ok(Arc::new(journal))
    }

    /// Starts the thread that keeps the trajectory up to date.
    pub(super) fn keep_up(self: &Arc<Self>) {
        let this = self.clone();
        let thread = thread::Builder::new().name("trajectory".to_owned());
        match thread.spawn(move || this.renew()) {
            Ok(_) => self.keeps_up.store(true, Ordering::Relaxed),
            Err(error) => tracing::warn!(%error, "the trajectory is written at the end only"),
        }
    }

    fn renew(&self) {
        let mut next = Instant::now();
        loop {
            let mut work = lock(&self.work);
            loop {
                let wait = next.saturating_duration_since(Instant::now());
                if work.last.is_some() || (work.dirty && wait.is_zero()) {
                    break;
                }
                work = if work.dirty {
                    let woken = self.wake.wait_timeout(work, wait);
                    woken.unwrap_or_else(PoisonError::into_inner).0
                } else {
                    let woken = self.wake.wait(work);
                    woken.unwrap_or_else(PoisonError::into_inner)
                };
            }
            work.dirty = false;
            let last = work.last.take();
            drop(work);
            if let Some(last) = last {
                let _ = last.send(self.write_last());
                return;
            }
            let begun = Instant::now();
            if let Err(error) = self.write_again() {
                tracing::warn!(%error, "the trajectory could not be brought up to date");
            }
            next = Instant::now() + PAUSE.max(begun.elapsed() * 20);
        }
    }

    /// While the run goes on.
    fn write_again(&self) -> anyhow::Result<()> {
        let Some(journal) = self.begun() else {
            return Ok(());
        };
        // What a command has put aside (`git stash`) would not come back if something else were in
        // its place by then. And what went into a pipe can't be replaced by something newer.
        let is_aside = journal.path() != self.home || !self.target.is_there();
        if is_aside || self.target.is_stream() {
            return Ok(());
        }
        self.write(&journal)
    }

    fn write_last(&self) -> anyhow::Result<()> {
        let journal = self.begun().context("nothing was recorded")?;
        if let Err(error) = journal.bring_home() {
            self.warn(&error.to_string());
        }
        if self.target.is_lost() {
            return self.write_to_refuge(&journal);
        }
        self.write(&journal)?;
        let strayed = self.target.strayed();
        if let Some(place) = strayed.clone().or_else(|| journal.strayed()) {
            self.warn(&format!(
                "a command has moved the folder of `{}`: this run's files are in `{}`, where that folder is now",
                self.files.trajectory.display(),
                place.parent().unwrap_or(&place).display()
            ));
        }
        *lock(&self.trajectory) = strayed;
        Ok(())
    }

    /// The folder of the trajectory is gone, and what is in its place is none of this run's.
    fn write_to_refuge(&self, journal: &JournalFile) -> anyhow::Result<()> {
        let value = Self::value(journal, &journal.path())?;
        Target::at(self.refuge.clone()).write(&value)?;
        let place = self.refuge.shown();
        self.warn(&format!(
            "a command has removed the folder of `{}` or put something else in its place: the trajectory is `{}`",
            self.files.trajectory.display(),
            place.display()
        ));
        *lock(&self.trajectory) = Some(place.to_owned());
        Ok(())
    }

    /// Where the trajectory is, once the run is over.
    pub(super) fn trajectory(&self) -> PathBuf {
        let moved = lock(&self.trajectory).clone();
        moved.unwrap_or_else(|| self.files.trajectory.clone())
    }

    fn value(journal: &JournalFile, name: &Path) -> anyhow::Result<serde_json::Value> {
        let log = journal.log()?;
        let mut value = trajectory::from_records(log.records);
        trajectory::set_journal(&mut value, name);
        Ok(value)
    }

    fn write(&self, journal: &JournalFile) -> anyhow::Result<()> {
        let _writing = lock(&self.writing);
        let path = journal.path();
        let name = match path == self.home {
            true => self.files.journal_seen_from_trajectory(),
            false => &path,
        };
        Ok(self.target.write(&Self::value(journal, name)?)?)
    }

    /// The run is over: brings the journal home and writes the trajectory. A signal, or a pipe
    /// that nobody reads, ends the wait for that.
    ///
    /// # Errors
    /// When there is none.
    pub(super) async fn finish(&self, stop: &Stop) -> anyhow::Result<()> {
        if !self.keeps_up.load(Ordering::Relaxed) {
            return self.write_last();
        }
        let (sender, done) = oneshot::channel();
        lock(&self.work).last = Some(sender);
        self.wake.notify_all();
        let name = self.files.trajectory.display();
        let patience = async {
            match self.target.is_stream() {
                true => tokio::time::sleep(PATIENCE).await,
                false => std::future::pending().await,
            }
        };
        tokio::select! {
            written = done => written.context("the thread that writes it is gone")?,
            () = stop.stopped_again() => anyhow::bail!(
                "the trajectory `{name}` is not written: a signal came before it was"
            ),
            () = patience => anyhow::bail!(
                "the trajectory `{name}` is not written: nobody reads there"
            ),
        }
    }

    /// After a bug of the host: writes what there is, unless that is what has failed.
    pub(super) fn last_words(&self) -> String {
        let end = Instant::now() + Duration::from_secs(1);
        let free = || match self.writing.try_lock() {
            Err(std::sync::TryLockError::WouldBlock) => false,
            Ok(_) | Err(_) => true,
        };
        while !free() {
            if Instant::now() > end {
                return self.said(false);
            }
            thread::sleep(Duration::from_millis(10));
        }
        let written = self
            .begun()
            .is_some_and(|journal| self.write(&journal).is_ok());
        self.said(written)
    }

    fn said(&self, written: bool) -> String {
        let place = match (written, self.journal()) {
            (true, _) => &self.files.trajectory,
            (false, Some(journal)) => &journal.clone(),
            (false, None) => return "nothing was recorded yet".to_owned(),
        };
        format!("what was recorded is in `{}`", place.display())
    }

    fn begun(&self) -> Option<Arc<JournalFile>> {
        match &*lock(&self.journal) {
            Journaling::Begun(journal) => Some(journal.clone()),
            _ => None,
        }
    }

    /// The journal, begun if it was not.
    fn journaling(&self, event: &Event) -> io::Result<Arc<JournalFile>> {
        let mut journaling = lock(&self.journal);
        let journal = match std::mem::replace(&mut *journaling, Journaling::Never) {
            Journaling::Begun(journal) => journal,
            Journaling::Claimed(claim) => self.begin(claim, event)?,
            Journaling::Never => return Err(io::Error::other("there is no journal to write to")),
        };
        *journaling = Journaling::Begun(journal.clone());
        Ok(journal)
    }

    /// A command has run: it may have reached the journal.
    fn look_after(&self, journal: &JournalFile) {
        let home = self.files.journal.display();
        match journal.check(&self.elsewhere) {
            Ok(Change::None) => {}
            Ok(Change::Restored) => self.warn(&format!(
                "a command has changed or replaced this run's journal `{home}`: a whole one is there again"
            )),
            Ok(Change::Elsewhere(place)) => self.warn(&format!(
                "a command has removed this run's journal `{home}`: it goes on as `{}`, and is put back when the run ends",
                place.display()
            )),
            Err(error) => {
                if !std::mem::replace(&mut lock(&self.work).warned, true) {
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

impl Journal for Record {
    fn record(&self, event: &Event) -> io::Result<()> {
        let journal = self.journaling(event)?;
        journal.record(event)?;
        match event {
            Event::Message { .. }
            | Event::Output { .. }
            | Event::Salvaged { .. }
            | Event::RunEnded { .. } => self.look_after(&journal),
            Event::Reply { .. } => {}
            _ => return Ok(()),
        }
        lock(&self.work).dirty = true;
        self.wake.notify_all();
        Ok(())
    }
}

/// A file of the run below the user's state folder.
fn in_state(run_id: &str, ending: &str) -> Arc<Spot> {
    let path = paths::state_folder().join(format!("{run_id}.{ending}"));
    Arc::new(Spot::later(&path))
}

/// Removes folders that were made for a run, if nothing is in them; the outer ones come first.
fn remove(folders: &[PathBuf]) {
    for folder in folders.iter().rev() {
        let _ = std::fs::remove_dir(folder);
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Why a run's files can't be written.
pub(super) enum Unwritable {
    /// Says all that there is to say.
    Trajectory(String),
    /// The cause only.
    Other(String),
}

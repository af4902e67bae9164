//! Runs that are read: a few are kept, and of one that goes on only what was added is read.

use std::collections::VecDeque;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt as _;
use std::sync::{Arc, Mutex, PoisonError};

use mswea_core::Event;
use mswea_export::{Conversation, ConversationReader, ConversationStep, SecretValues};
use mswea_record::journal::{JournalFollower, is_held};
use mswea_text::one_line;
use serde_json::{Value, json};

use crate::blanked::SecretsFiles;
use crate::card::FileStamp;
use crate::paged::PagedTrajectory;
use crate::places::RunPlace;
use crate::steps::{MARGIN, beginning};

/// The number of runs that are kept.
const KEPT: usize = 4;
/// The largest length of the text about the host's current activity.
const NOW: usize = 300;
/// The largest number of bytes of a step's record that are shown.
const RAW: u64 = 4 << 20;

/// The runs that are kept, the most recently used last.
#[derive(Default)]
pub(crate) struct OpenedRuns(Mutex<VecDeque<(String, Arc<Mutex<OpenedRun>>)>>);

impl OpenedRuns {
    /// Calls a function with a run, after reading the changes of its file.
    ///
    /// # Errors
    /// A message if the run can't be read.
    pub(crate) fn with<T>(
        &self,
        id: &str,
        place: &RunPlace,
        files: &SecretsFiles,
        use_it: impl FnOnce(&mut OpenedRun) -> T,
    ) -> Result<T, String> {
        let run = {
            let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            let at = all.iter().position(|(known, _)| known == id);
            let entry = at.and_then(|at| all.remove(at));
            let entry = entry.unwrap_or_else(|| (id.to_owned(), Arc::default()));
            let run = entry.1.clone();
            all.push_back(entry);
            if all.len() > KEPT {
                all.pop_front();
            }
            run
        };
        let mut run = run.lock().unwrap_or_else(PoisonError::into_inner);
        run.refresh(place, files)?;
        Ok(use_it(&mut run))
    }
}

/// Reads a run without keeping it.
///
/// # Errors
/// A message if the run can't be read.
pub(crate) fn read_once(place: &RunPlace, files: &SecretsFiles) -> Result<OpenedRun, String> {
    let mut run = OpenedRun::default();
    run.refresh(place, files)?;
    run.read_all();
    Ok(run)
}

/// A run.
#[derive(Default)]
pub(crate) struct OpenedRun {
    stamp: Option<FileStamp>,
    source: RunSource,
    /// Why a trajectory with this stamp can't be read.
    failure: Option<String>,
    /// The error in the rest of the file.
    damage: Option<String>,
    /// The host's current activity, and its start.
    now: Option<(String, f64)>,
    is_running: bool,
}

#[derive(Default)]
enum RunSource {
    #[default]
    Nothing,
    Journal(Box<FollowedJournal>),
    Trajectory(Box<PagedTrajectory>),
}

#[derive(Default)]
struct FollowedJournal {
    follower: JournalFollower,
    reader: ConversationReader,
    /// The offset of each step's record.
    begins: Vec<u64>,
    /// The offset of the query that has no reply yet.
    asked: Option<u64>,
    /// Whether the outputs that no message shows were added, because the run is over.
    is_settled: bool,
    head: Value,
}

impl OpenedRun {
    /// The conversation so far.
    pub(crate) fn conversation(&self) -> &Conversation {
        static NOTHING: std::sync::LazyLock<Conversation> =
            std::sync::LazyLock::new(Conversation::default);
        match &self.source {
            RunSource::Nothing => &NOTHING,
            RunSource::Journal(journal) => journal.reader.so_far(),
            RunSource::Trajectory(run) => run.so_far(),
        }
    }

    /// A step, which is read if it was not.
    pub(crate) fn step(&mut self, index: usize) -> Option<&ConversationStep> {
        while index >= self.conversation().steps.len() && self.unread() > 0 {
            self.read_more();
        }
        self.conversation().steps.get(index)
    }

    /// Reads all steps.
    pub(crate) fn read_all(&mut self) {
        while self.unread() > 0 {
            self.read_more();
        }
    }

    /// How many parts of a trajectory were not read; each has at least one step.
    pub(crate) fn unread(&self) -> usize {
        match &self.source {
            RunSource::Trajectory(run) => run.unread(),
            _ => 0,
        }
    }

    fn read_more(&mut self) {
        if let RunSource::Trajectory(run) = &mut self.source {
            self.damage = run.read_more().err();
        }
    }

    /// The cost in dollars so far.
    pub(crate) fn cost(&self) -> Option<f64> {
        match &self.source {
            RunSource::Journal(journal) => journal.reader.cost(),
            _ => self.conversation().cost,
        }
    }

    /// The first step that may still change.
    pub(crate) fn first_open(&self) -> usize {
        match &self.source {
            RunSource::Journal(journal) => journal.reader.first_open(),
            _ => self.conversation().steps.len(),
        }
    }

    /// The error in the rest of the file, the host's current activity, and the run's plugins and
    /// config.
    pub(crate) fn about(&self, secrets: &SecretValues) -> Value {
        let now = self.now.as_ref().filter(|_| self.is_running);
        let now = now
            .map(|(event, since)| json!({ "event": first_words(event, secrets), "since": since }));
        let mut about = json!({
            "running": self.is_running,
            "damage": self.damage,
            "now": now,
            "head": match &self.source {
                RunSource::Journal(journal) => journal.head.clone(),
                _ => Value::Null,
            },
        });
        secrets.remove_from_value(&mut about);
        about
    }

    /// A text that changes whenever the run does.
    pub(crate) fn tag(&self) -> String {
        let stamp = self.stamp.unwrap_or_default();
        format!("{stamp:?} {}", self.is_running)
    }

    /// Reads the changes of the file. The files of secrets that the run's configs name are noted.
    pub(crate) fn refresh(&mut self, place: &RunPlace, files: &SecretsFiles) -> Result<(), String> {
        let failed = |error: io::Error| format!("`{}`: {error}", place.name);
        if !place.is_journal {
            let stamp = FileStamp::of(&place.path).map_err(failed)?;
            if self.stamp != Some(stamp) {
                let (source, failure) = match PagedTrajectory::open(&place.path) {
                    Ok(run) => (RunSource::Trajectory(Box::new(run)), None),
                    Err(why) => (RunSource::Nothing, Some(why)),
                };
                (self.source, self.failure, self.damage) = (source, failure, None);
                self.stamp = Some(stamp);
            }
            return self.failure.clone().map_or(Ok(()), Err);
        }
        let file = mswea_files::open(&place.path, u64::MAX).map_err(failed)?;
        let stamp = FileStamp::of(&place.path).map_err(failed)?;
        let is_same = self.stamp == Some(stamp);
        // A run that is over is not locked, because another process may be about to continue it.
        if !is_same || self.is_running {
            self.is_running = is_held(&file);
        }
        let has_grown = self.stamp.is_some_and(|before| before.has_grown_to(&stamp));
        let mut journal = match std::mem::take(&mut self.source) {
            RunSource::Journal(journal) if is_same || has_grown && !journal.is_settled => journal,
            _ => {
                self.now = None;
                Box::default()
            }
        };
        self.stamp = Some(stamp);
        if !is_same || journal.follower.is_empty() {
            let now = &mut self.now;
            let now = |event, t| *now = Some((event, t));
            let read = journal.go_on(&file, &place.name, files, now);
            self.damage = read.err();
        }
        if !self.is_running && !journal.is_settled {
            journal.reader.settle();
            journal.is_settled = true;
        }
        self.source = RunSource::Journal(journal);
        Ok(())
    }

    /// The record of a step in the journal; none if there is no journal.
    pub(crate) fn record(&self, place: &RunPlace, step: usize) -> Option<io::Result<String>> {
        let RunSource::Journal(journal) = &self.source else {
            return None;
        };
        let begin = *journal.begins.get(step)?;
        let end = journal.begins.get(step + 1).copied();
        let end = end.unwrap_or_else(|| journal.follower.len());
        let bytes = end.saturating_sub(begin).min(RAW);
        let read = || {
            let file = mswea_files::open(&place.path, u64::MAX)?;
            let mut text = vec![0; usize::try_from(bytes).unwrap_or_default()];
            file.read_exact_at(&mut text, begin)?;
            Ok(String::from_utf8_lossy(&text).into_owned())
        };
        Some(read())
    }
}

impl FollowedJournal {
    fn go_on(
        &mut self,
        file: &File,
        name: &str,
        files: &SecretsFiles,
        mut now: impl FnMut(String, f64),
    ) -> Result<(), String> {
        let Self {
            follower,
            reader,
            begins,
            asked,
            head,
            ..
        } = self;
        let read = follower.read(file, name, |at, record| {
            match &record.event {
                Event::RunStarted {
                    config,
                    plugins,
                    task,
                    parent,
                    ..
                } => {
                    files.of_config(config);
                    *head = json!({
                        "config": config, "plugins": plugins, "task": task, "parent": parent,
                    });
                }
                Event::RunResumed { config, .. } => files.of_config(config),
                Event::QueryStarted { .. } => *asked = Some(at),
                _ => {}
            }
            reader.take(&record);
            if let Some(word) = doing(&record.event) {
                now(word, record.t);
            }
            let steps = reader.so_far().steps.len();
            if begins.len() < steps {
                let of_query = match &record.event {
                    Event::Reply { .. } => asked.take(),
                    _ => None,
                };
                begins.resize(steps, of_query.unwrap_or(at));
            }
        });
        read.map_err(|error| error.to_string())
    }
}

/// The beginning of a text. It is cut after blanking, so that no part of a secret remains.
fn first_words(text: &str, secrets: &SecretValues) -> String {
    let mut text = beginning(text, NOW + MARGIN).to_owned();
    secrets.remove_from_text(&mut text);
    one_line(&text).chars().take(NOW).collect()
}

/// The host's activity after an event, as text for people; none if the event does not change it.
fn doing(event: &Event) -> Option<String> {
    let word = match event {
        Event::QueryStarted { query, .. } => format!("waits for the model (query {query})"),
        Event::Retry {
            attempt, message, ..
        } => format!("tries again (attempt {attempt}): {message}"),
        Event::Action { action, .. } => format!("runs: {}", action.command),
        Event::RunStarted { .. } | Event::RunResumed { .. } => {
            "prepares the environment".to_owned()
        }
        Event::SalvageStarted => "saves the diff".to_owned(),
        Event::Interrupted => "was interrupted, and waits for the user".to_owned(),
        Event::Reply { .. } | Event::Output { .. } | Event::Observed { .. } => "goes on".to_owned(),
        _ => return None,
    };
    Some(word)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failure_is_kept_until_the_file_changes() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("x.traj.json");
        let text = r#"{"messages": [{"role": "user", "content": "t"}]}"#;
        std::fs::write(&path, "x".repeat(text.len())).unwrap();
        let place = RunPlace {
            path: path.clone(),
            name: "x".to_owned(),
            is_journal: false,
        };
        let files = SecretsFiles::new(SecretValues::new([]), |_| Vec::new());
        let mut run = OpenedRun::default();
        let why = run.refresh(&place, &files).unwrap_err();
        // The same stamp: it is not read again.
        let before = std::fs::metadata(&path).unwrap().modified().unwrap();
        let file = File::options().write(true).open(&path).unwrap();
        file.write_all_at(text.as_bytes(), 0).unwrap();
        file.set_modified(before).unwrap();
        assert_eq!(run.refresh(&place, &files).unwrap_err(), why);
        file.set_modified(before + std::time::Duration::from_secs(1))
            .unwrap();
        run.refresh(&place, &files).unwrap();
        assert_eq!(run.conversation().steps.len(), 1);
    }

    #[test]
    fn what_is_done_now_has_no_part_of_a_secret() {
        let secrets = SecretValues::new(["hunter2-hunter2".to_owned()]);
        for at in NOW - 20..NOW + 5 {
            let text = format!(
                "{}hunter2-hunter2\u{1b}[1m\n{}",
                "x".repeat(at),
                "y".repeat(20_000)
            );
            let shown = first_words(&text, &secrets);
            assert!(
                !shown.contains("hunt") && !shown.contains('\u{1b}'),
                "{at}: {shown}"
            );
            assert!(shown.chars().count() <= NOW);
        }
    }
}

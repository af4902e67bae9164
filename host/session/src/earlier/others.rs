//! Other runs in the folder of a run that continues: those that have worked there since it stopped,
//! and those that work there now. They are found by their journals, as far as the state folder
//! leads to them; no other data is stored for this.

use std::collections::BTreeSet;
use std::fs::{File, Metadata};
use std::io::{BufRead, BufReader, Read as _};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use serde::Deserialize;
use serde_json::Value;

use mswea_core::Event;
use mswea_executor::{aside, folder_of_handle};
use mswea_record::journal::{glance, is_held};

use super::{Earlier, EarlierError};
use mswea_config::Config;
use mswea_record::{index, put_aside, runs_folder};

/// The largest journal that is searched for the folder of its run.
const SEARCHED: u64 = 256 << 20;
/// The tolerance in seconds when times of files are compared with times of events.
const SLACK: f64 = 2.0;
/// How many runs a message names.
const NAMED: usize = 3;

/// A run in the same folder.
#[derive(Clone, Debug, PartialEq, Eq)]
struct OtherRun {
    run_id: String,
    /// Whether a process holds the lock of its journal.
    is_living: bool,
    /// Whether it is a fork of the run.
    is_fork: bool,
}

/// The runs in the folder of a run.
#[derive(Debug, Default)]
pub(crate) struct Others {
    folder: PathBuf,
    runs: Vec<OtherRun>,
}

impl Others {
    /// Whether no other run has used the folder.
    pub(crate) fn is_empty(&self) -> bool {
        self.runs.is_empty()
    }

    fn living(&self) -> Option<String> {
        let living = self.runs.iter().filter(|other| other.is_living);
        named(&living.collect::<Vec<_>>())
    }

    /// A message for the user of a run that continues in the folder; none if there is nothing to
    /// say.
    ///
    /// # Errors
    /// [`EarlierError::SharedFolder`] if another run is working there.
    pub(crate) fn check_resume(&self) -> Result<Option<String>, EarlierError> {
        if let Some(other) = self.living() {
            return Err(EarlierError::SharedFolder {
                other,
                folder: self.folder.clone(),
            });
        }
        let all: Vec<&OtherRun> = self.runs.iter().collect();
        Ok(named(&all).map(|other| {
            format!(
                "{other} has worked in `{}` since this run stopped: the files are used as they are, nothing is \
                 overwritten, and the model is not told; if this run needs its own files, stop it (Ctrl-C), put \
                 them in order, and resume it again",
                self.folder.display()
            )
        }))
    }

    /// A message for the user of a fork, which works in the same folder on purpose.
    pub(crate) fn check_fork(&self) -> Option<String> {
        let other = self.living()?;
        Some(format!(
            "{other} is working in `{}` at this moment, where this new run works, too, and each changes the \
             files of the other: `-c environment.cwd=FOLDER` gives the new run another folder",
            self.folder.display()
        ))
    }
}

/// The runs, for a sentence about one of them; none if there are none.
fn named(runs: &[&OtherRun]) -> Option<String> {
    let (first, rest) = runs.split_first()?;
    let mut text = match first.is_fork {
        true => format!("run `{}`, a fork of this one,", first.run_id),
        false => format!("run `{}`", first.run_id),
    };
    if !rest.is_empty() {
        let ids: Vec<String> = rest
            .iter()
            .take(NAMED)
            .map(|it| format!("`{}`", it.run_id))
            .collect();
        let more = match rest.len() > NAMED {
            true => ", ...",
            false => "",
        };
        text = format!(
            "{} (and {}{more})",
            text.trim_end_matches(','),
            ids.join(", ")
        );
    }
    Some(text)
}

impl Earlier {
    /// The other runs in the folder in which this one continues with `config`.
    pub(crate) async fn others(&self, config: &Config) -> Others {
        let Some(folder) = self.folder(config).filter(|_| !self.is_replay) else {
            return Others::default();
        };
        let search = Search {
            run_id: self.state.run_id.clone(),
            is_fork: self.fork.is_some(),
            since: self.state.last.unwrap_or_default(),
        };
        // Journals may be on a file system that does not answer.
        aside(move || search.others(folder))
            .await
            .unwrap_or_default()
    }

    /// The folder of this machine in which the commands worked, and in which commands with `config`
    /// will work; none if they work elsewhere, or if it was not recorded.
    pub fn folder(&self, config: &Config) -> Option<PathBuf> {
        folder_of_handle(&self.state.environment.handle).filter(|_| !self.is_elsewhere(config))
    }

    /// Whether the flags name another place than that of the run.
    fn is_elsewhere(&self, config: &Config) -> bool {
        let now = config.redacted();
        let before = self.config();
        let keys = [
            "/environment/environment_class",
            "/environment/cwd",
            "/workspace/path",
            "/workspace/repo",
        ];
        let said =
            |config: &Value, key: &str| config.pointer(key).filter(|it| !it.is_null()).cloned();
        keys.iter().any(|key| said(before, key) != said(&now, key))
    }
}

/// The parameters of a search for other runs.
struct Search {
    run_id: String,
    /// Whether the search is for a fork, so that the earlier run itself may continue, too.
    is_fork: bool,
    /// Unix seconds of the last event of the run.
    since: f64,
}

impl Search {
    fn others(&self, folder: PathBuf) -> Others {
        let mut runs: Vec<OtherRun> = Vec::new();
        let Ok(there) = std::fs::metadata(&folder) else {
            return Others::default();
        };
        let held = held_files();
        for journal in journals() {
            if let Some(found) = self.look(&journal, &there, held.as_ref())
                && !runs.iter().any(|it| it.run_id == found.run_id)
            {
                runs.push(found);
            }
        }
        Others { folder, runs }
    }

    fn look(
        &self,
        journal: &Path,
        folder: &Metadata,
        held: Option<&BTreeSet<u64>>,
    ) -> Option<OtherRun> {
        let found = std::fs::metadata(journal).ok().filter(Metadata::is_file)?;
        #[expect(clippy::cast_precision_loss, reason = "seconds")]
        let is_newer = found.mtime() as f64 + SLACK >= self.since;
        let may_be_held = held.is_none_or(|held| held.contains(&found.ino()));
        if !is_newer && !may_be_held {
            return None;
        }
        let file = mswea_files::open(journal, u64::MAX).ok()?;
        let glance = glance(&file).ok()?;
        let Event::RunStarted { run_id, parent, .. } = glance.head.event else {
            return None;
        };
        let is_living = is_held(&file);
        if run_id == self.run_id && !(self.is_fork && is_living) {
            return None;
        }
        if !is_living && glance.last <= self.since {
            return None;
        }
        let place = last_folder(&file)?;
        let place = std::fs::metadata(place).ok()?;
        let is_same = (place.dev(), place.ino()) == (folder.dev(), folder.ino());
        is_same.then_some(OtherRun {
            is_fork: parent.is_some_and(|parent| parent.run_id == self.run_id),
            run_id,
            is_living,
        })
    }
}

/// The journals of this user's runs, including those that a later run has renamed.
fn journals() -> BTreeSet<PathBuf> {
    let all = index::entries(&runs_folder());
    all.flat_map(|(journal, _)| with_put_aside(journal))
        .collect()
}

/// A journal, and those of its name that later runs have put aside.
pub(super) fn with_put_aside(journal: PathBuf) -> impl Iterator<Item = PathBuf> {
    put_aside(journal.clone()).chain([journal])
}

/// The inode numbers of locked files, as the kernel lists them for this PID namespace: the journal
/// of a run that waits for a command has an old time. None if the kernel does not list them.
fn held_files() -> Option<BTreeSet<u64>> {
    let locks = std::fs::read_to_string("/proc/locks").ok()?;
    // `1: FLOCK  ADVISORY  WRITE 1234 fd:01:5678 0 EOF`
    let number = |line: &str| {
        let mut words = line.split_whitespace().skip_while(|word| *word != "FLOCK");
        words.nth(4)?.rsplit(':').next()?.parse().ok()
    };
    Some(locks.lines().filter_map(number).collect())
}

/// The folder of the last environment that a journal has.
fn last_folder(mut file: &File) -> Option<PathBuf> {
    #[derive(Deserialize)]
    struct Ready {
        #[serde(default)]
        handle: Value,
    }
    const READY: &[u8] = b"\"event\":\"environment_ready\"";
    std::io::Seek::rewind(&mut file).ok()?;
    let mut lines = BufReader::with_capacity(1 << 18, file.take(SEARCHED));
    let mut line = Vec::new();
    let mut last = None;
    loop {
        line.clear();
        if lines.read_until(b'\n', &mut line).ok()? == 0 {
            return folder_of_handle(&last?);
        }
        // The text after the number and the time.
        let head = &line[..line.len().min(100)];
        if head.windows(READY.len()).any(|part| part == READY)
            && let Ok(ready) = serde_json::from_slice::<Ready>(&line)
        {
            last = Some(ready.handle);
        }
    }
}

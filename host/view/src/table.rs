//! The list of runs, the data of each, and the changes of these.

use std::collections::{BTreeMap, HashMap};
use std::path::PathBuf;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use mswea_export::SecretValues;
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};

use crate::blanked::SecretsFiles;
use crate::card::{self, FileStamp, RunCard};
use crate::foreign_card;
use crate::journal_card;
use crate::notes::{self, RunNotes};
use crate::places::{self, RunPlace};
use crate::settings::ViewRoots;
use crate::tally::JournalTally;

/// The shortest time between two searches of the folders. After a long search, the pause is ten
/// times its duration.
const PAUSE: Duration = Duration::from_millis(500);
/// The number of bytes of a hash that make an id.
const ID: usize = 8;

/// The list.
pub(crate) struct RunTable {
    roots: ViewRoots,
    secrets: SecretValues,
    files: SecretsFiles,
    state: Mutex<TableState>,
}

struct TableState {
    looked: Option<(Instant, Duration)>,
    /// The revision of the first change in this process.
    first: u64,
    revision: u64,
    rows: BTreeMap<String, TableRow>,
    gone: Vec<(u64, String)>,
}

#[derive(Clone)]
struct TableRow {
    place: RunPlace,
    stamp: FileStamp,
    tally: JournalTally,
    card: RunCard,
    changed: u64,
    /// Whether the same run is in the list with more data.
    is_double: bool,
}

/// A run of the list.
#[derive(Clone)]
pub(crate) struct ListedRun {
    pub(crate) id: String,
    pub(crate) place: RunPlace,
    pub(crate) card: RunCard,
}

impl RunTable {
    pub(crate) fn new(roots: ViewRoots, secrets: SecretValues, files: SecretsFiles) -> Self {
        let since = SystemTime::now().duration_since(UNIX_EPOCH);
        // A page that has the list of an earlier server process gets this one as a whole.
        let first = since.unwrap_or_default().as_secs() * 1000;
        let state = Mutex::new(TableState {
            looked: None,
            first,
            revision: first,
            rows: BTreeMap::new(),
            gone: Vec::new(),
        });
        Self {
            roots,
            secrets,
            files,
            state,
        }
    }

    /// The places where runs are looked for.
    pub(crate) fn roots(&self) -> &ViewRoots {
        &self.roots
    }

    fn state(&self) -> MutexGuard<'_, TableState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The state after a search of the folders, unless there was one just now. It reads files, so
    /// it must not be called on the thread of the connections.
    fn looked_at(&self) -> MutexGuard<'_, TableState> {
        let mut state = self.state();
        let is_due = state.looked.is_none_or(|(then, took)| {
            then.elapsed() >= PAUSE.max(took * 10).min(Duration::from_secs(60))
        });
        if is_due {
            let began = Instant::now();
            self.files.renew();
            state.look(&self.roots, &self.files);
            state.looked = Some((Instant::now(), began.elapsed()));
        }
        state
    }

    /// The tag of the current state.
    pub(crate) fn tag(&self) -> String {
        format!("\"{}\"", self.looked_at().revision)
    }

    /// The changes since a revision; everything if the revision is not one of this process.
    pub(crate) fn changes(&self, since: u64, notes: &RunNotes) -> (String, Value) {
        let state = self.looked_at();
        let since = match (state.first..=state.revision).contains(&since) {
            true => since,
            false => 0,
        };
        let shown = || state.rows.iter().filter(|(_, row)| !row.is_double);
        let changed = shown().filter(|(_, row)| row.changed > since);
        let runs: Vec<Value> = changed
            .map(|(id, row)| {
                let mut card = row.card.to_json(id, &row.place.name, &self.secrets);
                let label = notes.of(notes::key(&row.place, &row.card.run_id)).label;
                if !label.is_empty() {
                    card["label"] = label.into();
                }
                card
            })
            .collect();
        let gone = state.gone.iter().filter(|(at, _)| *at > since);
        let gone: Vec<&String> = gone.map(|(_, id)| id).collect();
        let value = json!({
            "revision": state.revision,
            "whole": since == 0,
            "runs": runs,
            "gone": if since == 0 { Vec::new() } else { gone },
            "total": shown().count(),
        });
        (format!("\"{}\"", state.revision), value)
    }

    /// All runs, the newest first.
    pub(crate) fn all(&self) -> Vec<ListedRun> {
        let state = self.looked_at();
        let shown = state.rows.iter().filter(|(_, row)| !row.is_double);
        let all = shown.map(|(id, row)| row.listed(id));
        let mut all: Vec<ListedRun> = all.collect();
        all.sort_by(|one, other| other.card.age().total_cmp(&one.card.age()));
        all
    }

    /// Marks a run as changed because of data that its card lacks, such as its note.
    pub(crate) fn touch(&self, id: &str) {
        let mut state = self.state();
        state.revision += 1;
        let revision = state.revision;
        if let Some(row) = state.rows.get_mut(id) {
            row.changed = revision;
        }
    }

    /// The run with this id.
    pub(crate) fn find(&self, id: &str) -> Option<ListedRun> {
        let state = self.looked_at();
        state.rows.get(id).map(|row| row.listed(id))
    }
}

impl TableRow {
    fn folder(&self) -> PathBuf {
        let folder = self.place.path.parent();
        folder.map(Into::into).unwrap_or_default()
    }

    fn listed(&self, id: &str) -> ListedRun {
        ListedRun {
            id: id.to_owned(),
            place: self.place.clone(),
            card: self.card.clone(),
        }
    }
}

impl TableState {
    /// Updates the list. The files of secrets that runs name are noted.
    fn look(&mut self, roots: &ViewRoots, files: &SecretsFiles) {
        let places = places::all(roots);
        let mut old = std::mem::take(&mut self.rows);
        let mut old_of: HashMap<PathBuf, (String, TableRow)> = HashMap::with_capacity(old.len());
        while let Some((id, row)) = old.pop_first() {
            old_of.insert(row.place.path.clone(), (id, row));
        }
        let mut known = Vec::with_capacity(places.len());
        let mut work = Vec::new();
        for place in places {
            let Ok(stamp) = FileStamp::of(&place.path) else {
                continue;
            };
            let before = old_of.remove(&place.path);
            match before {
                // A running run may be killed, which does not change its file.
                Some((id, row)) if row.stamp == stamp && !row.card.is_running => {
                    known.push((id, row));
                }
                before => work.push((place, stamp, before)),
            }
        }
        for (id, row) in known {
            self.rows.insert(id, row);
        }
        for (id, row) in read_all(work) {
            if let Some(file) = &row.card.secrets_file {
                files.note(file);
            }
            let is_new = row.changed == 0;
            let changed = match is_new {
                true => {
                    self.revision += 1;
                    self.revision
                }
                false => row.changed,
            };
            self.rows.insert(id, TableRow { changed, ..row });
        }
        for (_, (id, _)) in old_of {
            self.revision += 1;
            self.gone.push((self.revision, id));
        }
        self.mark_doubles();
    }

    /// Leaves out runs in ATIF that are beside the journal or trajectory from which they were made. What says more
    /// than the journal is no copy of it. A file without a run id, which goes by its name, has no copies.
    fn mark_doubles(&mut self) {
        let with_twin = self.rows.values().any(|row| !row.card.twin.is_empty());
        let has_id = |row: &&TableRow| {
            let id = &row.card.run_id;
            row.card.twin.is_empty() && !id.ends_with(".json") && !id.ends_with(".traj")
        };
        let runs: HashMap<(PathBuf, String), u32> = match with_twin {
            true => {
                let rows = self.rows.values().filter(has_id);
                rows.map(|row| ((row.folder(), row.card.run_id.clone()), row.card.steps))
                    .collect()
            }
            false => HashMap::new(),
        };
        for (id, row) in &mut self.rows {
            let twin = &row.card.twin;
            let steps = runs.get(&(row.folder(), twin.clone()));
            let is_double = !twin.is_empty() && steps.is_some_and(|steps| *steps >= row.card.steps);
            if is_double == row.is_double {
                continue;
            }
            row.is_double = is_double;
            self.revision += 1;
            match is_double {
                true => self.gone.push((self.revision, id.clone())),
                false => row.changed = self.revision,
            }
        }
    }
}

/// A file to be read, with its known data.
type CardWork = (RunPlace, FileStamp, Option<(String, TableRow)>);

/// The rows of files; those that have changed have the revision 0.
fn read_all(work: Vec<CardWork>) -> Vec<(String, TableRow)> {
    let workers = std::thread::available_parallelism().map_or(1, usize::from);
    let each = work.len().div_ceil(workers).max(64);
    let mut parts: Vec<Vec<CardWork>> = Vec::new();
    let mut work = work.into_iter().peekable();
    while work.peek().is_some() {
        parts.push(work.by_ref().take(each).collect());
    }
    std::thread::scope(|scope| {
        let threads = parts
            .into_iter()
            .map(|part| scope.spawn(|| part.into_iter().map(read).collect::<Vec<_>>()));
        let threads: Vec<_> = threads.collect();
        let rows = threads.into_iter().filter_map(|thread| thread.join().ok());
        rows.flatten().collect()
    })
}

fn read((place, stamp, before): CardWork) -> (String, TableRow) {
    let id = match &before {
        Some((id, _)) => id.clone(),
        None => id_of(&place),
    };
    let mut tally = match &before {
        Some((_, row)) if row.stamp.has_grown_to(&stamp) => row.tally.clone(),
        _ => JournalTally::default(),
    };
    let card = match place.is_journal {
        true => journal_card::read(&place.path, &mut tally),
        false => foreign_card::read(&place.path),
    };
    let card = card.unwrap_or_else(|error| RunCard {
        status: "unreadable".to_owned(),
        error,
        changed: card::changed(&place.path),
        bytes: stamp.bytes,
        ..RunCard::default()
    });
    let changed = match &before {
        Some((_, row)) if row.card == card => row.changed,
        _ => 0,
    };
    let row = TableRow {
        place,
        stamp,
        tally,
        card,
        changed,
        is_double: before.is_some_and(|(_, row)| row.is_double),
    };
    (id, row)
}

/// The id of a path. It is the same after every start, so that links stay valid.
fn id_of(place: &RunPlace) -> String {
    let digest = Sha256::digest(place.path.as_os_str().as_encoded_bytes());
    let bytes = digest.iter().take(ID);
    bytes.map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    fn look(state: &mut TableState, folder: &Path) -> Vec<String> {
        let roots = ViewRoots::Paths(vec![folder.to_owned()]);
        let files = SecretsFiles::new(SecretValues::new([]), |_| Vec::new());
        state.look(&roots, &files);
        let shown = state.rows.values().filter(|row| !row.is_double);
        let mut names: Vec<String> = shown.map(|row| row.place.name.clone()).collect();
        names.sort();
        names
    }

    #[test]
    fn a_run_and_its_copy_in_atif_are_one_row() {
        let folder = tempfile::tempdir().unwrap();
        let write = |name: &str, value: &Value| {
            let path = folder.path().join(name);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, format!("{value}\n")).unwrap();
        };
        let journal = json!({"seq": 1, "t": 1.0, "event": "run_started", "format": mswea_record::journal::FORMAT, "run_id": "r1",
            "host_version": "1", "task": "fix it", "config": {}, "plugins": [], "parent": null});
        let atif = |id: &str| {
            json!({"schema_version": "ATIF-v1.7", "trajectory_id": id, "agent": {"name": "x", "version": "1"},
                "steps": [{"source": "user", "message": "fix it"}]})
        };
        let own = json!({"info": {"mswea": {"run_id": "r1"}}, "messages": []});
        for part in ["a", "b"] {
            write(&format!("{part}/one.events.jsonl"), &journal);
            write(&format!("{part}/one.atif.json"), &atif("r1"));
        }
        write("a/trajectory.json", &atif("r1"));
        write("a/other.atif.json", &atif("r2"));
        write("c/one.traj.json", &own);
        write("c/one.atif.json", &atif("r1"));
        write("d/one.atif.json", &atif("r1"));
        let mut state = TableState {
            looked: None,
            first: 0,
            revision: 0,
            rows: BTreeMap::new(),
            gone: Vec::new(),
        };
        let expected = [
            "a/one.events.jsonl",
            "a/other.atif.json",
            "b/one.events.jsonl",
            "c/one.traj.json",
            "d/one.atif.json",
        ];
        assert_eq!(look(&mut state, folder.path()), expected);
        // The copy is shown again when it is alone.
        let before = state.revision;
        assert_eq!(look(&mut state, folder.path()), expected);
        assert_eq!(state.revision, before);
        std::fs::remove_file(folder.path().join("c/one.traj.json")).unwrap();
        let names = look(&mut state, folder.path());
        assert!(names.contains(&"c/one.atif.json".to_owned()), "{names:?}");
        let changed = state.rows.values().find(|row| row.changed > before);
        assert_eq!(changed.unwrap().place.name, "c/one.atif.json");
    }
}

//! Finds the containers that a killed host left behind, and removes those whose owner is gone.
//!
//! One function ([`sweep`]) serves the next start, the guardian and `gc`. Labels are only where
//! it looks: what is removed has to stand in a record ([`super::record`]).

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use super::ContainerSettings;
use super::clear::remove_for_good;
use super::connect::{Transport, connect};
use super::engine::{Engine, EngineError, Listed};
use super::record::{self, Record};
use crate::executor::owner::{Life, Owner};
use crate::roles::ExecutorError;

/// The label with the run's id.
pub(super) const RUN: &str = "mswea.run";
/// The label with the host process, as [`Owner`] writes it: for people, like those below.
pub(super) const OWNER: &str = "mswea.owner";
/// The label with the time, in seconds since 1970.
pub(super) const CREATED: &str = "mswea.created";
/// The label of a container that is to outlive its run.
pub(super) const KEEP: &str = "mswea.keep";

/// How long a run waits for leftovers of others to be removed.
const SWEEPING: Duration = Duration::from_secs(20);

/// A container of ours.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Leftover {
    /// Its name.
    pub name: String,
    /// The id of the run that made it.
    pub run: String,
    /// Whether it is to be removed.
    pub goes: bool,
    /// Whether it was removed.
    pub removed: bool,
    /// Why it was, would be, or was not: for people.
    pub why: String,
}

/// Removes the containers whose host is gone. Those of a living host stay, and so do those of
/// which that is not known (another machine with the same home) and those that were to be kept,
/// unless `only_run` names their run. With `only_run`, all others are left out. What merely has
/// labels like ours is never removed.
///
/// # Errors
/// When the engine can't be asked.
pub async fn remove_leftovers(
    executable: &str,
    transport: Transport,
    only_run: Option<&str>,
    dry_run: bool,
) -> Result<Vec<Leftover>, ExecutorError> {
    let failed = |error: EngineError| ExecutorError {
        message: error.message,
    };
    let engine = connect(executable, transport).await.map_err(failed)?;
    let swept = sweep(&engine, executable, only_run, dry_run).await;
    swept.map_err(failed)
}

/// Before the first container of this process: removes what killed hosts left behind.
pub(super) async fn once(settings: &ContainerSettings, engine: &Arc<dyn Engine>) {
    static SWEPT: Mutex<BTreeSet<String>> = Mutex::new(BTreeSet::new());
    let key = format!("{} {:?}", settings.executable, settings.transport);
    let is_first = |swept: &Mutex<BTreeSet<String>>| {
        swept
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .insert(key)
    };
    if !is_first(&SWEPT) {
        return;
    }
    let swept = sweep(engine, &settings.executable, None, false);
    match tokio::time::timeout(SWEEPING, swept).await {
        Ok(Ok(leftovers)) => {
            for left in leftovers.iter().filter(|left| left.removed) {
                tracing::info!(container = left.name, why = left.why, "removed a leftover");
            }
        }
        Ok(Err(error)) => {
            tracing::warn!(%error, "containers that were left behind can't be looked for");
        }
        Err(_) => tracing::warn!("containers that were left behind take long to be removed"),
    }
}

/// The same with an engine that is connected already, which `executable` names.
pub(super) async fn sweep(
    engine: &Arc<dyn Engine>,
    executable: &str,
    only_run: Option<&str>,
    dry_run: bool,
) -> Result<Vec<Leftover>, EngineError> {
    // First the records: what is made meanwhile is listed and not known, and so is left.
    let mut records = record::all();
    let listed = engine.list(RUN).await?;
    let mut removals = tokio::task::JoinSet::new();
    for (place, container) in listed.into_iter().enumerate() {
        let run = container.labels.get(RUN).cloned().unwrap_or_default();
        let known = records.iter().position(|record| record.is_of(&container));
        let record = known.map(|known| records.swap_remove(known));
        if only_run.is_some_and(|only| only != run) {
            continue;
        }
        let (goes, why) = judge(&container, record.as_ref(), executable, only_run.is_some());
        let mut leftover = Leftover {
            name: container.name.clone(),
            run,
            goes,
            removed: false,
            why,
        };
        let engine = engine.clone();
        removals.spawn(async move {
            if goes && !dry_run {
                match remove_for_good(&*engine, &container).await {
                    Ok(()) => {
                        leftover.removed = true;
                        record.iter().for_each(Record::forget);
                    }
                    Err(error) => leftover.why = error.message,
                }
            }
            (place, leftover)
        });
    }
    if !dry_run {
        // Without a container: it was removed by hand, or never made.
        for record in records.iter().filter(|record| record.is_over(executable)) {
            if life(record) == Life::Gone {
                record.forget();
            }
        }
        record::tidy();
    }
    let mut leftovers = removals.join_all().await;
    leftovers.sort_by_key(|(place, _)| *place);
    Ok(leftovers.into_iter().map(|(_, left)| left).collect())
}

fn life(record: &Record) -> Life {
    let owner = record.entry.owner.parse::<Owner>();
    owner.map_or(Life::Unknown, |owner| owner.life())
}

/// Whether a container is to go, and why.
fn judge(
    container: &Listed,
    record: Option<&Record>,
    executable: &str,
    named: bool,
) -> (bool, String) {
    let Some(record) = record else {
        let name = &container.name;
        return (
            false,
            format!(
                "it is not on record here that a run made it: it is another user's or machine's, or comes from an image of such a container (`docker commit`); if nobody needs it, remove it with `{executable} rm -f {name}`"
            ),
        );
    };
    let maker = match record.entry.owner.parse::<Owner>() {
        Ok(owner) => format!("process {} of `{}`", owner.pid, owner.host),
        Err(()) => "its maker".to_owned(),
    };
    match life(record) {
        // Not even by name: the run would lose its work.
        Life::Alive => (false, format!("{maker} is using it")),
        _ if named => (true, "its run was named".to_owned()),
        _ if record.entry.kept => (false, "it was to be kept: name its run".to_owned()),
        Life::Gone => (true, format!("{maker}, which made it, is gone")),
        Life::Unknown => (
            false,
            format!("{maker}, which made it, can't be seen from here: name its run"),
        ),
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::executor::container::record::{Entry, KEY};

    #[test]
    fn only_what_is_certainly_left_behind_goes() {
        let me = Owner::current().to_string();
        let mut parts: Vec<&str> = me.split('/').collect();
        parts[4] = "2147483647";
        let gone = parts.join("/");
        parts[0] = "elsewhere";
        let unknown = parts.join("/");
        let vectors = [
            // owner, kept; goes, goes if named, why
            (me.as_str(), false, false, false, "is using it"),
            (&gone, false, true, true, "is gone"),
            (&gone, true, false, true, "to be kept"),
            (&unknown, false, false, true, "`elsewhere`"),
            ("nonsense", false, false, true, "its maker"),
        ];
        for (owner, kept, goes, goes_if_named, why) in vectors {
            let mut entry = Entry::new("r", "n", kept, "docker");
            entry.owner = owner.to_owned();
            let container = Listed {
                id: "i".into(),
                name: "n".into(),
                labels: BTreeMap::from([
                    (RUN.to_owned(), "r".to_owned()),
                    (OWNER.to_owned(), gone.clone()),
                    (KEY.to_owned(), entry.key.clone()),
                ]),
            };
            let record = Record::in_memory(entry);
            let judge = |record, named| judge(&container, record, "docker", named);
            let judged = judge(Some(&record), false);
            assert_eq!(judged.0, goes, "{owner:?} {kept}");
            assert!(judged.1.contains(why), "{}", judged.1);
            assert_eq!(
                judge(Some(&record), true).0,
                goes_if_named,
                "{owner:?} {kept}"
            );
            // Whatever its labels say.
            for named in [false, true] {
                let (goes, why) = judge(None, named);
                assert!(!goes && why.contains("`docker rm -f n`"), "{why}");
            }
        }
    }
}

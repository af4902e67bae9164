//! Finds the containers that a killed host left behind, and removes those whose owner is gone.
//!
//! The next start, the guardian and `gc` use the same function ([`sweep`]). Labels only select
//! candidates: a container is removed only if a record names it ([`super::record`]).

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use super::ContainerSettings;
use super::clear::remove_for_good;
use super::connect::{Transport, connect};
use super::engine::{Engine, EngineError, ListedContainer};
use super::record::{self, ContainerRecord};
use crate::leftovers::{Fate, Leftover};
use crate::owner::Life;
use mswea_core::ExecutorError;

/// The label with the run's id.
pub(super) const RUN: &str = "mswea.run";
/// The label with the host process, as [`Owner`] writes it. This label and the next ones are for
/// people.
pub(super) const OWNER: &str = "mswea.owner";
/// The label with the time, in seconds since 1970.
pub(super) const CREATED: &str = "mswea.created";
/// The label of a container that is kept after its run.
pub(super) const KEEP: &str = "mswea.keep";

/// How long a run waits for the removal of other runs' leftovers.
const SWEEPING: Duration = Duration::from_secs(20);

/// Removes the containers whose host is gone. Those of a living host stay, as do those whose host
/// can't be checked (another machine with the same home) and those that are kept on purpose, unless
/// `only_run` names their run. With `only_run`, all others are left out. Containers that only have
/// the labels are never removed.
///
/// # Errors
/// A message if the engine can't be asked.
pub async fn remove_leftovers(
    executable: &str,
    transport: Transport,
    only_run: Option<&str>,
    dry_run: bool,
) -> Result<Vec<Leftover>, ExecutorError> {
    let engine = connect(executable, transport).await?;
    Ok(sweep(&engine, executable, only_run, dry_run).await?)
}

/// Removes the containers that killed hosts left behind; only before this process's first container
/// of an engine.
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
            for left in leftovers.iter().filter(|it| it.fate == Fate::Removed) {
                tracing::info!(container = left.name, "removed a leftover");
            }
        }
        Ok(Err(error)) => {
            tracing::warn!(%error, "the containers that killed hosts left behind can't be listed");
        }
        Err(_) => tracing::warn!(
            "the removal of containers that killed hosts left behind takes long: it is given up"
        ),
    }
}

/// As [`remove_leftovers`], with an engine that is connected already, which `executable` names.
pub(super) async fn sweep(
    engine: &Arc<dyn Engine>,
    executable: &str,
    only_run: Option<&str>,
    dry_run: bool,
) -> Result<Vec<Leftover>, EngineError> {
    // The records are read first: a container that is made in between is listed without a known
    // record, and so is left.
    let mut records = record::all();
    let listed = engine.list(RUN).await?;
    let mut removals = tokio::task::JoinSet::new();
    for (place, container) in listed.into_iter().enumerate() {
        let run = container.labels.get(RUN).cloned().unwrap_or_default();
        let known = records.iter().position(|record| record.is_of(&container));
        let record = known.map(|known| records.swap_remove(known));
        // Also by the id of the process, which is in the container's name.
        let of_process = record.as_ref().map(|record| record.entry.run.as_str());
        if only_run.is_some_and(|only| only != run && Some(only) != of_process) {
            continue;
        }
        let fate = judge(&container, record.as_ref(), executable, only_run.is_some());
        let mut leftover = Leftover {
            kind: "container",
            name: container.name.clone(),
            run_id: run,
            fate,
        };
        let engine = engine.clone();
        removals.spawn(async move {
            if record.as_ref().is_some_and(ContainerRecord::is_taken_over) {
                leftover.fate = Fate::Left("its run was resumed".to_owned());
            } else if leftover.fate == Fate::Found && !dry_run {
                leftover.fate = match remove_for_good(&*engine, &container).await {
                    Ok(()) => {
                        record.iter().for_each(ContainerRecord::forget);
                        Fate::Removed
                    }
                    Err(error) => Fate::Failed(error.message),
                };
            }
            (place, leftover)
        });
    }
    if !dry_run {
        // Records without a container: it was removed by hand, or never made.
        for record in records.iter().filter(|record| record.is_over(executable)) {
            if record.life() == Life::Gone {
                record.forget();
            }
        }
        record::tidy();
    }
    let mut leftovers = removals.join_all().await;
    leftovers.sort_by_key(|(place, _)| *place);
    Ok(leftovers.into_iter().map(|(_, left)| left).collect())
}

/// The command that removes all containers of a run.
pub(super) fn removal_of(executable: &str, run: &str) -> String {
    match executable {
        "docker" | "podman" => format!("mswea-host gc --run {run}"),
        other => format!("mswea-host gc --docker {other} --run {run}"),
    }
}

/// Whether a container is to be removed.
fn judge(
    container: &ListedContainer,
    record: Option<&ContainerRecord>,
    executable: &str,
    named: bool,
) -> Fate {
    let Some(record) = record else {
        let name = &container.name;
        return Fate::Left(format!(
            "no record of this user on this machine names it: another user or machine made it, or it comes from an image of such a container (`docker commit`); if it is not needed, remove it with `{executable} rm -f {name}`"
        ));
    };
    let maker = match record.owner() {
        Some(owner) => format!("process {} of `{}`", owner.pid, owner.host),
        None => "its maker".to_owned(),
    };
    let removal = || removal_of(executable, &record.entry.label);
    match record.life() {
        // Not even if it is named: the run would lose its work.
        Life::Alive => Fate::Left(format!("{maker} is using it")),
        _ if named => Fate::Found,
        _ if record.entry.kept => {
            Fate::Left(format!("it was to be kept: `{}` removes it", removal()))
        }
        Life::Gone => Fate::Found,
        Life::Unknown => Fate::Left(format!(
            "{maker}, which made it, can't be seen from here: if its run is over, `{}` removes it",
            removal()
        )),
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::container::engine::KEY;
    use crate::container::record::ContainerEntry;
    use crate::owner::Owner;

    #[test]
    fn only_certain_leftovers_are_removed() {
        let me = Owner::current().to_string();
        let mut parts: Vec<&str> = me.split('/').collect();
        parts[4] = "2147483647";
        let gone = parts.join("/");
        parts[0] = "elsewhere";
        let unknown = parts.join("/");
        let vectors = [
            // owner, kept; whether it is removed, whether it is removed if named, the reason
            (me.as_str(), false, false, false, "is using it"),
            (&gone, false, true, true, ""),
            (&gone, true, false, true, "to be kept"),
            (&unknown, false, false, true, "`elsewhere`"),
            ("nonsense", false, false, true, "its maker"),
        ];
        for (owner, kept, goes, goes_if_named, why) in vectors {
            let settings = ContainerSettings {
                run_id: "r".into(),
                keep: kept,
                ..ContainerSettings::default()
            };
            let mut entry = ContainerEntry::new(&settings, "n");
            entry.owner = owner.to_owned();
            let container = ListedContainer {
                id: "i".into(),
                name: "n".into(),
                labels: BTreeMap::from([
                    (RUN.to_owned(), "r".to_owned()),
                    (OWNER.to_owned(), gone.clone()),
                    (KEY.to_owned(), entry.key.clone()),
                ]),
            };
            let record = ContainerRecord::in_memory(entry);
            let judge = |record, named| judge(&container, record, "docker", named);
            let judged = judge(Some(&record), false);
            assert_eq!(judged == Fate::Found, goes, "{owner:?} {kept}");
            assert!(judged.reason().contains(why), "{judged:?}");
            let named = judge(Some(&record), true);
            assert_eq!(named == Fate::Found, goes_if_named, "{owner:?} {kept}");
            // Whatever its labels say.
            for named in [false, true] {
                let fate = judge(None, named);
                assert!(matches!(&fate, Fate::Left(why) if why.contains("`docker rm -f n`")));
            }
        }
    }
}

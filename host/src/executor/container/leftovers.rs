//! Finds the containers that a killed host left behind, and removes those whose owner is gone.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use super::ContainerSettings;
use super::connect::{Transport, connect};
use super::engine::{Engine, EngineError, Listed};
use crate::executor::owner::{Life, Owner};
use crate::roles::ExecutorError;

/// The label with the run's id.
pub(super) const RUN: &str = "mswea.run";
/// The label with the host process, as [`Owner`] writes it.
pub(super) const OWNER: &str = "mswea.owner";
/// The label with the time, in seconds since 1970.
pub(super) const CREATED: &str = "mswea.created";
/// The label of a container that is to outlive its run.
pub(super) const KEEP: &str = "mswea.keep";

/// How long one removal may take.
const REMOVING: Duration = Duration::from_secs(60);
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
/// which that is not known (another machine on the same daemon) and those that were to be kept,
/// unless `only_run` names their run. With `only_run`, all others are left out.
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
    sweep(&engine, only_run, dry_run).await.map_err(failed)
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
    match tokio::time::timeout(SWEEPING, sweep(engine, None, false)).await {
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

/// The same with an engine that is connected already.
pub(super) async fn sweep(
    engine: &Arc<dyn Engine>,
    only_run: Option<&str>,
    dry_run: bool,
) -> Result<Vec<Leftover>, EngineError> {
    let listed = engine.list(RUN).await?;
    let mut removals = tokio::task::JoinSet::new();
    for (place, container) in listed.into_iter().enumerate() {
        let run = container.labels.get(RUN).cloned().unwrap_or_default();
        if only_run.is_some_and(|only| only != run) {
            continue;
        }
        let (goes, why) = judge(&container, only_run.is_some());
        let mut leftover = Leftover {
            name: container.name,
            run,
            goes,
            removed: false,
            why,
        };
        let engine = engine.clone();
        removals.spawn(async move {
            if goes && !dry_run {
                match engine.remove(&container.id, REMOVING).await {
                    Ok(()) => leftover.removed = true,
                    Err(error) => leftover.why = error.message,
                }
            }
            (place, leftover)
        });
    }
    let mut leftovers = removals.join_all().await;
    leftovers.sort_by_key(|(place, _)| *place);
    Ok(leftovers.into_iter().map(|(_, left)| left).collect())
}

/// Whether a container is to go, and why.
fn judge(container: &Listed, named: bool) -> (bool, String) {
    let owner = container
        .labels
        .get(OWNER)
        .map(|text| text.parse::<Owner>());
    let kept = container.labels.contains_key(KEEP);
    let Some(Ok(owner)) = owner else {
        return if named {
            (true, "its run was named".to_owned())
        } else {
            (
                false,
                "it does not say whose it is: name its run".to_owned(),
            )
        };
    };
    let (host, pid) = (&owner.host, owner.pid);
    match owner.life() {
        // Not even by name: the run would lose its work.
        Life::Alive => (false, format!("process {pid} is using it")),
        _ if named => (true, "its run was named".to_owned()),
        _ if kept => (false, "it was to be kept: name its run".to_owned()),
        Life::Gone => (true, format!("process {pid}, which made it, is gone")),
        Life::Unknown => (
            false,
            format!(
                "process {pid} of `{host}`, which made it, can't be seen from here: name its run"
            ),
        ),
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

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
            (Some(me.as_str()), false, false, false, "is using it"),
            (Some(&gone), false, true, true, "is gone"),
            (Some(&gone), true, false, true, "to be kept"),
            (Some(&unknown), false, false, true, "`elsewhere`"),
            (Some("nonsense"), false, false, true, "whose it is"),
            (None, false, false, true, "whose it is"),
        ];
        for (owner, kept, goes, goes_if_named, why) in vectors {
            let mut labels = BTreeMap::from([(RUN.to_owned(), "r".to_owned())]);
            labels.extend(owner.map(|owner| (OWNER.to_owned(), owner.to_owned())));
            labels.extend(kept.then(|| (KEEP.to_owned(), "true".to_owned())));
            let container = Listed {
                id: "i".into(),
                name: "n".into(),
                labels,
            };
            let judged = judge(&container, false);
            assert_eq!(judged.0, goes, "{owner:?} {kept}");
            assert!(judged.1.contains(why), "{}", judged.1);
            assert_eq!(judge(&container, true).0, goes_if_named, "{owner:?} {kept}");
        }
    }
}

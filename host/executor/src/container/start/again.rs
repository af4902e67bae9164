//! Finds the container that an earlier process of the same run has made.

use std::sync::Arc;
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use tokio::time::sleep;

use super::{ReadyContainer, StartedContainer, error, make_ready, unless};
use crate::container::ContainerSettings;
use crate::container::connect::connect;
use crate::container::engine::KEY;
use crate::container::engine::{Engine, EngineError, EngineErrorKind, Image};
use crate::container::leftovers::RUN;
use crate::container::record::{self, ContainerEntry, ContainerRecord};
use crate::container::running::Container;
use crate::owner::{Life, Owner};
use mswea_core::{Context, ExecutorError, Progress};

/// How long a container that has ended is looked at, in case that it is being removed.
const REMOVING: Duration = Duration::from_secs(5);
const PAUSE: Duration = Duration::from_millis(50);

/// What is needed to find a container again.
#[derive(Debug, Serialize, Deserialize)]
pub(in crate::container) struct Handle {
    /// The engine's id of it.
    container: String,
    name: String,
    /// The value of its label [`KEY`], which no other container has.
    key: String,
    /// The engine's program.
    engine: String,
    image: String,
}

impl Handle {
    /// The handle of a container; `Null` if it is not on record.
    pub(in crate::container) fn value(
        container: &Container,
        settings: &ContainerSettings,
    ) -> Value {
        let Some(record) = &container.record else {
            return Value::Null;
        };
        json!(Self {
            container: container.id.clone(),
            name: container.name.clone(),
            key: record.entry.key.clone(),
            engine: settings.executable.clone(),
            image: settings.image.clone(),
        })
    }
}

/// Finds the container of `handle` by its id and its labels. A paused container is unpaused, a
/// stopped one is started.
///
/// # Errors
/// [`ExecutorError`] if another process uses the container, it exists and can't run commands, the
/// engine can't be asked, or the run was stopped. A container that is gone is no error.
pub(in crate::container) async fn find(
    settings: &ContainerSettings,
    handle: &Value,
    context: &Context,
) -> Result<Result<ReadyContainer, String>, ExecutorError> {
    let Ok(handle) = Handle::deserialize(handle) else {
        return Ok(Err("it was not recorded which container it was".to_owned()));
    };
    let name = &handle.name;
    if handle.engine != settings.executable || handle.image != settings.image {
        return Ok(Err(format!(
            "it is made of image `{}` by `{}` now, before it was `{}` by `{}`",
            settings.image, settings.executable, handle.image, handle.engine
        )));
    }
    let stop = &context.stop;
    let known = record::near(settings.label())
        .into_iter()
        .find(|record| record.entry.key == handle.key);
    if let Some(owner) = known.as_ref().and_then(ContainerRecord::owner)
        && Owner::current() != owner
        && owner.life() == Life::Alive
    {
        return Err(error(format!(
            "process {} is using the container `{name}` of this run: end it first",
            owner.pid
        )));
    }
    let gone = |why: String| Ok(Err(format!("the container `{name}` {why}")));
    let connecting = connect(&settings.executable, settings.transport);
    let engine = unless(stop, connecting).await??;
    let listed = unless(stop, engine.list(RUN)).await??;
    let is_it = |key: Option<&String>| key == Some(&handle.key);
    let Some(found) = listed
        .into_iter()
        .find(|it| it.id == handle.container && is_it(it.labels.get(KEY)))
        .filter(|it| it.labels.get(RUN).map(String::as_str) == Some(settings.label()))
    else {
        return gone("was removed".to_owned());
    };
    // From here on, no other process removes the container. Before this, the guardian of the killed
    // host may remove it.
    let record = take_over(known, &handle, settings);
    let woken = unless(stop, wake(&engine, &found.id, name, settings, context)).await??;
    if !woken {
        return gone("was removed".to_owned());
    }
    let image = unless(stop, engine.image(&settings.image)).await?;
    let image = image.ok().flatten().unwrap_or_else(|| Image {
        id: String::new(),
        architecture: mswea_helper_bundle::ARCHITECTURE.to_owned(),
        user: "unknown".to_owned(),
        os: "linux".to_owned(),
    });
    let started = StartedContainer {
        id: found.id,
        name: name.clone(),
        record,
        began: Instant::now(),
    };
    match unless(stop, make_ready(&engine, &started, settings, &image)).await? {
        Ok(ready) => {
            context.front.show(&Progress::Preparing(&format!(
                "container `{name}` of this run is there: the run goes on in it"
            )));
            Ok(Ok(ready))
        }
        Err(_) if unless(stop, vanishes(&engine, &started.id)).await? => {
            gone("was removed".to_owned())
        }
        Err(failed) => Err(error(format!(
            "the container `{name}` of this run can't run commands any more: {failed}; see it with `{program} logs {name}`, or remove it with `{program} rm -f {name}`: `mswea-host resume` then makes a new one",
            program = settings.executable
        ))),
    }
}

/// Unpauses or starts the container; returns whether it exists.
///
/// # Errors
/// [`ExecutorError`] with a command for the user if it can't be unpaused or started.
async fn wake(
    engine: &Arc<dyn Engine>,
    id: &str,
    name: &str,
    settings: &ContainerSettings,
    context: &Context,
) -> Result<bool, ExecutorError> {
    let is_gone = |failed: &EngineError| failed.kind == EngineErrorKind::ContainerGone;
    let before = match engine.state(id).await {
        Ok(state) => state,
        Err(failed) if is_gone(&failed) => return Ok(false),
        Err(failed) => return Err(failed.into()),
    };
    let (was, verb, tried) = match () {
        () if before.paused => ("was paused", "unpause", engine.unpause(id).await),
        () if before.running => return Ok(true),
        () => ("had stopped", "start", engine.start(id).await),
    };
    // The guardian of the killed host may have begun to remove it.
    if tried.as_ref().is_err_and(is_gone) && vanishes(engine, id).await {
        return Ok(false);
    }
    let now = engine.state(id).await;
    let why = match (tried, now) {
        (_, Ok(now)) if now.running && !now.paused => {
            let text = format!("the container `{name}` of this run {was}: it runs again");
            context.front.show(&Progress::Warning(&text));
            return Ok(true);
        }
        // `--rm` removes a container that has stopped.
        (_, Err(failed)) if is_gone(&failed) => return Ok(false),
        (Err(failed), _) | (Ok(()), Err(failed)) => failed.message,
        (Ok(()), Ok(now)) => format!("it has ended with the exit code {}", now.exit_code),
    };
    let program = &settings.executable;
    Err(error(format!(
        "the container `{name}` of this run {was} and does not go on: {why}; run `{program} {verb} {name}` and resume again, or remove it with `{program} rm -f {name}`: `mswea-host resume` then makes a new one"
    )))
}

/// Whether a container that can't be used is gone, or is soon.
async fn vanishes(engine: &Arc<dyn Engine>, id: &str) -> bool {
    let began = Instant::now();
    loop {
        match engine.state(id).await {
            Err(failed) => return failed.kind == EngineErrorKind::ContainerGone,
            Ok(state) if state.running => return false,
            Ok(_) if began.elapsed() > REMOVING => return false,
            Ok(_) => sleep(PAUSE).await,
        }
    }
}

/// The record of the container, rewritten so that this process is its owner.
fn take_over(
    known: Option<ContainerRecord>,
    handle: &Handle,
    settings: &ContainerSettings,
) -> Option<ContainerRecord> {
    let fresh = ContainerEntry::new(settings, &handle.name);
    let entry = ContainerEntry {
        key: handle.key.clone(),
        ..fresh
    };
    let taken = match known {
        Some(known) => known.replace(entry),
        None => entry.write().map(|mut record| {
            record.found(&handle.container);
            record
        }),
    };
    taken
        .inspect_err(|error| {
            tracing::warn!(%error, "the container can't be put on record: if this host is killed, it stays");
        })
        .ok()
}

//! Removes a container whose making failed, or was cancelled.
//!
//! The container's id is not known then, and another container may have its name, so it is found by
//! its key, a random label.

use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::sync::oneshot;
use tokio::time::sleep;

use super::engine::{ContainerSpec, Engine, EngineError, EngineErrorKind, KEY, ListedContainer};
use crate::aside::before_the_end;

/// The time limit of one removal.
const REMOVING: Duration = Duration::from_secs(60);
/// How long a container may take to appear after the engine was asked to make it.
const TURNING_UP: Duration = Duration::from_secs(5);
/// How long an engine gets to complete a container whose early removal would damage its records.
const HASTE: Duration = Duration::from_millis(500);
/// The pause between two searches.
const PAUSE: Duration = Duration::from_millis(100);
/// How long dropping an [`Unfinished`] may block.
const LAST: Duration = Duration::from_secs(15);

/// Removes the container that was made for `spec`; searches for it for at most `patience`.
///
/// # Errors
/// [`EngineError`] if the engine can't be asked, or does not remove it.
async fn clear(
    engine: &dyn Engine,
    spec: &ContainerSpec,
    patience: Duration,
) -> Result<(), EngineError> {
    let Some(key) = spec.labels.get(KEY) else {
        return Ok(());
    };
    let began = Instant::now();
    loop {
        let listed = engine.list(&format!("{KEY}={key}")).await?;
        if let Some(found) = listed.iter().find(|found| found.name == spec.name) {
            return remove_for_good(engine, found).await;
        }
        if began.elapsed() >= patience {
            return Ok(());
        }
        sleep(PAUSE).await;
    }
}

/// Removes a container that may not be complete yet: an engine lists it before it can remove it,
/// and until then answers that there is none.
///
/// # Errors
/// [`EngineError`] if the engine can't be asked, or does not remove it.
pub(super) async fn remove_for_good(
    engine: &dyn Engine,
    container: &ListedContainer,
) -> Result<(), EngineError> {
    let label = match container.labels.get(KEY) {
        Some(key) => format!("{KEY}={key}"),
        None => KEY.to_owned(),
    };
    let began = Instant::now();
    loop {
        engine.remove(&container.id, REMOVING).await?;
        let listed = engine.list(&label).await?;
        let is_there = listed.iter().any(|found| found.id == container.id);
        if !is_there {
            return Ok(());
        }
        if began.elapsed() > REMOVING {
            return Err(EngineError {
                kind: EngineErrorKind::TimedOut,
                message: format!(
                    "container `{}` is still listed after its removal",
                    container.name
                ),
            });
        }
        sleep(PAUSE).await;
    }
}

/// Makes a container in a task of its own: if the caller stops waiting, the task still learns
/// whether there is a container, and removes it. Returns the container's id.
///
/// # Errors
/// [`EngineError`] if it can't be made.
pub(super) async fn made(
    making: impl Future<Output = Result<Unfinished, EngineError>> + Send + 'static,
) -> Result<String, EngineError> {
    let (sender, receiver) = oneshot::channel();
    let task = tokio::spawn(async move {
        if let Err(Ok(unwanted)) = sender.send(making.await) {
            unwanted.remove(Duration::ZERO).await;
        }
    });
    let broken = |why: String| EngineError {
        kind: EngineErrorKind::Other,
        message: format!("the making of the container was broken off: {why}"),
    };
    match receiver.await {
        Ok(result) => result.map(Unfinished::keep),
        Err(_) => Err(broken(
            task.await.err().map_or_else(String::new, |e| e.to_string()),
        )),
    }
}

/// A container that is being made: it is removed when this is dropped, unless [`Self::keep`] is
/// called.
pub(super) struct Unfinished {
    engine: Arc<dyn Engine>,
    spec: ContainerSpec,
    /// Its id, when it is known.
    id: Option<String>,
    armed: bool,
}

impl Unfinished {
    /// Called before the engine is asked to make the container.
    pub(super) fn new(engine: Arc<dyn Engine>, spec: &ContainerSpec) -> Self {
        Self {
            engine,
            spec: spec.clone(),
            id: None,
            armed: true,
        }
    }

    /// Records the container's id.
    pub(super) fn has_id(&mut self, id: &str) {
        self.id = Some(id.to_owned());
    }

    /// Records that there is no container.
    pub(super) fn forget(mut self) {
        self.armed = false;
    }

    /// Ends the responsibility for the container; returns its id.
    pub(super) fn keep(mut self) -> String {
        self.armed = false;
        self.id.take().unwrap_or_default()
    }

    /// Removes the container, if there is one, after a failure or an interruption of the engine.
    pub(super) async fn remove(mut self, patience: Duration) {
        match self.try_to_remove(patience).await {
            Ok(()) => self.armed = false,
            // Dropping `self` tries once more.
            Err(error) => self.tell(&error.message),
        }
    }

    /// The same for a container that the engine may list only after a moment.
    pub(super) async fn remove_when_it_turns_up(self) {
        self.remove(TURNING_UP).await;
    }

    async fn try_to_remove(&self, patience: Duration) -> Result<(), EngineError> {
        match &self.id {
            Some(id) => self.engine.remove(id, REMOVING).await,
            None => clear(&*self.engine, &self.spec, patience).await,
        }
    }

    fn tell(&self, why: &str) {
        let name = self.id.as_deref().unwrap_or(&self.spec.name);
        tracing::warn!(container = name, why, "a container may be left");
    }
}

impl Drop for Unfinished {
    /// Removes the container if the program ends while it is being made.
    fn drop(&mut self) {
        if !std::mem::replace(&mut self.armed, false) {
            return;
        }
        let rest = Self {
            armed: false,
            engine: self.engine.clone(),
            spec: std::mem::take(&mut self.spec),
            id: self.id.take(),
        };
        before_the_end(LAST, async move {
            if rest.engine.suffers_from_haste() {
                sleep(HASTE).await;
            }
            if let Err(error) = rest.try_to_remove(TURNING_UP).await {
                rest.tell(&error.message);
            }
        });
    }
}

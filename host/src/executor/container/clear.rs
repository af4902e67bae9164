//! Takes away a container that was being made when that failed, or when nobody wanted it any more.
//!
//! Its id is not known by then, and its name may be another's: it is found by its key, which was
//! made up for it alone.

use std::sync::{Arc, mpsc};
use std::time::{Duration, Instant};

use tokio::time::sleep;

use super::engine::{ContainerSpec, Engine, EngineError, EngineErrorKind, Listed};
use super::record::KEY;

/// How long one removal may take.
const REMOVING: Duration = Duration::from_secs(60);
/// How long an engine that was asked may take until its container turns up.
const TURNING_UP: Duration = Duration::from_secs(5);
/// How long an engine that suffers from haste is left alone.
const HASTE: Duration = Duration::from_millis(500);
/// Between two looks.
const PAUSE: Duration = Duration::from_millis(100);
/// How long the end of the program may be held up.
const LAST: Duration = Duration::from_secs(15);

/// Removes what was made of `spec`; looks for it for as long as `patience`.
///
/// # Errors
/// When the engine can't be asked, or does not remove it.
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

/// Removes a container that may still be in the making: an engine lists such a one before it can
/// remove it, and says then that there is none.
///
/// # Errors
/// When the engine can't be asked, or does not remove it.
pub(super) async fn remove_for_good(
    engine: &dyn Engine,
    container: &Listed,
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
                message: format!("container `{}` does not go", container.name),
            });
        }
        sleep(PAUSE).await;
    }
}

/// A container in the making: it goes when this goes, unless somebody has taken it over.
pub(super) struct Unfinished {
    engine: Arc<dyn Engine>,
    spec: ContainerSpec,
    /// Once it is known.
    id: Option<String>,
    armed: bool,
}

impl Unfinished {
    /// From before the engine is asked.
    pub(super) fn new(engine: Arc<dyn Engine>, spec: &ContainerSpec) -> Self {
        Self {
            engine,
            spec: spec.clone(),
            id: None,
            armed: true,
        }
    }

    /// It is there.
    pub(super) fn has_id(&mut self, id: &str) {
        self.id = Some(id.to_owned());
    }

    /// There is none.
    pub(super) fn forget(mut self) {
        self.armed = false;
    }

    /// Hands it over; returns its id.
    pub(super) fn keep(mut self) -> String {
        self.armed = false;
        self.id.take().unwrap_or_default()
    }

    /// The engine has failed, or was interrupted: takes away what there is.
    pub(super) async fn remove(mut self, patience: Duration) {
        match self.try_to_remove(patience).await {
            Ok(()) => self.armed = false,
            // Then once more, as this goes.
            Err(error) => self.tell(&error.message),
        }
    }

    /// The same, for what may still be on its way.
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
    /// The last resort, when the program ends while the container is being made: blocks, on a
    /// thread with an event loop of its own, because this one runs nothing any more.
    fn drop(&mut self) {
        if !std::mem::replace(&mut self.armed, false) {
            return;
        }
        let (sender, receiver) = mpsc::channel();
        let rest = Self {
            armed: false,
            engine: self.engine.clone(),
            spec: std::mem::take(&mut self.spec),
            id: self.id.take(),
        };
        std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread()
                .enable_all()
                .build();
            let work = async {
                if rest.engine.suffers_from_haste() {
                    sleep(HASTE).await;
                }
                rest.try_to_remove(TURNING_UP).await
            };
            match runtime.map(|runtime| runtime.block_on(work)) {
                Ok(Ok(())) => {}
                Ok(Err(error)) => rest.tell(&error.message),
                Err(error) => rest.tell(&error.to_string()),
            }
            let _ = sender.send(());
        });
        let _ = receiver.recv_timeout(LAST);
    }
}

//! Removes the container of a run, and makes the guardian remove it if this host is killed.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use super::ContainerExecutor;
use crate::aside::before_the_end;
use crate::container::ContainerSettings;
use crate::container::engine::{EngineError, EngineErrorKind};
use crate::container::record::{self, ContainerRecord};
use crate::container::running::Container;
use crate::container::turn::turn;
use crate::guard::Lease;

/// The time limit of one removal.
const REMOVING: Duration = Duration::from_secs(60);
/// How long dropping an executor whose container was not removed may take.
const DROPPING: Duration = Duration::from_secs(15);

/// For each engine, the last time at which it did not remove a container within the time limit.
/// Runs that are waiting for their turn at that time give up, so that hundreds of containers do not
/// each wait for the limit.
static HUNG: Mutex<BTreeMap<String, Instant>> = Mutex::new(BTreeMap::new());

fn engine_hangs() -> EngineError {
    EngineError {
        kind: EngineErrorKind::TimedOut,
        message: format!(
            "the engine has not removed another container within {} s",
            REMOVING.as_secs()
        ),
    }
}

impl ContainerExecutor {
    /// Gets a lease of the guardian; called before there is a container.
    pub(super) fn guard(&mut self) {
        let ContainerSettings {
            guard_program,
            run_id,
            executable,
            ..
        } = &self.settings;
        let follows = "the next start removes its container";
        self.lease = Lease::of(guard_program.as_deref(), run_id, follows);
        if let Some(lease) = &self.lease {
            lease.tell_engine(executable);
        }
    }

    /// Releases the lease when there is no container any more; if one is left, the guardian becomes
    /// responsible for it.
    pub(super) async fn unguard(&mut self) {
        let Some(lease) = self.lease.take() else {
            return;
        };
        let near = record::near(self.settings.label());
        if near
            .iter()
            .any(|record| record.is_awaited(&self.settings.run_id))
        {
            return lease.hand_over();
        }
        lease.release().await;
    }

    /// Removes the container, even if the settings keep it. It stays in `self` until it is removed,
    /// because the caller may stop waiting.
    pub(super) async fn remove(&mut self) {
        let Some(container) = &self.container else {
            return;
        };
        self.session = None;
        self.removing = true;
        let Container { engine, id, .. } = container;
        let asked = Instant::now();
        let turn = turn().await;
        let program = &self.settings.executable;
        let hung = || HUNG.lock().unwrap_or_else(PoisonError::into_inner);
        let mut result = match hung().get(program) {
            // The engine did not answer another run while this one waited.
            Some(at) if *at > asked => Err(engine_hangs()),
            _ => Ok(()),
        };
        if result.is_ok() {
            result = engine.remove(id, REMOVING).await;
            let again = |error: &EngineError| error.kind != EngineErrorKind::TimedOut;
            if result.as_ref().err().is_some_and(again) {
                result = engine.remove(id, REMOVING).await;
            }
            if result.as_ref().is_err_and(|error| !again(error)) {
                hung().insert(program.clone(), Instant::now());
            }
        }
        drop(turn);
        self.removing = false;
        let Some(Container { name, record, .. }) = self.container.take() else {
            return;
        };
        match result {
            Ok(()) => record.iter().for_each(ContainerRecord::forget),
            Err(error) => {
                tracing::warn!(
                    container = name, %error,
                    "a container is left behind: it is removed in the background, by the next run, or by `mswea-host gc`; by hand, `{program} rm -f {name}` does it"
                );
            }
        }
    }
}

impl Drop for ContainerExecutor {
    /// Removes the container after a panic, or if the cleanup was left out.
    fn drop(&mut self) {
        if self.removing
            && let Some(lease) = self.lease.take_if(|lease| lease.is_alive())
        {
            return lease.hand_over();
        }
        let Some(container) = self.container.take() else {
            return;
        };
        if self.settings.keep {
            return;
        }
        let Container {
            engine,
            id,
            name,
            record,
            ..
        } = container;
        let removal = async move { engine.remove(&id, REMOVING).await };
        if matches!(before_the_end(DROPPING, removal), Some(Ok(()))) {
            record.iter().for_each(ContainerRecord::forget);
        } else {
            if let Some(lease) = self.lease.take() {
                lease.hand_over();
            }
            let program = &self.settings.executable;
            tracing::warn!(
                container = name,
                "a container may be left behind: the next run removes it, or `{program} rm -f {name}`"
            );
        }
    }
}

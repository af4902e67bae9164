//! Pulls each image once, however many runs of this process wait for it. The number of simultaneous
//! pulls can be limited.
//!
//! Every waiting run gets the progress. A run that stops waiting does not affect the others; when
//! the last one has left, the pull is cancelled.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, OnceLock, PoisonError, Weak};
use std::time::Duration;

use tokio::sync::{Semaphore, watch};
use tokio::task::AbortHandle;

use super::engine::{Engine, EngineError, EngineErrorKind};

/// The identity of a pull: engine, image, platform.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct PullKey {
    pub(super) engine: String,
    pub(super) image: String,
    pub(super) platform: Option<String>,
}

/// The state of a pull.
#[derive(Clone, Debug)]
enum PullState {
    /// The pull waits for other pulls.
    Queued,
    Going(String),
    Done(Result<(), (EngineErrorKind, String)>),
}

/// A pull in progress. Dropping it cancels the pull.
struct Pull {
    state: watch::Receiver<PullState>,
    task: AbortHandle,
}

impl Drop for Pull {
    fn drop(&mut self) {
        self.task.abort();
    }
}

static PULLS: Mutex<BTreeMap<PullKey, Weak<Pull>>> = Mutex::new(BTreeMap::new());

/// The permits of simultaneous pulls; none: there is no limit.
static PLACES: OnceLock<Semaphore> = OnceLock::new();

/// Limits the number of simultaneous pulls of this process. Only the first call has an effect.
pub fn limit_pulls(at_a_time: usize) {
    PLACES.get_or_init(|| Semaphore::new(at_a_time.max(1)));
}

/// Pulls an image, or waits for a pull of it that is in progress. Dropping the future stops
/// waiting.
///
/// # Errors
/// [`EngineError`] if the engine or the registry refuses, or the pull takes longer than `limit`.
/// The time that it waits for other pulls does not count.
pub(super) async fn pull(
    engine: &Arc<dyn Engine>,
    wanted: &PullKey,
    limit: Duration,
    tell: &(dyn Fn(&str) + Send + Sync),
) -> Result<(), EngineError> {
    let image = &wanted.image;
    tell(&format!("pulling image `{image}`"));
    loop {
        let pull = join(engine, wanted);
        pull.begun(image, tell).await;
        match tokio::time::timeout(limit, pull.wait(image, tell)).await {
            Ok(Some(result)) => return result,
            // The event loop of the run that started the pull has ended, and the pull with it.
            Ok(None) => forget(wanted, &pull),
            Err(_) => {
                return Err(EngineError {
                    kind: EngineErrorKind::TimedOut,
                    message: format!(
                        "image `{image}` was not pulled within {} s: raise `environment.pull_timeout`, \
                         or pull it before the run",
                        limit.as_secs_f64()
                    ),
                });
            }
        }
    }
}

fn join(engine: &Arc<dyn Engine>, wanted: &PullKey) -> Arc<Pull> {
    let mut pulls = PULLS.lock().unwrap_or_else(PoisonError::into_inner);
    pulls.retain(|_, pull| pull.strong_count() > 0);
    if let Some(pull) = pulls.get(wanted).and_then(Weak::upgrade) {
        return pull;
    }
    let (sender, state) = watch::channel(PullState::Queued);
    let (engine, wanting) = (engine.clone(), wanted.clone());
    let task = tokio::spawn(async move {
        let tell = |text: &str| {
            sender.send_replace(PullState::Going(text.to_owned()));
        };
        let _place = match PLACES.get() {
            // The semaphore is never closed.
            Some(places) => places.acquire().await.ok(),
            None => None,
        };
        tell("");
        let platform = wanting.platform.as_deref();
        let result = engine.pull(&wanting.image, platform, &tell).await;
        let result = result.map_err(|error| (error.kind, error.message));
        sender.send_replace(PullState::Done(result));
    });
    let pull = Arc::new(Pull {
        state,
        task: task.abort_handle(),
    });
    pulls.insert(wanted.clone(), Arc::downgrade(&pull));
    pull
}

fn forget(wanted: &PullKey, dead: &Arc<Pull>) {
    let mut pulls = PULLS.lock().unwrap_or_else(PoisonError::into_inner);
    let is_it = |pull: &Weak<Pull>| std::ptr::eq(pull.as_ptr(), Arc::as_ptr(dead));
    if pulls.get(wanted).is_some_and(is_it) {
        pulls.remove(wanted);
    }
}

impl Pull {
    /// Waits until the pull begins, or its task has ended.
    async fn begun(&self, image: &str, tell: &(dyn Fn(&str) + Send + Sync)) {
        let mut state = self.state.clone();
        let is_queued = |state: &PullState| matches!(state, PullState::Queued);
        if is_queued(&state.borrow()) && PLACES.get().is_some_and(|it| it.available_permits() == 0)
        {
            tell(&format!("image `{image}` waits for other pulls"));
        }
        let _ended = state.wait_for(|state| !is_queued(state)).await;
    }

    /// Waits for the result; none if the task that pulls has ended without one.
    async fn wait(
        &self,
        image: &str,
        tell: &(dyn Fn(&str) + Send + Sync),
    ) -> Option<Result<(), EngineError>> {
        let mut state = self.state.clone();
        let mut told = String::new();
        loop {
            let now = state.borrow_and_update().clone();
            match now {
                PullState::Done(result) => {
                    return Some(result.map_err(|(kind, message)| EngineError { kind, message }));
                }
                PullState::Going(text) if text != told => {
                    tell(&format!("pulling image `{image}`: {text}"));
                    told = text;
                }
                PullState::Going(_) | PullState::Queued => {}
            }
            state.changed().await.ok()?;
        }
    }
}

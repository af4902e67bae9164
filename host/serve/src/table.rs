//! All sessions of a server: their ids and their number; ends those whose clients are gone.

use std::collections::HashMap;
use std::fs::File;
use std::io::{self, Read as _};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use mswea_core::ExecutorError;
use mswea_executor::LocalSettings;
use tokio::sync::{Semaphore, oneshot};
use tokio::task::JoinSet;

use crate::session::ServedSession;

/// The sessions of a server.
pub(super) struct ServedSessions {
    settings: LocalSettings,
    /// A session whose client has been silent for this long is ended.
    pub(super) keep: Duration,
    most: usize,
    places: Arc<Semaphore>,
    sessions: Mutex<SessionsById>,
}

#[derive(Default)]
struct SessionsById {
    living: HashMap<String, Arc<ServedSession>>,
    /// The tasks that are ending sessions.
    ending: JoinSet<()>,
    /// Whether the server is ending, so that no session may begin.
    is_closed: bool,
}

/// Why a session was not started.
#[derive(Debug, thiserror::Error)]
pub(super) enum SessionRefused {
    #[error(
        "there are {0} sessions, and the server allows no more: wait until one ends, or start it with a larger `--max-sessions`"
    )]
    TooMany(usize),
    #[error("the server is ending")]
    Closed,
    #[error("{}", .0.message)]
    NotStarted(ExecutorError),
}

impl ServedSessions {
    pub(super) fn new(settings: LocalSettings, keep: Duration, most: usize) -> Self {
        Self {
            settings,
            keep,
            most,
            places: Arc::new(Semaphore::new(most)),
            sessions: Mutex::default(),
        }
    }

    fn sessions(&self) -> MutexGuard<'_, SessionsById> {
        self.sessions.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn count(&self) -> usize {
        self.sessions().living.len()
    }

    /// Starts a session; returns its id.
    ///
    /// # Errors
    /// [`SessionRefused`] if there are too many, the server ends, or the helper can't be started.
    pub(super) async fn open(&self) -> Result<String, SessionRefused> {
        let place = self.places.clone().try_acquire_owned();
        let place = place.map_err(|_| SessionRefused::TooMany(self.most))?;
        let failed = |error: io::Error| {
            SessionRefused::NotStarted(ExecutorError {
                message: format!("no random id can be made: {error}"),
            })
        };
        let id = random_id().map_err(failed)?;
        let session = ServedSession::start(self.settings.clone(), place).await;
        let session = Arc::new(session.map_err(SessionRefused::NotStarted)?);
        {
            let mut sessions = self.sessions();
            if !sessions.is_closed {
                sessions.living.insert(id.clone(), session);
                return Ok(id);
            }
        }
        session.end().await;
        Err(SessionRefused::Closed)
    }

    /// The session with this id; records that its client has sent a request.
    pub(super) fn find(&self, id: &str) -> Option<Arc<ServedSession>> {
        let session = self.sessions().living.get(id).cloned()?;
        session.hear();
        Some(session)
    }

    /// Ends a session and all its processes; returns whether there was one.
    pub(super) async fn end(&self, id: &str) -> bool {
        let session = self.sessions().living.remove(id);
        let Some(session) = session else {
            return false;
        };
        // On a task of its own, because the request may be dropped.
        let (done, wait) = oneshot::channel();
        self.sessions().ending.spawn(async move {
            session.end().await;
            let _ = done.send(());
        });
        let _ = wait.await;
        true
    }

    /// Ends the sessions whose clients have been silent for too long.
    pub(super) fn end_abandoned(&self) {
        let mut sessions = self.sessions();
        while sessions.ending.try_join_next().is_some() {}
        let keep = self.keep;
        let SessionsById { living, ending, .. } = &mut *sessions;
        for (_, session) in living.extract_if(|_, session| session.silence() > keep) {
            tracing::warn!(
                "a session was ended: its client has said nothing for {} s",
                keep.as_secs_f64()
            );
            ending.spawn(async move { session.end().await });
        }
    }

    /// Ends all sessions, and refuses new ones.
    pub(super) async fn end_all(&self) {
        let mut ending = {
            let mut sessions = self.sessions();
            sessions.is_closed = true;
            let SessionsById { living, ending, .. } = &mut *sessions;
            for (_, session) in living.drain() {
                ending.spawn(async move { session.end().await });
            }
            std::mem::take(ending)
        };
        while ending.join_next().await.is_some() {}
        // Sessions that are being started hold a permit.
        let all = u32::try_from(self.most).unwrap_or(u32::MAX);
        let _ = self.places.acquire_many(all).await;
    }
}

/// An id that can't be guessed.
fn random_id() -> io::Result<String> {
    let mut bytes = [0; 16];
    File::open("/dev/urandom")?.read_exact(&mut bytes)?;
    Ok(bytes.iter().map(|byte| format!("{byte:02x}")).collect())
}

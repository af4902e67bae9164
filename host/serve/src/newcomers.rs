//! The places of connections. Connections that have not sent the token have places of their own, so
//! that they can't take those of others; when all are taken, the oldest connection is closed.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use tokio::sync::{OwnedSemaphorePermit, Semaphore, oneshot};

/// The most connections that have not sent the token.
const MOST: usize = 256;
/// The shortest time between two warnings.
const PAUSE: Duration = Duration::from_secs(10);

/// The connections that have not sent the token, the oldest first.
#[derive(Default)]
pub struct Newcomers(Mutex<WaitingNewcomers>);

#[derive(Default)]
struct WaitingNewcomers {
    /// The number of the next connection.
    next: u64,
    /// The connections, each with a sender whose drop closes the connection.
    all: VecDeque<(u64, oneshot::Sender<()>)>,
    /// How many connections were closed since the last warning.
    closed: u64,
    warned: Option<Instant>,
}

/// A connection that has not sent the token. Dropping this removes it from the list.
struct Newcomer {
    newcomers: Arc<Newcomers>,
    number: u64,
}

/// The place of a connection.
pub struct ConnectionPlace {
    state: Mutex<PlaceState>,
    known: Arc<Semaphore>,
}

enum PlaceState {
    Newcomer(#[allow(dead_code, reason = "its end matters")] Newcomer),
    Known(#[allow(dead_code, reason = "its end matters")] OwnedSemaphorePermit),
}

impl ConnectionPlace {
    /// A place for a new connection. The receiver ends when another connection needs the place.
    /// `known`: the places of connections that have sent the token.
    pub fn take(
        newcomers: &Arc<Newcomers>,
        known: &Arc<Semaphore>,
    ) -> (Self, oneshot::Receiver<()>) {
        let (newcomer, ended) = newcomers.admit();
        let place = Self {
            state: Mutex::new(PlaceState::Newcomer(newcomer)),
            known: known.clone(),
        };
        (place, ended)
    }

    /// Whether the connection has sent the token.
    pub fn is_kept(&self) -> bool {
        let state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        matches!(*state, PlaceState::Known(_))
    }

    /// Called when the connection has sent the token; false if there are too many of these.
    pub fn keep(&self) -> bool {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        if matches!(*state, PlaceState::Known(_)) {
            return true;
        }
        match self.known.clone().try_acquire_owned() {
            Ok(permit) => {
                *state = PlaceState::Known(permit);
                true
            }
            Err(_) => false,
        }
    }
}

impl Newcomers {
    fn waiting(&self) -> MutexGuard<'_, WaitingNewcomers> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn admit(self: &Arc<Self>) -> (Newcomer, oneshot::Receiver<()>) {
        let (end, ended) = oneshot::channel();
        let mut waiting = self.waiting();
        let number = waiting.next;
        waiting.next += 1;
        waiting.all.push_back((number, end));
        if waiting.all.len() > MOST {
            waiting.all.pop_front();
            waiting.warn();
        }
        let newcomer = Newcomer {
            newcomers: self.clone(),
            number,
        };
        (newcomer, ended)
    }
}

impl WaitingNewcomers {
    fn warn(&mut self) {
        self.closed += 1;
        if self.warned.is_none_or(|then| then.elapsed() >= PAUSE) {
            tracing::warn!(
                closed = self.closed,
                "connections that did not show the token were closed, because there are more than {MOST}"
            );
            self.closed = 0;
            self.warned = Some(Instant::now());
        }
    }
}

impl Drop for Newcomer {
    fn drop(&mut self) {
        let mut waiting = self.newcomers.waiting();
        let found = waiting.all.binary_search_by_key(&self.number, |it| it.0);
        if let Ok(at) = found {
            waiting.all.remove(at);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_oldest_gives_way() {
        let (newcomers, known) = (Arc::default(), Arc::new(Semaphore::new(1)));
        let take = || ConnectionPlace::take(&newcomers, &known);
        let mut all: Vec<_> = (0..MOST).map(|_| take()).collect();
        let is_closed = |it: &mut (ConnectionPlace, oneshot::Receiver<()>)| {
            matches!(it.1.try_recv(), Err(oneshot::error::TryRecvError::Closed))
        };
        assert!(!all.iter_mut().any(is_closed));
        // A connection that has sent the token, and one that has ended, free their places.
        let shown = all.remove(3).0;
        assert!(shown.keep() && shown.keep());
        assert!(!all[8].0.keep(), "there is one place");
        drop(all.remove(7));
        all.extend([take(), take()]);
        assert!(!all.iter_mut().any(is_closed));
        all.push(take());
        let closed: Vec<bool> = all.iter_mut().map(is_closed).collect();
        assert_eq!(closed.iter().position(|it| *it), Some(0));
        assert_eq!(closed.iter().filter(|it| **it).count(), 1);
    }
}

//! One rate for all runs of a process that query the same provider: a response of 429 to one of
//! them slows down all of them, as TCP does.
//!
//! There is no limit until a provider reports one. Then the limit is half of the number of requests
//! that are under way, and each response raises it a little. While a provider asks to wait, no
//! request is sent. Waiting requests are sent in the order in which they came.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::Instant;

/// Responses of 429 within this time answer requests that were sent together, so they count once.
const TOGETHER: Duration = Duration::from_secs(2);
/// The longest wait for a provider. After it, a request tests whether the provider still refuses.
const LONGEST: Duration = Duration::from_secs(60);

/// The paces of all providers, by the origins of their addresses.
#[derive(Clone, Default)]
pub(super) struct Paces(Arc<Mutex<HashMap<String, Arc<ProviderPace>>>>);

impl Paces {
    /// The pace of the provider at `origin`.
    pub(super) fn of(&self, origin: &str) -> Arc<ProviderPace> {
        let mut paces = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        match paces.get(origin) {
            Some(pace) => pace.clone(),
            None => paces.entry(origin.to_owned()).or_default().clone(),
        }
    }
}

/// The pace of one provider.
#[derive(Default)]
pub(super) struct ProviderPace {
    state: Mutex<PaceState>,
    /// The waiting requests, in their order. Only the first one checks the state, so a request that
    /// stops waiting takes no wake-up from another one.
    queue: tokio::sync::Mutex<()>,
    /// Wakes the first waiting request.
    freed: Notify,
}

#[derive(Default)]
struct PaceState {
    on_their_way: u32,
    /// How many requests may be under way; none: any number.
    limit: Option<f64>,
    /// The number of requests under way at the refusal: when the limit exceeds it, the limit is
    /// removed.
    limited_at: u32,
    /// No request is sent before this time.
    not_before: Option<Instant>,
    slowed: Option<Instant>,
}

/// The condition for which a request has to wait.
enum Turn {
    Now,
    At(Instant),
    AnAnswer,
}

impl ProviderPace {
    /// Waits for the turn of a request. The request counts as under way until the result is
    /// dropped. `held_back` is called with the rest of the provider's pause.
    pub(super) async fn turn(self: &Arc<Self>, held_back: impl Fn(Duration)) -> OnItsWay {
        let _first = self.queue.lock().await;
        loop {
            let turn = self.lock().turn();
            match turn {
                Turn::Now => return OnItsWay(self.clone()),
                Turn::At(time) => {
                    held_back(time.saturating_duration_since(Instant::now()));
                    tokio::time::sleep_until(time).await;
                }
                // A wake-up is stored if it comes before this wait, so none is lost.
                Turn::AnAnswer => self.freed.notified().await,
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, PaceState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl PaceState {
    fn turn(&mut self) -> Turn {
        let now = Instant::now();
        match self.not_before {
            Some(time) if time > now => return Turn::At(time),
            _ => self.not_before = None,
        }
        let is_full = |limit: f64| f64::from(self.on_their_way) + 1.0 > limit.max(1.0);
        if self.limit.is_some_and(is_full) {
            return Turn::AnAnswer;
        }
        self.on_their_way += 1;
        Turn::Now
    }
}

/// A request that is under way.
pub(super) struct OnItsWay(Arc<ProviderPace>);

impl OnItsWay {
    /// Records a response, which raises the limit a little.
    pub(super) fn answered(&self) {
        let mut state = self.0.lock();
        let Some(limit) = state.limit else {
            return;
        };
        let limit = limit + 1.0 / limit.max(1.0);
        let is_over = limit > f64::from(state.limited_at.saturating_mul(2));
        state.limit = (!is_over).then_some(limit);
        drop(state);
        self.0.freed.notify_one();
    }

    /// Records that the provider has refused because of its rate. `asked`: the wait that it asks
    /// for.
    pub(super) fn refused(&self, asked: Option<Duration>) {
        let now = Instant::now();
        let mut state = self.0.lock();
        if let Some(asked) = asked {
            let until = now + asked.min(LONGEST);
            state.not_before = Some(state.not_before.map_or(until, |it| it.max(until)));
        }
        let is_told = state.slowed.is_some_and(|it| now - it < TOGETHER);
        if !is_told {
            state.slowed = Some(now);
            state.limited_at = state.on_their_way;
            state.limit = Some((f64::from(state.on_their_way) / 2.0).max(1.0));
            tracing::info!(
                limit = state.limit,
                ?asked,
                "the provider limits the rate of all runs"
            );
        }
    }
}

impl Drop for OnItsWay {
    fn drop(&mut self) {
        self.0.lock().on_their_way -= 1;
        self.0.freed.notify_one();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// How many of `count` requests may be sent at once.
    async fn sent(pace: &Arc<ProviderPace>, count: usize) -> Vec<OnItsWay> {
        let mut all = Vec::new();
        for _ in 0..count {
            match tokio::time::timeout(Duration::from_millis(1), pace.turn(|_| {})).await {
                Ok(one) => all.push(one),
                Err(_) => break,
            }
        }
        all
    }

    #[tokio::test]
    async fn a_refusal_halves_what_is_on_its_way_and_answers_raise_it() {
        let pace = Arc::new(ProviderPace::default());
        let all = sent(&pace, 16).await;
        assert_eq!(all.len(), 16);
        for one in &all {
            one.refused(None);
        }
        drop(all);
        let some = sent(&pace, 16).await;
        assert_eq!(some.len(), 8);
        some.iter().for_each(OnItsWay::answered);
        drop(some);
        let some = sent(&pace, 16).await;
        assert_eq!(some.len(), 8, "8.98 are not 9");
        some.iter().for_each(OnItsWay::answered);
        drop(some);
        let mut rounds = 0;
        while pace.lock().limit.is_some() {
            let some = sent(&pace, 64).await;
            some.iter().for_each(OnItsWay::answered);
            rounds += 1;
            assert!(rounds < 40);
        }
        assert_eq!(sent(&pace, 100).await.len(), 100);
    }

    #[tokio::test]
    async fn while_the_provider_asks_to_wait_nothing_is_sent() {
        let pace = Arc::new(ProviderPace::default());
        let one = pace.turn(|_| {}).await;
        let begun = Instant::now();
        one.refused(Some(Duration::from_millis(60)));
        one.refused(Some(Duration::from_millis(20)));
        drop(one);
        drop(pace.turn(|_| {}).await);
        assert!(begun.elapsed() >= Duration::from_millis(60));
        pace.turn(|_| {})
            .await
            .refused(Some(Duration::from_secs(3600)));
        let until = pace.lock().not_before.unwrap();
        assert!(until <= Instant::now() + LONGEST);
    }

    #[tokio::test]
    async fn one_that_stops_waiting_takes_no_turn_from_another() {
        let pace = Arc::new(ProviderPace::default());
        let all = sent(&pace, 2).await;
        all[0].refused(None);
        let (first, second) = (pace.clone(), pace.clone());
        let first = tokio::spawn(async move { first.turn(|_| {}).await });
        tokio::task::yield_now().await;
        let second = tokio::spawn(async move { second.turn(|_| {}).await });
        tokio::task::yield_now().await;
        first.abort();
        drop(all);
        let got = tokio::time::timeout(Duration::from_secs(1), second).await;
        assert!(got.is_ok());
    }

    #[tokio::test]
    async fn one_that_stops_while_the_provider_asks_to_wait_wakes_the_next() {
        let pace = Arc::new(ProviderPace::default());
        let one = pace.turn(|_| {}).await;
        one.refused(None);
        let mut waiting = Vec::new();
        for _ in 0..3 {
            let pace = pace.clone();
            waiting.push(tokio::spawn(async move { pace.turn(|_| {}).await }));
            tokio::task::yield_now().await;
        }
        one.refused(Some(Duration::from_millis(60)));
        drop(one);
        // The first request is awake now, and waits for the time.
        tokio::time::sleep(Duration::from_millis(20)).await;
        waiting.remove(0).abort();
        for next in waiting {
            let got = tokio::time::timeout(Duration::from_secs(1), next).await;
            assert!(got.is_ok());
        }
    }

    #[tokio::test]
    async fn turns_are_given_in_the_order_of_asking() {
        let pace = Arc::new(ProviderPace::default());
        let one = pace.turn(|_| {}).await;
        one.refused(None);
        let order = Arc::new(Mutex::new(Vec::new()));
        let asked = |number: u32| {
            let (pace, order) = (pace.clone(), order.clone());
            tokio::spawn(async move {
                let _turn = pace.turn(|_| {}).await;
                order.lock().unwrap().push(number);
            })
        };
        let first = [asked(0), asked(1)];
        tokio::task::yield_now().await;
        drop(one);
        // It asks at the moment at which a place becomes free.
        drop(pace.turn(|_| {}).await);
        order.lock().unwrap().push(2);
        for one in first {
            one.await.unwrap();
        }
        assert_eq!(*order.lock().unwrap(), [0, 1, 2]);
    }
}

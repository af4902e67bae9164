//! Stops a run, or only its step, from outside (Ctrl-C, SIGTERM, a calling program).

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use tokio::sync::watch;

/// How often a stop of the run and a stop of the step were requested.
#[derive(Clone, Copy, Debug, Default)]
struct Asked {
    run: u8,
    step: u32,
}

/// Requests a stop.
#[derive(Debug)]
pub struct StopSource(watch::Sender<Asked>);

/// Shows the requested stops; cheap to clone. All clones share their state.
#[derive(Clone, Debug)]
pub struct Stop {
    asked: watch::Receiver<Asked>,
    /// The number of stops of a step after which the run went on.
    answered: Arc<AtomicU32>,
}

impl StopSource {
    /// A source of stops, and its receiver.
    pub fn new() -> (Self, Stop) {
        let (sender, asked) = watch::channel(Asked::default());
        let answered = Arc::default();
        (Self(sender), Stop { asked, answered })
    }

    /// Asks the run to end; a second call asks it to end at once. Returns how often it was
    /// called.
    pub fn stop(&self) -> u8 {
        let mut count = 0;
        self.0.send_modify(|asked| {
            asked.run = asked.run.saturating_add(1);
            count = asked.run;
        });
        count
    }

    /// Asks the step to end: its query or its command. Then the user is asked what to do; a run
    /// without a user ends.
    pub fn stop_step(&self) {
        self.0.send_modify(|asked| asked.step += 1);
    }
}

impl Stop {
    /// A receiver that never gets a stop.
    pub fn never() -> Self {
        StopSource::new().1
    }

    /// Whether the run or the step has to end.
    pub fn is_stopped(&self) -> bool {
        let asked = *self.asked.borrow();
        asked.run > 0 || asked.step > self.answered.load(Ordering::Relaxed)
    }

    /// Whether the run has to end, and not only the step.
    pub fn is_run_stopped(&self) -> bool {
        self.asked.borrow().run > 0
    }

    /// The run goes on after the stop of a step.
    pub fn go_on(&self) {
        let step = self.asked.borrow().step;
        self.answered.store(step, Ordering::Relaxed);
    }

    /// Waits until the run or the step has to end.
    pub async fn stopped(&self) {
        let answered = self.answered.clone();
        self.reached(move |asked| asked.run > 0 || asked.step > answered.load(Ordering::Relaxed))
            .await;
    }

    /// Waits until the run has to end at once.
    pub async fn stopped_twice(&self) {
        self.reached(|asked| asked.run > 1).await;
    }

    /// Waits until the run is asked to end once more than it was when this was called.
    pub fn stopped_again(&self) -> impl Future<Output = ()> + Send + 'static {
        let this = self.clone();
        let run = self.asked.borrow().run.saturating_add(1);
        async move { this.reached(move |asked| asked.run >= run).await }
    }

    async fn reached(&self, is_there: impl Fn(&Asked) -> bool) {
        let mut asked = self.asked.clone();
        if asked.wait_for(is_there).await.is_err() {
            std::future::pending::<()>().await;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_step_is_stopped_once_and_a_run_for_good() {
        let (source, stop) = StopSource::new();
        assert!(!stop.is_stopped());
        source.stop_step();
        stop.stopped().await;
        assert!(stop.is_stopped() && !stop.is_run_stopped());
        // The clones share this state.
        stop.clone().go_on();
        assert!(!stop.is_stopped());
        source.stop_step();
        assert!(stop.is_stopped());
        let again = stop.stopped_again();
        assert_eq!((source.stop(), source.stop()), (1, 2));
        stop.go_on();
        assert!(stop.is_stopped() && stop.is_run_stopped());
        again.await;
        stop.stopped_twice().await;
    }
}

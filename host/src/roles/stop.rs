//! A flag that ends a run from outside (Ctrl-C, SIGTERM, a caller), and can be waited for.

use tokio::sync::watch;

/// Sets the flag.
#[derive(Debug)]
pub struct StopSource(watch::Sender<u8>);

/// Sees the flag; cheap to clone.
#[derive(Clone, Debug)]
pub struct Stop(watch::Receiver<u8>);

impl StopSource {
    /// A source and what sees it.
    pub fn new() -> (Self, Stop) {
        let (sender, receiver) = watch::channel(0);
        (Self(sender), Stop(receiver))
    }

    /// Asks the run to end; a second call asks it to end at once. Returns how often it was
    /// called.
    pub fn stop(&self) -> u8 {
        let mut count = 0;
        self.0.send_modify(|value| {
            *value = value.saturating_add(1);
            count = *value;
        });
        count
    }
}

impl Stop {
    /// A flag that never fires.
    pub fn never() -> Self {
        let (_, receiver) = watch::channel(0);
        Self(receiver)
    }

    /// Whether the run has to end.
    pub fn is_stopped(&self) -> bool {
        *self.0.borrow() > 0
    }

    /// Waits until the run has to end.
    pub async fn stopped(&self) {
        self.reached(1).await;
    }

    /// Waits until the run has to end at once.
    pub async fn stopped_twice(&self) {
        self.reached(2).await;
    }

    /// Waits until the run is asked to end once more than it was when this was called.
    pub fn stopped_again(&self) -> impl Future<Output = ()> + Send + 'static {
        let this = self.clone();
        let count = self.0.borrow().saturating_add(1);
        async move { this.reached(count).await }
    }

    async fn reached(&self, count: u8) {
        let mut receiver = self.0.clone();
        if receiver.wait_for(|value| *value >= count).await.is_err() {
            std::future::pending::<()>().await;
        }
    }
}

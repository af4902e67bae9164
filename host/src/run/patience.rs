//! How long the loop waits for a plugin: until the run has to end. A plugin's own deadline is
//! for runs that go on.

use std::time::Duration;

use super::Interrupt;
use crate::roles::Context;

/// What a call still gets when the run has to end: one that was about to return is not lost.
const GRACE: Duration = Duration::from_millis(100);

/// Waits for a call, or gives it up when somebody asks to stop or the run's time is over.
pub(super) async fn unless_over<T>(
    context: &Context,
    time_left: Option<Duration>,
    call: impl Future<Output = T>,
) -> Result<T, Interrupt> {
    let stop = &context.stop;
    let stopped = async {
        stop.stopped().await;
        tokio::select! {
            () = tokio::time::sleep(GRACE) => {}
            () = stop.stopped_twice() => {}
        }
    };
    let out_of_time = async {
        match time_left {
            Some(left) => tokio::time::sleep(left.max(GRACE)).await,
            None => std::future::pending().await,
        }
    };
    tokio::select! {
        biased;
        value = call => Ok(value),
        () = stopped => Err(Interrupt::UserInterruption),
        () = out_of_time => Err(Interrupt::TimeExceeded),
    }
}

//! Limits the time that the loop waits for a plugin when the run has to end. The plugin's own
//! deadline is longer.

use std::time::Duration;

use mswea_core::{Context, End};

/// The time that a call still has when the run has to end, so that a call that is about to return
/// is not lost.
const GRACE: Duration = Duration::from_millis(100);

/// Waits for a call, or drops it when the run is stopped or its time is over.
pub(super) async fn unless_over<T>(
    context: &Context,
    time_left: Option<Duration>,
    call: impl Future<Output = T>,
) -> Result<T, End> {
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
        () = stopped => Err(End::Interrupted),
        () = out_of_time => Err(End::TimeExceeded),
    }
}

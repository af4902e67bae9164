//! Catches a panic of one run, in a program that unwinds, so that it ends only this run.

use std::any::Any;
use std::future::poll_fn;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::task::Poll;

/// Waits for `future`.
///
/// # Errors
/// The panic's message, if the future panics. The future must then only be dropped, and not polled
/// again.
pub async fn caught<T>(
    mut future: Pin<&mut (impl Future<Output = T> + ?Sized)>,
) -> Result<T, String> {
    // Values that the future leaves in an inconsistent state belong to it alone, or are behind
    // locks whose poisoning is ignored.
    poll_fn(
        move |context| match catch_unwind(AssertUnwindSafe(|| future.as_mut().poll(context))) {
            Ok(polled) => polled.map(Ok),
            Err(payload) => Poll::Ready(Err(words(&*payload))),
        },
    )
    .await
}

/// The message for a run that ended by a panic.
pub fn bug(words: &str) -> String {
    format!("this is a bug in mswea-host, please report it: {words}")
}

fn words(payload: &(dyn Any + Send)) -> String {
    let text = payload.downcast_ref::<&str>().copied();
    let text = text.or_else(|| payload.downcast_ref::<String>().map(String::as_str));
    text.unwrap_or("a panic without a message").to_owned()
}

#[cfg(test)]
mod tests {
    use std::pin::pin;

    use super::*;

    #[tokio::test]
    async fn a_panic_is_a_value_also_after_a_wait() {
        let fine = async { 7 };
        assert_eq!(caught(pin!(fine)).await, Ok(7));
        let bug = async {
            tokio::task::yield_now().await;
            panic!("bug {}", 1);
        };
        let ended: Result<(), String> = caught(pin!(bug)).await;
        assert_eq!(ended, Err("bug 1".to_owned()));
        let odd = async { std::panic::panic_any(7) };
        let ended: Result<(), String> = caught(pin!(odd)).await;
        assert_eq!(ended, Err("a panic without a message".to_owned()));
    }
}

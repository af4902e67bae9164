//! Bounds how many containers this process makes and removes at once.
//!
//! A daemon works on all requests at the same time: with hundreds of them, each takes longer than
//! its time limit, and all together take no less time.

use std::sync::LazyLock;
use std::thread::available_parallelism;

use tokio::sync::{Semaphore, SemaphorePermit};

/// Twice the number of processors: much of the work is waiting for the kernel.
static TURNS: LazyLock<Semaphore> = LazyLock::new(|| {
    let processors = available_parallelism().map_or(1, usize::from);
    Semaphore::new(4.max(2 * processors))
});

/// Waits until this container may be made or removed. The permit is released when the result is
/// dropped.
pub(super) async fn turn() -> SemaphorePermit<'static> {
    let turn = TURNS.acquire().await;
    turn.expect("invariant: the semaphore is never closed")
}

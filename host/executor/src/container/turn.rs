//! Bounds how many containers of this process are made and removed at once.
//!
//! A daemon works on all requests at the same time: with hundreds of them each takes longer than its
//! time limit, and all together not less time.

use std::sync::LazyLock;
use std::thread::available_parallelism;

use tokio::sync::{Semaphore, SemaphorePermit};

/// Twice what keeps all processors busy: much of the work is waiting for the kernel.
static TURNS: LazyLock<Semaphore> = LazyLock::new(|| {
    let processors = available_parallelism().map_or(1, usize::from);
    Semaphore::new(4.max(2 * processors))
});

/// Waits until this container may be made or removed; the others wait while the result lives.
pub(super) async fn turn() -> SemaphorePermit<'static> {
    let turn = TURNS.acquire().await;
    turn.expect("invariant: the semaphore is never closed")
}

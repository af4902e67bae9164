//! Experiments on plugins without an effect on runs: two plugins compared on recorded runs
//! (`plugin diff`), and a candidate that gets the inputs of a live run's plugin (`--shadow`). Both
//! are one comparison: an input, and the answers of two plugins ([`Comparison`]).
//!
//! A plugin is only a maker of roles here ([`mswea_core::Maker`]).

mod answer;
mod comparison;
mod diff;
mod excerpt;
mod groups;
mod html;
mod instance;
mod latency;
mod lines;
mod recorded;
pub mod shadow;
mod shadowed;
#[cfg(test)]
mod testing;
mod text;

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

pub use answer::Degree;
pub use comparison::{Case, Comparison, Counts, Side};
pub use diff::{DiffError, DiffOptions, diff};
pub use latency::Latency;
pub use recorded::{RecordedError, RecordedRuns, RecordedVerdict, Run, Step};
pub use shadow::{RunRoles, Shadow, ShadowError, ShadowSettings, Steps};
pub use text::TextOptions;

/// The number of threads for this many items; `wanted` is 0 for one thread on each core.
fn threads(wanted: usize, items: usize) -> usize {
    let cores = || std::thread::available_parallelism().map_or(1, Into::into);
    let threads = if wanted == 0 { cores() } else { wanted };
    threads.min(items).max(1)
}

/// Does work on all items on several threads ([`threads`]), and passes on the results in the order
/// of the items, so that they do not depend on the threads' speed.
fn spread<T: Sync, R: Send>(
    items: &[T],
    wanted: usize,
    work: impl Fn(&T) -> R + Sync,
    take: impl FnMut(R) + Send,
) {
    let next = AtomicUsize::new(0);
    let done = Mutex::new((0, BTreeMap::new(), take));
    let work = || {
        loop {
            let index = next.fetch_add(1, Ordering::Relaxed);
            let Some(item) = items.get(index) else {
                return;
            };
            let result = work(item);
            let mut done = lock(&done);
            let (due, waiting, take) = &mut *done;
            waiting.insert(index, result);
            while let Some(result) = waiting.remove(due) {
                take(result);
                *due += 1;
            }
        }
    };
    std::thread::scope(|scope| {
        for _ in 0..threads(wanted, items.len()) {
            scope.spawn(work);
        }
    });
}

fn lock<T>(shared: &Mutex<T>) -> MutexGuard<'_, T> {
    shared.lock().unwrap_or_else(PoisonError::into_inner)
}

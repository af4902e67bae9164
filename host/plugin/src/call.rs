//! Calls of a guest: their time limit, and the causes of failures.

use std::time::Duration;

use wasmtime::Store;

use super::error::CallFailure;
use super::limits::PluginLimits;
use super::quoted::bound;
use super::shortage::shortage;
use super::store::Guest;

/// Runs a call for at most `deadline`; `None` if it did not end in time.
pub(super) async fn bounded<T>(
    deadline: Duration,
    call: impl Future<Output = wasmtime::Result<T>>,
) -> Option<wasmtime::Result<T>> {
    tokio::time::timeout(deadline, call).await.ok()
}

/// The value of a call that [`bounded`] has run.
///
/// # Errors
/// The cause, if the call failed or did not end in time.
pub(super) fn returned<T>(
    result: Option<wasmtime::Result<T>>,
    store: &Store<Guest>,
    limits: &PluginLimits,
) -> Result<T, CallFailure> {
    match result {
        Some(Ok(value)) => Ok(value),
        Some(Err(error)) => Err(failure(&error, store, limits)),
        None => Err(CallFailure::Deadline(limits.deadline)),
    }
}

/// The cause of a failed call.
pub(super) fn failure(
    error: &wasmtime::Error,
    store: &Store<Guest>,
    limits: &PluginLimits,
) -> CallFailure {
    let guest = store.data();
    if guest.meter.refused_memory {
        return CallFailure::Memory(limits.memory);
    }
    let text = format!("{error:#}");
    // wasmtime has no types for these errors.
    if text.contains("resource limit exceeded") || text.contains("exceeds table limits") {
        return CallFailure::Caps(bound(error.root_cause().to_string().as_str()));
    }
    if text.contains("too much data") || text.contains("fuel allocated for hostcalls") {
        return CallFailure::Output(limits.output);
    }
    match error.downcast_ref::<wasmtime::Trap>() {
        Some(wasmtime::Trap::StackOverflow) => CallFailure::Stack,
        // Compilers place the stack at the start of the memory, so an overflow leaves the memory.
        Some(wasmtime::Trap::MemoryOutOfBounds) => CallFailure::Trap(last_words(
            guest,
            "it reached outside its memory: its stack overflowed (endless recursion?), or it has a bug",
        )),
        Some(trap) => CallFailure::Trap(last_words(guest, &format!("it trapped: {trap}"))),
        None => match error.downcast_ref::<wasmtime_wasi::I32Exit>() {
            Some(exit) => {
                CallFailure::Trap(last_words(guest, &format!("it called `exit({})`", exit.0)))
            }
            None => match shortage(&text) {
                Some(text) => CallFailure::Machine(text),
                None => CallFailure::Broken(bound(error.root_cause().to_string().as_str())),
            },
        },
    }
}

/// The last text that the guest wrote, which is where a panic's message is; `otherwise` if it wrote
/// none.
fn last_words(guest: &Guest, otherwise: &str) -> String {
    let tail = mswea_text::harmless(&guest.console.tail());
    if tail.is_empty() {
        otherwise.to_owned()
    } else {
        tail
    }
}

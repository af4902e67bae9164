//! Takes secrets out of the host's own environment.
//!
//! Whatever the host was started with stands in `/proc/PID/environ`, for every process of the
//! same user to read: a command has only to look at its parent. So the program, before all
//! else, moves the values of secrets from there into a map of its own ([`protect`]), and later
//! those whose names it learns from the config ([`hide`]). From then on `std::env` has blank
//! text for them: whoever may need one asks [`var`] or [`vars`].
//!
//! What this can't do: a command that runs as root can read the host's memory, and every
//! command can read the environment of other processes of its user that were started with the
//! key, and files of its user, the secrets file among them. Against that, run the host and its
//! commands as different users, or start it with no key but that of a local proxy.

use std::collections::BTreeMap;
use std::ffi::{CStr, OsStr, OsString, c_char};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::{Mutex, PoisonError};

use rustix::process::DumpableBehavior;

use super::environment::looks_secret;

unsafe extern "C" {
    /// The environment of this process, as C has it.
    static environ: *const *mut c_char;
}

/// What was taken out.
static HIDDEN: Mutex<BTreeMap<OsString, OsString>> = Mutex::new(BTreeMap::new());

/// Hides every variable that looks like a secret, and closes the process's memory and
/// environment to others that are not root.
///
/// For programs, and for their first line: a thread that reads the environment meanwhile might
/// see half a value.
pub fn protect() {
    // Where the kernel refuses, the environment is clean all the same.
    let _ = rustix::process::set_dumpable_behavior(DumpableBehavior::NotDumpable);
    take(|name| name.to_str().is_some_and(looks_secret));
}

/// Hides the variables of these names, if [`protect`] has not done so already.
pub fn hide<S: AsRef<str>>(names: &[S]) {
    take(|name| names.iter().any(|secret| name == secret.as_ref()));
}

/// The value of a variable, hidden or not; none if it is not set or no UTF-8.
#[must_use]
pub fn var(name: &str) -> Option<String> {
    let hidden = hidden().get(OsStr::new(name)).cloned();
    hidden
        .or_else(|| std::env::var_os(name))?
        .into_string()
        .ok()
}

/// Gives a variable that is not set a value, which only [`var`] tells: nothing that is started
/// sees it.
pub fn supply(name: &str, value: &str) {
    if std::env::var_os(name).is_none() {
        hidden().entry(name.into()).or_insert_with(|| value.into());
    }
}

/// All variables, the hidden ones too.
#[must_use]
pub fn vars() -> Vec<(OsString, OsString)> {
    let hidden = hidden();
    std::env::vars_os()
        .map(|(name, value)| {
            let value = hidden.get(&name).cloned().unwrap_or(value);
            (name, value)
        })
        .collect()
}

fn hidden() -> std::sync::MutexGuard<'static, BTreeMap<OsString, OsString>> {
    HIDDEN.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Moves the values of variables into the map.
///
/// Nothing is removed from the environment's table: other threads may be reading it. Only the
/// bytes of values are changed, to NULs, which leaves every string where it was, but shorter.
fn take(is_meant: impl Fn(&OsStr) -> bool) {
    let mut hidden = hidden();
    // SAFETY: the C library sets it before `main`, and nobody in this program changes the
    // environment (`std::env::set_var` is unsafe and not used).
    let mut place = unsafe { environ };
    while !place.is_null() {
        // SAFETY: `place` walks over a null-terminated array and has not passed its end.
        let entry = unsafe { *place };
        if entry.is_null() {
            return;
        }
        // SAFETY: entries are C strings, which live as long as the process.
        let bytes = unsafe { CStr::from_ptr(entry) }.to_bytes();
        if let Some(at) = bytes.iter().position(|byte| *byte == b'=')
            && is_meant(OsStr::from_bytes(&bytes[..at]))
            && at + 1 < bytes.len()
        {
            let (name, value) = (bytes[..at].to_vec(), bytes[at + 1..].to_vec());
            let length = bytes.len();
            // As for `getenv`, the first one of a name counts.
            hidden
                .entry(OsString::from_vec(name))
                .or_insert_with(|| OsString::from_vec(value));
            for offset in at + 1..length {
                // SAFETY: within the string just measured, which the kernel made writable; its
                // last NUL stays, so that a concurrent reader finds an end. A `u8` is aligned
                // everywhere, and no reference to the string is in use any more.
                unsafe { AtomicU8::from_ptr(entry.add(offset).cast()) }.store(0, Ordering::Relaxed);
            }
        }
        // SAFETY: the entry was not the last one, the null pointer.
        place = unsafe { place.add(1) };
    }
}

//! Removes secrets from the host's own environment.
//!
//! The variables of the host at its start are in `/proc/PID/environ`, which every process of the
//! same user can read: a command could read its parent's. So before anything else the program moves
//! the values of secrets from there into a map of its own ([`protect`]), and later those whose
//! names the config contains ([`hide`]). Afterwards they are blank in `std::env`; code that needs
//! one calls [`var`] or [`vars`].
//!
//! Limits: a command that runs as root can read the host's memory, and every command can read the
//! environment of other processes of its user that were started with the key, and files of its
//! user, including the secrets file. To prevent that, run the host and its commands as different
//! users, or start the host without keys other than that of a local proxy.

use std::collections::BTreeMap;
use std::ffi::{CStr, OsStr, OsString, c_char};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::{Mutex, PoisonError};

use rustix::process::DumpableBehavior;

mod finder;
mod forms;
mod name;

pub use finder::SecretFinder;
pub use forms::{keys_in, replaced};
pub use name::looks_secret;

unsafe extern "C" {
    /// The environment of this process, as the C library holds it.
    static environ: *const *mut c_char;
}

/// The removed variables.
static HIDDEN: Mutex<BTreeMap<OsString, OsString>> = Mutex::new(BTreeMap::new());

/// Hides every variable that looks like a secret, and makes the process's memory and environment
/// unreadable for other processes except root's.
///
/// Only for the first line of a program's `main`: a thread that reads the environment at the same
/// time might see half a value.
pub fn protect() {
    // If the kernel refuses this, the secrets are still removed from the environment below.
    let _ = rustix::process::set_dumpable_behavior(DumpableBehavior::NotDumpable);
    take(|name| name.to_str().is_some_and(looks_secret));
}

/// Hides the variables of these names, if [`protect`] has not done so already.
pub fn hide<S: AsRef<str>>(names: &[S]) {
    take(|name| names.iter().any(|secret| name == secret.as_ref()));
}

/// The value of a variable, hidden or not; none if it is not set or not UTF-8.
#[must_use]
pub fn var(name: &str) -> Option<String> {
    let hidden = hidden().get(OsStr::new(name)).cloned();
    hidden
        .or_else(|| std::env::var_os(name))?
        .into_string()
        .ok()
}

/// Sets a variable that is unset, only for [`var`]: started processes do not get it.
pub fn supply(name: &str, value: &str) {
    if std::env::var_os(name).is_none() {
        hidden().entry(name.into()).or_insert_with(|| value.into());
    }
}

/// Sets a variable for [`var`] in place of its value: started processes do not get it.
pub fn replace(name: &str, value: &str) {
    hidden().insert(name.into(), value.into());
}

/// All variables, including the hidden ones.
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

/// Whether a variable of this name was hidden.
#[must_use]
pub fn is_hidden(name: &str) -> bool {
    hidden().contains_key(OsStr::new(name))
}

/// The values that were supplied: they are not among [`vars`].
#[must_use]
pub fn supplied() -> Vec<(OsString, OsString)> {
    let hidden = hidden().clone();
    let is_absent = |entry: &(OsString, OsString)| std::env::var_os(&entry.0).is_none();
    hidden.into_iter().filter(is_absent).collect()
}

fn hidden() -> std::sync::MutexGuard<'static, BTreeMap<OsString, OsString>> {
    HIDDEN.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Moves the values of variables into the map.
///
/// The table of the environment itself does not change, because other threads may be reading it.
/// Only the bytes of values are replaced by NULs, which leaves every string in its place, but
/// shorter.
fn take(is_meant: impl Fn(&OsStr) -> bool) {
    let mut hidden = hidden();
    // SAFETY: the C library sets it before `main`, and this program never changes the environment
    // (`std::env::set_var` is unsafe and not used).
    let mut place = unsafe { environ };
    while !place.is_null() {
        // SAFETY: `place` walks over a null-terminated array and has not passed its end.
        let entry = unsafe { *place };
        if entry.is_null() {
            return;
        }
        // SAFETY: entries are C strings that exist as long as the process.
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
                // SAFETY: within the string that was just measured, which the kernel made writable;
                // its last NUL stays, so that a concurrent reader finds an end. A `u8` is aligned
                // everywhere, and no reference to the string is used any more.
                unsafe { AtomicU8::from_ptr(entry.add(offset).cast()) }.store(0, Ordering::Relaxed);
            }
        }
        // SAFETY: the entry was not the last one, the null pointer.
        place = unsafe { place.add(1) };
    }
}

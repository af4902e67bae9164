//! Template variables that describe this machine.

use std::ffi::CStr;
use std::time::Duration;

use indexmap::IndexMap;
use mswea_core::Object;
use serde_json::Value;

/// The variables that all environments have: the folder in which commands start, the configured variables,
/// the time limit, and this machine.
pub(super) fn template_vars(
    cwd: &str,
    env: &IndexMap<String, String>,
    timeout: Duration,
) -> Object {
    [
        ("cwd", Value::from(cwd)),
        ("env", texts(env)),
        ("timeout", seconds(timeout)),
    ]
    .into_iter()
    .chain(variables())
    .map(|(name, value)| (name.to_owned(), value))
    .collect()
}

/// Configured variables as an object.
pub(super) fn texts(env: &IndexMap<String, String>) -> Value {
    let pairs = env.iter();
    pairs
        .map(|(name, value)| (name.as_str(), value.as_str()))
        .collect()
}

/// The fields of Python's `platform.uname()`, by its names.
pub(super) fn variables() -> [(&'static str, Value); 6] {
    let system = rustix::system::uname();
    let text = |value: &CStr| Value::from(value.to_string_lossy());
    [
        ("system", text(system.sysname())),
        ("node", text(system.nodename())),
        ("release", text(system.release())),
        ("version", text(system.version())),
        ("machine", text(system.machine())),
        // Linux does not provide it; templates that use it must not fail.
        ("processor", Value::from("")),
    ]
}

/// Seconds, as Python prints a number of the config: `30`, `1.5`.
pub(super) fn seconds(duration: Duration) -> Value {
    match duration.subsec_nanos() {
        0 => Value::from(duration.as_secs()),
        _ => Value::from(duration.as_secs_f64()),
    }
}

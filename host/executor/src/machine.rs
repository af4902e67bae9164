//! Template variables that describe this machine.

use std::ffi::CStr;

use serde_json::Value;

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
pub(super) fn seconds(duration: std::time::Duration) -> Value {
    match duration.subsec_nanos() {
        0 => Value::from(duration.as_secs()),
        _ => Value::from(duration.as_secs_f64()),
    }
}

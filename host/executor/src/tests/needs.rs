//! The needs of a test on the machine. A skipped test prints a message.

use std::io::Write;

/// Whether `what` (needed by a test `name`) is available. If not, and `MSWEA_TEST_REQUIRE` or `CI`
/// names it, the test fails.
pub(super) fn has(what: &str, name: &str, found: Result<(), String>) -> bool {
    let Err(why) = found else {
        return true;
    };
    let is_required = ["MSWEA_TEST_REQUIRE", "CI"].iter().any(|variable| {
        std::env::var(variable).is_ok_and(|names| names.split_whitespace().any(|it| it == what))
    });
    assert!(
        !is_required,
        "{name} needs {what}, which `MSWEA_TEST_REQUIRE` or `CI` says is there: {why}"
    );
    // Not captured by the test harness, unlike `eprintln`.
    let _ = writeln!(std::io::stderr(), "SKIPPED (no {what}: {why}): {name}");
    false
}

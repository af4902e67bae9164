//! Templates that the host renders for a guest: memory and time are bounded, and secrets are hidden.

use std::time::{Duration, Instant};

use scripted_server::{Scenario, Server};
use serde_json::json;

use super::fallbacks::host;
use super::guests::hostile;

const SUBMIT: &str = "echo COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT; echo the-work";

/// The result of a rendering: the policy panics with it, so it is in the recorded fault.
fn rendered(template: &str) -> String {
    let server = Server::start(Scenario::commands(&["echo one", SUBMIT]));
    let config = json!({"at": "judge", "do": "render", "word": template});
    let run = host(&server, "policies", &config)
        .args(["-c", "plugins.hostile.deadline_ms=60000"])
        .args(["-c", "environment.env.MY_TOKEN=hunter2"])
        .args(["-c", "environment.env.PAGER=my-pager"])
        // Each new instance panics again, so no command ever runs.
        .args(["--step-limit", "1"])
        .run()
        .nothing_left();
    assert_eq!(run.exit_status(), "LimitsExceeded", "{run}");
    let faults = run.events("plugin_fault");
    faults[0]["message"].as_str().unwrap().to_owned()
}

#[test]
fn a_template_that_doubles_a_value_is_ended() {
    hostile();
    let begun = Instant::now();
    let message = rendered(
        "{% set ns = namespace(a='x') %}{% for i in range(60) %}{% set ns.a = ns.a ~ ns.a %}{% endfor %}{{ ns.a|length }}",
    );
    assert!(message.contains("64 MiB"), "{message}");
    let message = rendered(
        "{% set ns = namespace(a=[1]) %}{% for i in range(60) %}{% set ns.a = ns.a + ns.a %}{% endfor %}{{ ns.a|length }}",
    );
    assert!(message.contains("gave up"), "{message}");
    assert!(begun.elapsed() < Duration::from_secs(60));
}

#[test]
fn templates_of_guests_do_not_see_secrets() {
    hostile();
    let message = rendered("{{ env }}");
    assert!(message.contains("rendered: {"), "{message}");
    assert!(message.contains("my-pager"), "{message}");
    assert!(message.contains("[redacted]"), "{message}");
    assert!(!message.contains("hunter2"), "{message}");
}

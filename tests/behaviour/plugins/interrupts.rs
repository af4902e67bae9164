//! A call of a guest that hangs, with a deadline of a minute: a signal or the run's time limit ends it
//! earlier, and the run ends as `Interrupted` or `TimeExceeded`, without a fault of the plugin.

use std::time::{Duration, Instant};

use scripted_server::{Scenario, Server};
use serde_json::{Value, json};

use super::fallbacks::{adapter, host};
use super::guests::hostile;
use crate::host::{Host, Signal};
use crate::run::Run;

const SUBMIT: &str = "echo COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT; echo the-work";

/// Role, function, and the number of the call that hangs. The first command has run before that call.
const HANGING: [(&str, &str, u32); 7] = [
    ("parser", "parse", 2),
    ("formatter", "format", 1),
    ("processors", "apply", 2),
    ("policies", "judge", 2),
    ("adapter", "query", 2),
    ("adapter", "feed", 2),
    ("adapter", "finish", 2),
];

/// Deeds that never end: a loop in the guest, and a rendering in the host.
const WAYS: [&str; 2] = ["loop", "render"];

/// A template that is rendered until a limit ends it.
const SLOW: &str = "{% for a in range(99999) %}{% for b in range(99999) %}{{ [a, b, a]|sort|join|length }}{% endfor %}{% endfor %}";

fn server() -> Server {
    Server::start(Scenario::commands(&["echo one", "echo two", SUBMIT]))
}

fn hanging(server: &Server, role: &str, config: &Value) -> Host {
    match role {
        "adapter" => adapter(server, config),
        role => host(server, role, config),
    }
    .args(["-c", "plugins.hostile.deadline_ms=60000"])
}

#[track_caller]
fn no_plugin_is_at_fault(run: &Run) {
    assert!(run.events("plugin_fault").is_empty(), "{run}");
    assert!(!run.stderr.contains("still running after"), "{run}");
    assert_eq!(run.trajectory()["info"]["mswea"]["complete"], true, "{run}");
}

#[test]
fn signals_end_a_call() {
    hostile();
    for (role, at, from) in HANGING {
        for (signal, deed) in [(Signal::INT, WAYS[0]), (Signal::TERM, WAYS[1])] {
            let server = server();
            let config = json!({
                "at": at, "do": deed, "from": from, "word": SLOW,
            });
            let mut running = hanging(&server, role, &config).spawn();
            running.until("the first output", |running| {
                running
                    .journal()
                    .iter()
                    .any(|event| event["event"] == "output")
            });
            // The call that hangs begins right after the output. On a fast machine, the template reaches its limit after
            // 300 ms.
            std::thread::sleep(Duration::from_millis(100));
            let asked = Instant::now();
            running.signal(signal);
            let run = running.wait().expect(130).nothing_left();
            assert!(
                asked.elapsed() < Duration::from_secs(3),
                "{role} {at} {deed}\n{run}"
            );
            assert_eq!(
                run.exit_status(),
                "Interrupted",
                "{role} {at} {deed}\n{run}"
            );
            no_plugin_is_at_fault(&run);
        }
    }
}

#[test]
fn the_time_limit_ends_a_call() {
    hostile();
    for (role, at, from) in HANGING {
        let server = server();
        let config = json!({
            "at": at, "do": "loop", "from": from,
        });
        let begun = Instant::now();
        let run = hanging(&server, role, &config)
            .args(["--time-limit", "2"])
            .run()
            .nothing_left();
        assert!(
            begun.elapsed() < Duration::from_secs(15),
            "{role} {at}\n{run}"
        );
        assert_eq!(run.exit_status(), "TimeExceeded", "{role} {at}\n{run}");
        no_plugin_is_at_fault(&run);
    }
}

#[test]
fn a_signal_before_the_run_ends_the_program() {
    hostile();
    for signal in [Signal::INT, Signal::TERM] {
        let server = server();
        let config = json!({"at": "configure", "do": "loop"});
        let running = host(&server, "policies", &config)
            .args(["-c", "plugins.hostile.deadline_ms=60000"])
            .spawn();
        std::thread::sleep(Duration::from_millis(1500));
        let asked = Instant::now();
        running.signal(signal);
        let run = running.wait();
        assert!(asked.elapsed() < Duration::from_secs(3), "{run}");
        assert_eq!(server.served(), 0);
    }
}

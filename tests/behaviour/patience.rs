//! How long the host waits for a server that restarts, that is slow, or that sends broken answers for a
//! while.

use std::time::{Duration, Instant};

use scripted_server::{Fault, Turn};

use crate::host::{self, Host};
use crate::story::turns;

/// Makes the waits before retries a hundred times shorter.
const QUICKLY: [&str; 2] = ["-c", "model.retry_wait=0.01"];

/// An address without a server.
fn nobody() -> String {
    format!("http://{}/v1", host::nobody())
}

#[test]
fn a_server_that_restarts_does_not_end_a_run() {
    // On a loaded machine no request may come while the server is away, so longer times follow.
    for away in [600, 4_000, 20_000].map(Duration::from_millis) {
        let away = Turn::commands(&["echo before"]).then_away(away);
        let server = turns([away, Turn::commands(&["echo after"])]);
        let run = Host::new()
            .server(&server)
            .task("x")
            .args(["-c", "model.retry_wait=0.1"])
            .run()
            .expect(0);
        assert_eq!(run.trajectory()["info"]["model_stats"]["api_calls"], 3);
        if run.events("retry").len() >= 2 {
            run.says(&["nothing listens at"]);
            return;
        }
    }
    panic!("no request came while the server was away");
}

#[test]
fn refused_connections_are_retried_as_often_as_configured() {
    // In the middle of a run, with the usual budget: ten attempts.
    let gone = Turn::commands(&["echo before"]).then_away(Duration::from_secs(3600));
    let run = Host::new()
        .server(&turns([gone]))
        .task("x")
        .args(QUICKLY)
        .run()
        .expect(5)
        .says(&[
            "nothing listens at",
            "10 attempts",
            "`model.network_retries` is 9",
        ]);
    assert_eq!(run.exit_status(), "APIConnectionError");
    assert_eq!(run.events("retry").len(), 9);
    // At the start, if the user has set the number of retries.
    for (host, retries) in [
        (Host::new().args(["-c", "model.network_retries=4"]), 4),
        (
            Host::new().env("MSWEA_MODEL_RETRY_STOP_AFTER_ATTEMPT", "4"),
            3,
        ),
        (
            Host::new().env("MSWEA_MODEL_RETRY_STOP_AFTER_ATTEMPT", "1"),
            0,
        ),
    ] {
        let run = host
            .base_url(&nobody())
            .task("x")
            .args(QUICKLY)
            .run()
            .expect(5);
        assert_eq!(run.events("retry").len(), retries, "{run}");
    }
    // Otherwise a wrong address is reported soon.
    let run = Host::new().base_url(&nobody()).task("x").run().expect(5);
    assert_eq!(run.events("retry").len(), 1, "{run}");
}

#[test]
fn seven_broken_answers_do_not_end_a_run() {
    for fault in [Fault::NoDone, Fault::InvalidJson, Fault::Html, Fault::Cut] {
        let broken = std::iter::repeat_n(Turn::fault(fault), 7);
        let server = turns([Turn::commands(&["echo before"])].into_iter().chain(broken));
        let run = Host::new()
            .server(&server)
            .task("x")
            .args(QUICKLY)
            .run()
            .expect(0);
        assert_eq!(run.events("retry").len(), 7, "{run}");
        assert_eq!(server.served(), 9);
    }
}

#[test]
fn litellm_s_time_limits_hold_and_are_named() {
    let late = || turns([Turn::text("late").with_delay(Duration::from_secs(3600))]);
    for (args, part) in [
        (
            &["model.model_kwargs.timeout=0.3"][..],
            "raise `model.model_kwargs.timeout`",
        ),
        (
            &["model.model_kwargs.request_timeout=\"0.3\""],
            "raise `model.model_kwargs.request_timeout`",
        ),
        (
            &[
                "model.model_kwargs.timeout=60",
                "model.model_kwargs.stream_timeout=0.3",
            ],
            "raise `model.model_kwargs.stream_timeout`",
        ),
        (
            &[
                "model.model_kwargs.timeout=60",
                "model.first_byte_timeout=0.3",
            ],
            "raise `model.first_byte_timeout`",
        ),
        (&["model.total_timeout=0.3"], "raise `model.total_timeout`"),
    ] {
        let server = late();
        let start = Instant::now();
        let run = Host::new()
            .server(&server)
            .task("x")
            .args(["-c", "model.network_retries=0"])
            .args(args.iter().flat_map(|arg| ["-c", arg]))
            .run()
            .expect(5)
            .says(&[part]);
        assert!(start.elapsed() < Duration::from_secs(50));
        assert_eq!(run.exit_status(), "Timeout");
        // The limits are neither sent to the server nor passed to the plugin.
        let body = server.requests()[0].json();
        assert!(!body.to_string().contains("timeout"), "{body}");
        assert!(!run.stderr.contains("is not sent"), "{run}");
    }
}

/// `model_kwargs.timeout` permits a late first byte, streamed and whole.
#[test]
fn an_answer_may_begin_late() {
    for stream in ["true", "false"] {
        let server = turns([Turn::commands(&["echo x"]).with_delay(Duration::from_millis(1500))]);
        Host::new()
            .server(&server)
            .task("x")
            .args(["-c", &format!("model.stream={stream}")])
            .args(["-c", "model.model_kwargs.timeout=3600"])
            .run()
            .expect(0);
    }
    let shown = Host::new()
        .args(["config", "show", "-c", "model.model_kwargs.timeout=3600"])
        .run()
        .expect(0);
    assert!(shown.stdout.contains("network_retries = 9"), "{shown}");
}

#[test]
fn a_status_that_no_api_has_is_a_malformed_response() {
    for status in [101, 999] {
        let server = turns([Turn::status(status), Turn::status(status)]);
        let run = Host::new().server(&server).task("x").run().expect(5);
        let words = format!("status {status}");
        let run = run.says(&[&words, "`model.base_url`"]);
        assert_eq!(run.exit_status(), "MalformedResponseError");
        assert_eq!(server.served(), 1);
    }
}

//! A reader that stops reading, or a full disk, does not stop a run. Only the output that can't be
//! written is lost.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::thread;
use std::time::{Duration, Instant};

use scripted_server::{Fault, Scenario, Server, Turn};
use serde_json::Value;

use crate::host::{Host, Signal};
use crate::needs::{Need, namespaces};
use crate::story::{commands, turns};

/// Prints more than a pipe can hold.
const MUCH: &str = "seq 40000";

#[test]
fn a_terminal_that_does_not_read_does_not_delay_a_run() {
    let server = commands(&[MUCH, MUCH]);
    let run = Host::new()
        .server(&server)
        .task("x")
        .arg("-vv")
        .stalled()
        .run()
        .expect(0)
        .nothing_left();
    assert_eq!(run.exit_status(), "Submitted");
    assert_eq!(run.stdout, "done\n");
}

#[test]
fn signals_and_time_limits_end_a_run_whose_output_is_not_read() {
    for arguments in [&["-vv"][..], &["--json"]] {
        let server = turns([Turn::commands(&[MUCH]), Turn::fault(Fault::Silence)]);
        let mut running = Host::new()
            .server(&server)
            .task("x")
            .args(arguments)
            .stalled()
            .spawn();
        running.until("the second query", |_| server.served() == 2);
        let asked = Instant::now();
        running.signal(Signal::INT);
        running.until("the end of the run", |run| {
            run.journal()
                .iter()
                .any(|event| event["event"] == "run_ended")
        });
        assert!(asked.elapsed() < Duration::from_secs(10));
        let run = running.wait().expect(130);
        assert_eq!(run.exit_status(), "Interrupted");

        let server = turns([Turn::commands(&[MUCH]), Turn::fault(Fault::Silence)]);
        let run = Host::new()
            .server(&server)
            .task("x")
            .args(arguments)
            .args(["--time-limit", "2"])
            .stalled()
            .run()
            .expect(3);
        assert_eq!(run.exit_status(), "TimeExceeded");
    }
}

/// The wait at the end, for a reader of the submission, ends after a time limit or by a signal.
#[test]
fn a_submission_that_is_not_read_is_given_up() {
    let large = "echo COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT; seq 40000";
    for signal in [false, true] {
        let server = Server::start(Scenario::commands(&[large]));
        let mut running = Host::new().server(&server).task("x").stalled().spawn();
        running.until("the end of the run", |run| {
            run.journal()
                .iter()
                .any(|event| event["event"] == "run_ended")
        });
        let ended = Instant::now();
        if signal {
            // The host needs a moment from the last event to its wait.
            thread::sleep(Duration::from_millis(700));
            running.signal(Signal::INT);
        }
        let run = running
            .wait()
            .expect(1)
            .says(&["its reader has stopped reading", "is in `traj.json`"]);
        assert!(ended.elapsed() < Duration::from_secs(30));
        assert_eq!(run.exit_status(), "Submitted");
        assert!(run.stdout.starts_with("1\n2\n"));
    }
    // A reader that reads gets all of it.
    let server = Server::start(Scenario::commands(&[large]));
    let run = Host::new().server(&server).task("x").run().expect(0);
    assert!(run.stdout.ends_with("\n40000\n"));
}

#[test]
fn the_last_event_says_how_the_process_ends() {
    let server = commands(&["rm -f traj.json; mkdir -p traj.json/x"]);
    let run = Host::new()
        .server(&server)
        .task("x")
        .arg("--json")
        .run()
        .expect(1)
        .says(&["can't write the trajectory `traj.json`"]);
    let last: Value = serde_json::from_str(run.stdout.lines().last().unwrap()).unwrap();
    assert_eq!(
        (&last["type"], &last["exit_code"]),
        (&"ended".into(), &1.into())
    );
    assert_eq!(last["exit_status"], "Submitted");
    let error = last["error"].as_str().unwrap();
    assert!(error.contains("can't write the trajectory"), "{error}");
}

/// Runs the host with a file system of 256 KiB mounted at `full`; none if the test may not mount.
pub fn on_a_small_disk(host: Host) -> Option<Host> {
    if !Need::Mounts.is_met() {
        return None;
    }
    let user = namespaces();
    let mount = "mount -t tmpfs -o size=256k none";
    let script = format!(
        "#!/bin/sh\nmkdir full\nexec unshare {user} sh -c '{mount} full && exec \"$0\" \"$@\"' \"{}\" \"$@\"\n",
        env!("CARGO_BIN_EXE_mswea-host")
    );
    let host = host.file("small", script);
    let program = host.dir().join("small");
    fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
    Some(host.program(&program))
}

#[test]
fn a_submission_that_can_not_be_recorded_is_printed() {
    let large = "echo COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT; seq 100000";
    let server = Server::start(Scenario::commands(&["echo first", large]));
    let host = Host::new()
        .server(&server)
        .args(["-t", "x", "-o", "full/traj.json"]);
    let Some(host) = on_a_small_disk(host) else {
        return;
    };
    let run = host.run().expect(1).says(&[
        "No space left on device",
        "the last command has run and its output is not recorded",
    ]);
    let expected: String = (1..=100_000).map(|number| format!("{number}\n")).collect();
    assert_eq!(run.stdout, expected);
    assert!(!run.stderr.contains("nothing more was done"));
    // The end of the run is recorded, because some space is reserved for it.
    assert!(!run.stderr.contains("end of the run is not"), "{run}");
}

//! After a signal the run ends with a trajectory and leaves no process behind; a `kill -9` at any moment
//! loses no recorded event.

use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use mswea_host::journal::{self, Event, Log};
use mswea_host::record::trajectory;
use mswea_host::roles::Message;
use mswea_host::run::fold;
use scripted_server::{Fault, Scenario, Server, Turn};
use serde_json::Value;

use crate::host::{Host, Signal};
use crate::story::{commands, submit, turns};

/// Starts processes in the background, in other sessions, as orphans, with signals ignored, and without
/// the variables that mark them.
const TREE: &str = "sleep 301 & (setsid sleep 302 &) ; (setsid sh -c 'sleep 303 & exec sleep 304' &); \
                    nohup sleep 305 >/dev/null 2>&1 & \
                    sh -c 'trap \"\" TERM INT HUP; while :; do sleep 306; done' & \
                    env -i /bin/sleep 307 & touch started; sleep 308";

#[test]
fn while_the_model_is_asked() {
    for signal in [Signal::INT, Signal::TERM, Signal::HUP] {
        for turn in [
            Turn::fault(Fault::Silence),
            Turn::fault(Fault::Stall),
            Turn::status(429).with_header("retry-after", "60"),
        ] {
            let server = turns([Turn::commands(&["echo worked"]), turn]);
            let mut running = Host::new().server(&server).task("x").spawn();
            running.until("the second query", |_| server.served() == 2);
            thread::sleep(Duration::from_millis(30));
            let asked = Instant::now();
            running.signal(signal);
            let run = running
                .wait()
                .expect(130)
                .says(&["Interrupted"])
                .nothing_left();
            assert!(asked.elapsed() < Duration::from_secs(3));
            assert_eq!(run.exit_status(), "Interrupted");
            assert_eq!(run.events("salvaged").len(), 1);
            assert_eq!(run.trajectory()["info"]["mswea"]["complete"], true);
            assert_eq!(run.trajectory()["messages"].as_array().unwrap().len(), 5);
        }
    }
}

#[test]
fn while_a_submitted_run_is_salvaged() {
    for signal in [Signal::INT, Signal::TERM] {
        let server = commands(&[&submit("done")]);
        let mut running = Host::new()
            .server(&server)
            .task("x")
            .args(["-c", "agent.salvage_command=touch saving; sleep 300"])
            .args(["-c", "agent.salvage_timeout=300"])
            .spawn();
        running.until_file("saving");
        running.signal(signal);
        let run = running
            .wait()
            .expect(0)
            .says(&["the salvage command was stopped"])
            .nothing_left();
        assert!(run.stdout.contains("done"), "{run}");
        assert_eq!(run.exit_status(), "Submitted");
    }
}

#[test]
fn while_a_command_runs() {
    for signal in [Signal::INT, Signal::TERM, Signal::HUP] {
        let server = turns([Turn::commands(&[TREE, "touch never"])]);
        let mut running = Host::new().server(&server).task("x").spawn();
        running.until_file("started");
        // A terminal sends the signal to the whole process group, which includes the guardian.
        running.signal_group(signal);
        let run = running.wait().expect(130).nothing_left();
        assert_eq!(run.exit_status(), "Interrupted");
        assert!(!run.dir.join("never").exists());
        assert_eq!(run.events("salvaged").len(), 1);
        let trajectory = run.trajectory();
        let messages = trajectory["messages"].as_array().unwrap();
        let roles: Vec<&str> = messages
            .iter()
            .map(|m| m["role"].as_str().unwrap())
            .collect();
        assert_eq!(
            roles,
            ["system", "user", "assistant", "tool", "tool", "exit"]
        );
        assert!(
            messages[3].to_string().contains("interrupted"),
            "{}",
            messages[3]
        );
        assert!(
            messages[4].to_string().contains("not executed"),
            "{}",
            messages[4]
        );
    }
}

#[test]
fn processes_that_commands_leave_running_end_with_the_run() {
    // The time limit ends the tree's command, and the run goes on.
    let server = commands(&[
        TREE,
        "sleep 309 & echo quick",
        "sleep 310 >/dev/null 2>&1 & echo quicker",
    ]);
    let begun = Instant::now();
    let run = Host::new()
        .server(&server)
        .task("x")
        .args(["-c", "environment.timeout=0.4"])
        .run()
        .expect(0)
        .nothing_left();
    assert!(
        begun.elapsed() < Duration::from_secs(5),
        "{:?}",
        begun.elapsed()
    );
    let outputs: Vec<Value> = run.events("output");
    assert_eq!(outputs[0]["output"]["returncode"], -1);
    assert_eq!(outputs[1]["output"]["output"], "quick\n");
    assert_eq!(outputs[2]["output"]["output"], "quicker\n");
}

#[test]
fn a_second_ctrl_c_ends_the_run_at_once() {
    let server = turns([Turn::commands(&["touch started; sleep 300"])]);
    let mut running = Host::new()
        .server(&server)
        .task("x")
        .args([
            "-c",
            "agent.salvage_command=touch salvaging; trap '' INT TERM; sleep 301",
        ])
        .spawn();
    running.until_file("started");
    running.signal(Signal::INT);
    running.until_file("salvaging");
    let asked = Instant::now();
    running.signal(Signal::INT);
    let run = running.wait().expect(130).nothing_left();
    assert!(
        asked.elapsed() < Duration::from_secs(3),
        "{:?}",
        asked.elapsed()
    );
    assert_eq!(run.exit_status(), "Interrupted");
    let saved = run.events("salvaged");
    assert_eq!(saved.len(), 1);
    let why = &saved[0]["output"]["extra"]["exception_type"];
    assert_eq!(why, "SalvageStopped", "{saved:?}");
}

#[test]
fn closed_output_pipes_do_not_end_a_run() {
    for arguments in [&[][..], &["--json"], &["-q"], &["-vv"]] {
        let server = commands(&["seq 10000", "echo two"]);
        let host = Host::new()
            .server(&server)
            .task("x")
            .args(arguments)
            .unread();
        let run = host.run().expect(0).nothing_left();
        assert_eq!(server.served(), 3);
        assert_eq!(run.exit_status(), "Submitted");
    }
}

#[test]
fn a_signal_during_the_start() {
    // After a signal at any moment there is a whole trajectory or none.
    for millis in [0, 20, 60, 120, 200] {
        let server = turns([Turn::fault(Fault::Silence)]);
        let running = Host::new().server(&server).task("x").spawn();
        thread::sleep(Duration::from_millis(millis));
        running.signal(Signal::INT);
        let run = running.wait();
        if run.dir.join("traj.json").exists() {
            let run = run.expect(130).nothing_left();
            assert_eq!(run.exit_status(), "Interrupted");
        } else {
            // -2: the process had no handler for the signal yet.
            assert!([-2, 130].contains(&run.status), "{run}");
        }
    }
}

#[test]
fn the_trajectory_is_a_function_of_the_journal() {
    let server = turns([
        Turn::text("only talk").with_cost(0.1),
        Turn::status(503),
        Turn::commands(&["echo a", "exit 3"])
            .with_reasoning("hm")
            .with_cost(0.2),
    ]);
    let run = Host::new()
        .server(&server)
        .task("x")
        .args(["-c", "pipeline.processors=[\"last_n_observations\"]"])
        .args(["-c", "plugins.last_n_observations.config.n=1"])
        .run()
        .expect(0);
    let name = "traj.events.jsonl";
    let log = journal::read(&run.dir.join(name)).unwrap();
    let mut rebuilt = fold(&log.records).into_trajectory();
    trajectory::set_journal(&mut rebuilt, Path::new(name));
    assert_eq!(rebuilt, run.trajectory());
    sent_is_recorded(&server, &fold(&log.records).messages);
}

/// How many runs are killed after their first query.
const KILLS: u64 = 24;
const STEPS: usize = 10;

#[test]
fn kill_9_loses_no_recorded_event() {
    let mut seed = fastrand::Rng::new();
    let seeds: Vec<u64> = (0..KILLS).map(|_| seed.u64(..)).collect();
    thread::scope(|scope| {
        for seeds in seeds.chunks(6) {
            scope.spawn(|| seeds.iter().for_each(|seed| kill_9(*seed)));
        }
    });
}

#[allow(clippy::print_stdout, reason = "shown when the test fails")]
fn kill_9(seed: u64) {
    let mut random = fastrand::Rng::with_seed(seed);
    println!("seed {seed}");
    let mut turns: Vec<Turn> = (0..STEPS)
        .map(|step| {
            let first = format!(
                "echo {step}a >> log; sleep 0.0{}; (setsid sleep 311 &)",
                step % 3
            );
            let second = format!("echo {step}b >> log; seq {}; sleep 312 &", 40 * step);
            if step % 4 == 3 {
                Turn::text(format!("talk {step}"))
            } else {
                Turn::commands(&[first, second]).with_text(format!("step {step}"))
            }
        })
        .collect();
    turns.push(Turn::commands(&[submit("done")]));
    let server = Server::start(Scenario::new(turns));
    let mut running = Host::new().server(&server).task("x").spawn();
    running.until("the first query", |_| server.served() > 0);
    thread::sleep(Duration::from_micros(random.u64(..900_000)));
    running.signal(Signal::KILL);
    let run = running.wait();
    // The guardian ends processes that are left.
    let run = run.nothing_left();

    let log: Log = journal::read(&run.dir.join("traj.events.jsonl")).unwrap();
    assert_eq!(log.unknown, []);
    let state = fold(&log.records);
    let messages = &state.messages;
    sent_is_recorded(&server, messages);
    let served = server.served();
    assert!(
        (served..=served + 1).contains(&state.account.queries.into()),
        "{} of {served}",
        state.account.queries
    );
    assert_eq!(
        state.ended.is_some(),
        run.status == 0 && log.torn.is_none(),
        "seed {seed}"
    );

    // Every command that ran was recorded before, and every command with a recorded output has run.
    let done = fs::read_to_string(run.dir.join("log")).unwrap_or_default();
    let done: Vec<&str> = done.lines().collect();
    let mut begun = Vec::new();
    let mut ended = 0;
    for record in &log.records {
        match &record.event {
            Event::Action { action, .. } => {
                let words = action.command.strip_prefix("echo ").unwrap();
                begun.extend(words.split_once(" >> log").map(|(word, _)| word.to_owned()));
            }
            Event::Output { output, .. } => {
                ended += usize::from(!output.output.contains("COMPLETE"));
            }
            _ => {}
        }
    }
    assert!(
        begun.len() >= done.len() && ended <= done.len(),
        "seed {seed}: {begun:?} {done:?}"
    );
    assert_eq!(begun[..done.len()], done, "seed {seed}");

    // A trajectory can be made of the journal; it is complete only if the run had ended.
    let made = fold(&log.records).into_trajectory();
    assert_eq!(made["info"]["mswea"]["complete"], state.ended.is_some());
    assert_eq!(made["messages"].as_array().unwrap().len(), messages.len());
}

/// Fails unless the messages of every request are a beginning of these, and those of the last request lack
/// at most four.
#[track_caller]
fn sent_is_recorded(server: &Server, messages: &[Arc<Message>]) {
    let requests = server.requests();
    let last = requests.len() - 1;
    for (index, request) in requests.iter().enumerate() {
        let body = request.json();
        let sent = body["messages"].as_array().unwrap();
        // Every message that was sent is recorded; the last recorded ones may not have been sent.
        assert!(
            sent.len() <= messages.len(),
            "{} > {}",
            sent.len(),
            messages.len()
        );
        assert!(
            index < last || messages.len() - sent.len() <= 4,
            "request {index}"
        );
        for (sent, recorded) in sent.iter().zip(messages) {
            assert_eq!(sent["role"], recorded.role.as_str());
            let text = sent["content"].as_str().unwrap_or_default();
            // The processor `last_n_observations` shortens older observations.
            assert!(
                text == recorded.text() || text.contains("omitted"),
                "{text}"
            );
            let call = sent.get("tool_call_id").and_then(Value::as_str);
            assert_eq!(call, recorded.tool_call_id.as_deref());
            let calls = sent["tool_calls"].as_array().map_or(0, Vec::len);
            assert_eq!(calls, recorded.tool_calls.len());
        }
    }
}

//! What a person sees of a batch: a table at the end of the terminal, and above it what is said once. And a
//! batch on a machine that has too little free, the limits of the
//! whole batch, and the exit code.

use std::thread;
use std::time::Duration;

use scripted_server::{After, Scenario, Server, Turn};

use crate::batches;
use crate::host::{Host, Signal};
use crate::terminal::Terminal;

const SUBMIT: &str = "echo COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT";

fn instances(count: usize) -> String {
    let lines = (0..count).map(|i| format!("{{\"id\": \"i{i:02}\", \"task\": \"Do {i}\"}}\n"));
    lines.collect()
}

fn server(delay: u64) -> Server {
    let turns = ["sleep 0.1; echo a wide line of words", SUBMIT].map(|command| {
        let turn = Turn::commands(&[command]).with_cost(0.25);
        turn.with_delay(Duration::from_millis(delay))
    });
    Server::start(Scenario::new(turns).by_history().then(After::Repeat))
}

fn batch(count: usize, server: &Server, arguments: &[&str]) -> Host {
    Host::new()
        .file("i.jsonl", instances(count))
        .args(["batch", "run", "out", "--instances", "i.jsonl", "-l", "0"])
        .args(arguments)
        .server(server)
}

#[test]
fn the_table_is_drawn_anew_and_what_is_said_stays() {
    let server = server(700);
    let host = batch(8, &server, &["-w", "4"]);
    let Some(terminal) = Terminal::start(host, 70, 24) else {
        return;
    };
    terminal.until("· step 1");
    let screen = terminal.until("[4/8]");
    assert!(screen.contains("  i0"), "{screen}");
    terminal.resize(40, 20);
    terminal.until("[8/8]");
    let screen = terminal.ends(0);
    for id in 0..8 {
        let said = format!("i{id:02}: Submitted, 2 steps, $0.50");
        assert_eq!(screen.matches(&said).count(), 1, "{said}: {screen}");
    }
    // Nothing of the table is left.
    assert!(
        !screen.contains("###") && !screen.contains("· step"),
        "{screen}"
    );
    assert!(
        screen.contains("8/8 done · 8 Submitted · $4.00"),
        "{screen}"
    );
}

#[test]
fn too_little_that_is_free_is_said_and_waited_for() {
    let server = server(0);
    for flag in ["--min-memory", "--min-disk"] {
        let running = batch(1, &server, &[flag, "99999999999"]).spawn();
        thread::sleep(Duration::from_secs(2));
        running.signal(Signal::INT);
        let run = running.wait().expect(130);
        let run = run.says(&["no further instance begins until more is free", flag]);
        assert!(!run.dir.join("out/i00/result.json").exists());
    }
    assert_eq!(server.requests().len(), 0);
}

#[test]
fn the_exit_code_counts_the_failures_of_earlier_calls() {
    let turns = [Turn::status(400), Turn::commands(&[SUBMIT])];
    let server = Server::start(Scenario::new(turns).then(After::Repeat));
    let mut last = batch(2, &server, &["--slice", ":1"]).run().expect(1);
    // Neither another instance nor a call that finds nothing to do hides a failure.
    for (arguments, code, words) in [
        (&[][..], 1, "1 of 2 instances have a result already"),
        (&[], 1, "1 BadRequestError, 1 Submitted"),
        (&["--retry-failed"], 0, "[1/1] i00: Submitted"),
        (
            &[],
            0,
            "2 of 2 instances have a result already · 2 Submitted",
        ),
    ] {
        let host = Host::after(&last).args(["batch", "run", "out", "-l", "0"]);
        let host = host.args(["--instances", "i.jsonl"]).args(arguments);
        let run = host.server(&server).run();
        last = run.expect(code).says(&[words]);
    }
}

#[test]
fn a_limit_of_the_batch_counts_what_was_spent_on_runs_that_were_cut_off() {
    let turn = Turn::commands(&["true"]).with_cost(0.25);
    let server = Server::start(Scenario::always(turn));
    let mut last = None;
    for (limit, replies) in [("1", 4), ("2", 8), ("3", 12)] {
        let host = match &last {
            None => batch(1, &server, &[]),
            Some(run) => {
                let host = Host::after(run).args(["batch", "run", "out", "-l", "0"]);
                host.server(&server)
            }
        };
        let run = host.args(["--total-cost-limit", limit]).run().expect(3);
        let spent = format!(
            "the batch has spent ${limit}.00, and its limit is ${limit}.00; the same command with a higher limit"
        );
        last = Some(run.says(&[&spent]));
        // One more may have been asked for.
        let asked = server.requests().len();
        assert!(asked <= replies + 3, "{asked} for ${limit}");
    }
    let run = last.unwrap();
    let journal = run.dir.join("out/i00/i00.events.jsonl");
    let journal = std::fs::read_to_string(journal).unwrap();
    assert_eq!(journal.matches("\"event\":\"reply\"").count(), 12, "{run}");
}

/// An engine of a cluster sends each of them once.
#[test]
fn signals_of_programs_stop_what_runs() {
    let server = batches::server(0);
    for signal in [Signal::TERM, Signal::USR1] {
        // No instance ends before the signal.
        let silent = batches::server_with([0, 600_000, 0]);
        let host = Host::new().file("i.jsonl", batches::instances(4));
        let running = batches::batch(host, &silent, &["-w", "2"]).spawn();
        // At least one has a reply.
        assert!(silent.wait_for(3, Duration::from_secs(60)));
        running.signal(signal);
        let run = running.wait().expect(130).says(&["stopping what runs"]);
        let out = run.dir.join("out");
        assert!(batches::results(&out).len() < batches::begun(&out), "{run}");
        batches::batch(Host::after(&run), &server, &["--config-changed"])
            .run()
            .expect(0);
        assert_eq!(batches::results(&out).len(), 4, "{run}");
    }
}

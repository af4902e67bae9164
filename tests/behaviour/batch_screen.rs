//! What a person sees of a batch: a table at the end of the terminal, and above it what is said once. And a
//! batch on a machine that has too little free.

use std::thread;
use std::time::Duration;

use scripted_server::{After, Scenario, Server, Turn};

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

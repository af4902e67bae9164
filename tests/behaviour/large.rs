//! The memory that a large submission takes is less than 13 times its size.

use scripted_server::{Scenario, Server};

use crate::host::Host;

#[test]
fn a_large_submission_takes_limited_memory() {
    const MEGABYTES: u64 = 40;
    let command = format!(
        "echo COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT; head -c {MEGABYTES}000000 /dev/zero | tr '\\0' a | fold -w 100"
    );
    // `--on-end` runs after the trajectory is written, and reads the host's peak memory.
    let run = Host::new()
        .server(&Server::start(Scenario::commands(&[&command])))
        .task("x")
        .args(["-q", "--on-end", "grep VmHWM /proc/$PPID/status > peak"])
        .run()
        .expect(0);
    assert!(run.stdout.len() as u64 > MEGABYTES * 1_000_000);
    let peak = std::fs::read_to_string(run.dir.join("peak")).unwrap();
    let digits: String = peak.chars().filter(char::is_ascii_digit).collect();
    let kilobytes: u64 = digits.parse().unwrap();
    let times = kilobytes / (MEGABYTES * 1000);
    assert!(times < 13, "{peak}: {times} times its size");
}

//! Measures the cost of a step; run with `cargo test --release -- --ignored --nocapture overhead`.

use std::process::Command;
use std::time::{Duration, Instant};

use super::*;

const RUNS: usize = 300;

fn median(mut times: Vec<Duration>) -> Duration {
    times.sort_unstable();
    times[times.len() / 2]
}

fn bare() -> Duration {
    let started = Instant::now();
    Command::new("/bin/sh")
        .args(["-c", "true"])
        .spawn()
        .unwrap()
        .wait()
        .unwrap();
    started.elapsed()
}

#[tokio::test]
#[ignore = "a measurement"]
async fn overhead() {
    for ballast in [0, 64, 256] {
        // Resident memory, as in a host with compiled plugins.
        let memory = vec![1_u8; ballast << 20];
        let mut executor = LocalExecutor::new(settings());
        let (mut ours, mut bares) = (Vec::new(), Vec::new());
        // Alternating, so that both are measured under the same load.
        for _ in 0..RUNS {
            bares.push(bare());
            let started = Instant::now();
            assert_eq!(run(&mut executor, "true").await.returncode, 0);
            ours.push(started.elapsed());
        }
        let (ours, bares) = (median(ours), median(bares));
        let over = ours.saturating_sub(bares);
        eprintln!(
            "with {ballast} MiB: execute {ours:?}, bare {bares:?}, over {over:?} (limit 150µs)"
        );
        let started = Instant::now();
        executor.cleanup().await;
        eprintln!("  cleanup {:?}", started.elapsed());
        drop(memory);
    }
}

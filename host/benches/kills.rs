//! Kills 1,000 hosts at random moments, in every kind of environment of this machine.
//!
//! `cargo bench --bench kills`; `MSWEA_KILLS` sets another number.

#![allow(clippy::unwrap_used, reason = "a benchmark that can't measure ends")]

#[path = "../../tests/behaviour/kills.rs"]
mod kills;
#[path = "../../tests/behaviour/needs.rs"]
#[allow(dead_code, reason = "the tests use the rest")]
mod needs;
#[path = "../../tests/behaviour/processes.rs"]
#[allow(dead_code, unused_imports, reason = "the tests use the rest")]
mod processes;
mod shared;

use std::path::Path;
use std::process::ExitCode;

use needs::Need;
use shared::{Samples, Table};

fn main() -> ExitCode {
    let mut classes = vec!["local", "session", "remote"];
    let mut table = Table::new("1,000 random kills: SIGINT, SIGTERM, SIGKILL of the host");
    for (need, class) in [
        (Need::Docker, "docker"),
        (Need::Bubblewrap, "bubblewrap"),
        (Need::Landlock, "landlock"),
    ] {
        if need.is_met() {
            classes.push(class);
        } else {
            table.note(format!("LEFT OUT: {class}"));
        }
    }
    let rounds = std::env::var("MSWEA_KILLS").ok();
    let rounds = rounds.and_then(|text| text.parse().ok()).unwrap_or(1000);
    let progress = |killed: usize| {
        if killed.is_multiple_of(50) {
            shared::note(&format!("{killed} of {rounds}"));
        }
    };
    let report = kills::soak(Path::new(shared::ship::PLAIN), rounds, &classes, &progress);
    #[allow(clippy::cast_precision_loss)] // thousands
    for (name, value, limit) in [
        ("kills", report.rounds, None),
        ("of these before there was a journal", report.early, None),
        ("replies that were recorded", report.replies, None),
        ("containers left", report.containers, Some(0.0)),
        ("processes left", report.processes, Some(0.0)),
        ("folders left", report.folders, Some(0.0)),
        ("events shown and not recorded", report.events, Some(0.0)),
    ] {
        let value = Samples::from(value as f64);
        match limit {
            Some(limit) => table.limited(name, "", &value, limit),
            None => table.noted(name, "", &value),
        }
    }
    for fault in report.faults {
        table.note(fault);
    }
    table.finish()
}

//! The directory of a large batch: the time to open its manifest, and to look at its results.
//!
//! `cargo bench --bench batches`

#![allow(clippy::unwrap_used, reason = "a benchmark that can't measure ends")]

mod shared;

use std::fmt::Write as _;
use std::fs;
use std::path::Path;
use std::process::{Command, ExitCode, Stdio};

use mswea_host::batch::BatchFolder;
use shared::ship::PLAIN;
use shared::{Samples, Table, timed};

const LINES: usize = 100_000;
const FINISHED: usize = 10_000;
const ROUNDS: usize = 5;
/// The limit of both, in milliseconds.
const LIMIT: f64 = 1000.0;

fn main() -> ExitCode {
    let root = tempfile::tempdir().unwrap();
    let (large, finished) = (root.path().join("large"), root.path().join("finished"));
    manifest(&large, LINES);
    manifest(&finished, FINISHED);
    for number in 0..FINISHED {
        let folder = finished.join(id(number));
        fs::create_dir(&folder).unwrap();
        fs::write(folder.join("result.json"), result(number)).unwrap();
    }
    let (mut opening, mut status) = (Samples::default(), Samples::default());
    for _ in 0..ROUNDS {
        let (folder, took) = timed(|| BatchFolder::open(&large).unwrap());
        assert_eq!(folder.instances().len(), LINES);
        opening.add_millis(took);
        let (output, took) = timed(|| {
            let mut command = Command::new(PLAIN);
            let command = command.args(["batch", "status"]).arg(&finished);
            command.stdin(Stdio::null()).output().unwrap()
        });
        let text = String::from_utf8(output.stdout).unwrap();
        assert!(text.starts_with("10000 of 10000 instances"), "{text}");
        status.add_millis(took);
    }
    let mut table = Table::new("batches");
    table.limited("a manifest of 100,000 lines", "ms", &opening, LIMIT);
    table.limited("`batch status` of 10,000 results", "ms", &status, LIMIT);
    table.finish()
}

fn id(number: usize) -> String {
    format!("project__project-{number}")
}

fn manifest(folder: &Path, lines: usize) {
    fs::create_dir(folder).unwrap();
    let task = "The function returns a wrong value for an empty list. ".repeat(20);
    let mut text = String::new();
    for number in 0..lines {
        let line = serde_json::json!({"id": id(number), "task": task, "image": "image:1"});
        let _ = writeln!(text, "{line}");
    }
    fs::write(folder.join("manifest.jsonl"), text).unwrap();
}

fn result(number: usize) -> String {
    let result = serde_json::json!({
        "instance_id": id(number),
        "exit_status": "Submitted",
        "submission": "+a changed line of a file\n".repeat(60),
        "cost": 0.25,
        "steps": 30,
        "usage": {"input_tokens": 100_000, "output_tokens": 5_000},
        "seconds": 120.5,
        "attempts": 1,
        "run_id": "19a7b2c-1-0",
    });
    result.to_string()
}

//! Measures a comparison on a thousand recorded steps.

use std::time::Duration;

use super::super::testing;
use super::tests::{compare, last};
use super::*;
use mswea_core::Event;
use mswea_record::journal::JournalFile;

/// `cargo test --release -- --ignored --nocapture figures_of_diff`
#[test]
#[ignore = "prints measurements and checks nothing"]
fn figures_of_diff() {
    let folder = tempfile::tempdir().unwrap();
    for run in 0..20 {
        let path = folder.path().join(format!("{run}.events.jsonl"));
        let journal = JournalFile::create(path).unwrap();
        testing::record_run(&journal, &format!("run-{run}"), 50, 4_000);
        mswea_core::Journal::record(
            &journal,
            &Event::PluginFault {
                plugin: "p".into(),
                message: "m".into(),
            },
        )
        .unwrap();
    }
    let started = Instant::now();
    let runs = RecordedRuns::load(&[folder.path().to_path_buf()]).unwrap();
    println!("read 1,000 steps in {:?}", started.elapsed());
    let spin = |micros: u64| {
        let until = Instant::now() + Duration::from_micros(micros);
        while Instant::now() < until {}
    };
    let busy = move || {
        testing::parser(move |reply| {
            spin(20);
            Ok(testing::plain_parse(&reply))
        })
    };
    let found = compare(
        busy,
        busy,
        RoleKind::ActionParser,
        &runs,
        &DiffOptions::default(),
    )
    .unwrap();
    println!(
        "parsers of 20 µs: {:?} on {} threads",
        found.elapsed, found.threads
    );
    let found = compare(
        last(40),
        last(20),
        RoleKind::HistoryProcessor,
        &runs,
        &DiffOptions::default(),
    )
    .unwrap();
    println!(
        "processors: {:?}, {} disagreements",
        found.elapsed,
        found.disagreements()
    );
    let started = Instant::now();
    let sizes = (found.to_html().len(), found.to_json().to_string().len());
    println!("reports {sizes:?} bytes in {:?}", started.elapsed());
}

//! Runs the example, and checks the files of every run.

use std::collections::BTreeSet;
use std::error::Error;
use std::fs;
use std::process::Command;

use serde_json::Value;

#[test]
fn a_hundred_runs_have_each_a_folder_a_journal_and_a_trajectory() -> Result<(), Box<dyn Error>> {
    let folder = tempfile::tempdir()?;
    let home = folder.path().join("home");
    let out = folder.path().join("out");
    let run = Command::new(env!("CARGO_BIN_EXE_embed"))
        .arg("100")
        .arg(&out)
        .env_clear()
        .env("PATH", std::env::var_os("PATH").unwrap_or_default())
        .env("HOME", &home)
        .current_dir(folder.path())
        .output()?;
    let printed = String::from_utf8(run.stdout)?;
    let errors = String::from_utf8_lossy(&run.stderr);
    assert!(run.status.success(), "{printed}\n{errors}");
    let lines: Vec<&str> = printed.lines().collect();
    assert_eq!(lines.len(), 101, "{printed}\n{errors}");
    assert!(lines[100].starts_with("100 runs in "), "{}", lines[100]);
    assert!(lines[100].ends_with(" s: 100 Submitted"), "{}", lines[100]);
    let mut ids = BTreeSet::new();
    for number in 0..100 {
        let place = out.join(number.to_string());
        assert_eq!(
            fs::read_to_string(place.join("number"))?,
            format!("{number}\n")
        );
        let trajectory: Value =
            serde_json::from_slice(&fs::read(place.with_extension("traj.json"))?)?;
        assert_eq!(trajectory["info"]["submission"], format!("{number}\n"));
        assert_eq!(trajectory["info"]["mswea"]["complete"], true);
        let journal = fs::read_to_string(place.with_extension("events.jsonl"))?;
        let first: Value = serde_json::from_str(journal.lines().next().unwrap_or_default())?;
        ids.insert(first["run_id"].as_str().unwrap_or_default().to_owned());
    }
    assert_eq!(ids.len(), 100);
    Ok(())
}

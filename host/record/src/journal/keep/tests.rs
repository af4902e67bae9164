//! Journals that commands damage, and their state afterwards.

use std::fs;
use std::os::unix::fs::FileExt as _;
use std::process::Command;

use super::*;
use crate::journal::{Event, read};
use mswea_core::Journal;

fn query(query: u32) -> Event {
    Event::QueryStarted { query, view: None }
}

fn spot(path: &Path) -> Arc<Spot> {
    Arc::new(Spot::later(path))
}

/// Does `harm` to a journal of three events in a repository, and goes on.
#[track_caller]
fn after(harm: &str, copy: bool, in_place: bool) {
    let folder = tempfile::tempdir().unwrap();
    let state = tempfile::tempdir().unwrap();
    let run = |script: &str| {
        let output = Command::new("sh")
            .args(["-c", script])
            .env("GIT_CONFIG_GLOBAL", "/dev/null")
            .current_dir(folder.path())
            .output()
            .unwrap();
        assert!(output.status.success(), "{script}: {output:?}");
    };
    run(
        "git init -q . && echo x >x && git add x && git -c user.name=n -c user.email=e commit -qm 1",
    );
    let home = folder.path().join("out.events.jsonl");
    let mut journal = JournalFile::create(&home).unwrap();
    if copy {
        journal = journal.with_copy(state.path());
    }
    let elsewhere = state.path().join("runs/id.events.jsonl");
    for number in 1..=3 {
        journal.record(&query(number)).unwrap();
        assert_eq!(
            journal.check(&spot(&elsewhere)).unwrap(),
            JournalChange::None
        );
    }
    journal.mark();
    run(&format!(
        "git() {{ command git -c user.name=n -c user.email=e \"$@\"; }}; {harm}"
    ));
    let expected = match in_place {
        true => JournalChange::Restored,
        false => JournalChange::Elsewhere(elsewhere.clone()),
    };
    assert_eq!(
        journal.check(&spot(&elsewhere)).unwrap(),
        expected,
        "{harm}"
    );
    journal.record(&query(4)).unwrap();
    // The used copy is complete at any time.
    assert_eq!(read(&journal.path()).unwrap().last_seq, 4, "{harm}");
    assert_eq!(journal.log().unwrap().last_seq, 4, "{harm}");
    // Another run still can't take it.
    assert!(JournalFile::create(journal.path()).is_err());
    journal.bring_home().unwrap();
    journal.record(&query(5)).unwrap();
    assert_eq!(read(&home).unwrap().last_seq, 5, "{harm}");
    assert!(!elsewhere.exists(), "{harm}");
    assert_eq!(journal.path(), home);
}

#[test]
fn commands_that_take_the_file() {
    for copy in [true, false] {
        for harm in [
            "git stash -qu && git stash pop -q",
            "sed -i s/query/other/ out.events.jsonl",
            "mv out.events.jsonl a && echo b >out.events.jsonl",
            "rm out.events.jsonl && mkfifo out.events.jsonl",
            "ln -sf x out.events.jsonl",
        ] {
            after(harm, copy, true);
        }
        for harm in [
            "git clean -qfdx",
            "mv out.events.jsonl away",
            "git stash -qu",
            "rm -r \"$PWD\"",
        ] {
            after(harm, copy, false);
        }
    }
}

#[test]
fn commands_that_write_into_the_file() {
    for harm in [
        ": >out.events.jsonl",
        // Of the same length, and with the old time of change.
        "touch -r out.events.jsonl t; sed s/query/QUERY/ out.events.jsonl >x; cat x 1<>out.events.jsonl; touch -r t out.events.jsonl",
        "echo more >>out.events.jsonl",
        "head -c 20 out.events.jsonl >x && cat x >out.events.jsonl",
    ] {
        after(harm, true, true);
    }
}

/// What was put aside comes back while the run goes on: it is brought up to date.
#[test]
fn a_journal_that_was_put_aside_goes_home_with_the_rest() {
    let folder = tempfile::tempdir().unwrap();
    let (home, elsewhere) = (folder.path().join("j"), folder.path().join("e"));
    let journal = JournalFile::create(&home).unwrap();
    journal.record(&query(1)).unwrap();
    fs::rename(&home, folder.path().join("aside")).unwrap();
    let changed = journal.check(&spot(&elsewhere)).unwrap();
    assert_eq!(changed, JournalChange::Elsewhere(elsewhere.clone()));
    journal.record(&query(2)).unwrap();
    assert_eq!(
        journal.check(&spot(&elsewhere)).unwrap(),
        JournalChange::None
    );
    fs::rename(folder.path().join("aside"), &home).unwrap();
    assert_eq!(
        journal.check(&spot(&elsewhere)).unwrap(),
        JournalChange::Restored
    );
    assert_eq!(read(&home).unwrap().last_seq, 2);
    assert!(!elsewhere.exists());
}

#[test]
fn without_a_copy_what_was_written_into_it_is_told() {
    let folder = tempfile::tempdir().unwrap();
    let home = folder.path().join("j");
    let journal = JournalFile::create(&home).unwrap();
    journal.record(&query(1)).unwrap();
    journal.mark();
    fs::write(&home, "").unwrap();
    let error = journal.check(&spot(&folder.path().join("e"))).unwrap_err();
    assert!(error.to_string().contains("no copy of it"), "{error}");
}

/// What a process in the background writes between two commands has no mark before it. It is seen
/// at the end, which compares the file with the copy.
#[test]
fn at_the_end_the_whole_file_is_compared() {
    // The copy is in memory, or also in a file.
    for size in [1, 100_000] {
        let folder = tempfile::tempdir().unwrap();
        let home = folder.path().join("j");
        let state = tempfile::tempdir().unwrap();
        let journal = JournalFile::create(&home).unwrap().with_copy(state.path());
        // A command removes the state folder.
        drop(state);
        journal.record(&query(1)).unwrap();
        let fault = Event::PluginFault {
            plugin: "p".to_owned(),
            message: "x".repeat(size),
        };
        journal.record(&fault).unwrap();
        let text = fs::read_to_string(&home).unwrap();
        let file = OpenOptions::new().write(true).open(&home).unwrap();
        let changed = text.replace("query", "QUERY");
        file.write_all_at(changed.as_bytes(), 0).unwrap();
        journal.record(&query(2)).unwrap();
        assert_eq!(journal.log().unwrap().last_seq, 3);
        journal.bring_home().unwrap();
        let whole = fs::read_to_string(&home).unwrap();
        assert!(whole.starts_with(&text));
        assert_eq!(read(&home).unwrap().last_seq, 3);
    }
}

//! What reaches the file, what is read back, and in which state.

use std::fs;

use serde_json::json;

use super::*;
use crate::journal::Reopened;
use crate::journal::{JournalError, Log, read, read_bytes};
use mswea_core::{Action, Message, Output, Reply};

fn message(text: &str) -> Event {
    Event::Message {
        message: Message::new("user", text),
    }
}

fn events(log: &Log) -> Vec<Event> {
    log.records
        .iter()
        .map(|record| record.event.clone())
        .collect()
}

fn sample() -> Vec<Event> {
    vec![
        Event::RunStarted {
            format: crate::journal::FORMAT.into(),
            run_id: "r".into(),
            host_version: "0.1.0".into(),
            task: "t\u{2028}é😀\u{0}\n".into(),
            config: json!({"agent": {"step_limit": 0, "cost_limit": 3.0}}),
            plugins: json!([]),
            parent: None,
        },
        message("hi"),
        Event::QueryStarted {
            query: 1,
            view: None,
        },
        Event::Reply {
            reply: Reply {
                message: Message::new("assistant", "x"),
                response: Some(json!({"f": 0.1, "g": 1e-7, "h": 123456789.12345679, "n": null})),
                ..Reply::default()
            },
            cost: Some(0.1 + 0.2),
            timestamp: 1_763_711_263.123_456_7,
        },
        Event::Accepted {
            actions: vec![Action {
                command: "ls".into(),
                ..Action::default()
            }],
        },
        Event::Output {
            index: 0,
            output: Output {
                output: "o".repeat(3000),
                ..Output::default()
            },
            timestamp: 2.0,
        },
    ]
}

#[test]
fn events_survive_the_file() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a/b/events.jsonl");
    let journal = JournalFile::create(&path).unwrap();
    for event in sample() {
        journal.record(&event).unwrap();
    }
    let text = fs::read_to_string(&path).unwrap();
    assert_eq!(text.lines().count(), sample().len());
    assert!(text.starts_with("{\"seq\":1,\"t\":1"), "{text}");
    assert!(
        text.lines()
            .nth(2)
            .unwrap()
            .ends_with(",\"event\":\"query_started\",\"query\":1}")
    );
    let log = read(&path).unwrap();
    assert_eq!(events(&log), sample());
    assert_eq!(
        (log.torn.clone(), log.len, log.last_seq),
        (None, text.len() as u64, 6)
    );
    assert!(log.records.windows(2).all(|pair| pair[0].t <= pair[1].t));
}

/// Whatever byte a kill or a full disk ends the file at: everything before is there, the rest
/// is reported, and a resumed journal is whole again.
#[test]
fn torn_at_every_byte() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("events.jsonl");
    let journal = JournalFile::create(&path).unwrap();
    let mut all = sample();
    all.truncate(4);
    all.push(message("é😀 \\ \" \n"));
    for event in &all {
        journal.record(event).unwrap();
    }
    drop(journal);
    let whole = fs::read(&path).unwrap();
    let start = whole[..whole.len() - 1]
        .iter()
        .rposition(|byte| *byte == b'\n')
        .unwrap()
        + 1;
    for cut in start..=whole.len() {
        let log = read_bytes(&whole[..cut]).unwrap();
        let has_last = cut + 1 >= whole.len();
        let kept = if has_last {
            &all[..]
        } else {
            &all[..all.len() - 1]
        };
        assert_eq!(events(&log), kept, "cut at {cut}");
        assert_eq!(log.torn.is_some(), cut > start && !has_last);
        if let Some(torn) = &log.torn {
            assert_eq!((torn.line, torn.bytes), (all.len(), cut - start));
        }
        fs::write(&path, &whole[..cut]).unwrap();
        let (reopened, again) = Reopened::open(&path).unwrap();
        assert_eq!(again, log);
        assert_eq!(
            fs::read(&path).unwrap(),
            &whole[..cut],
            "nothing is changed yet"
        );
        let journal = reopened.begin().unwrap().with_copy(folder.path());
        journal.record(&message("next")).unwrap();
        let log = read(&path).unwrap();
        assert_eq!(log.torn, None);
        assert_eq!(
            events(&log),
            [kept, &[message("next")]].concat(),
            "cut at {cut}"
        );
        assert_eq!(log.last_seq, kept.len() as u64 + 1);
    }
}

#[test]
fn damage_is_told_from_a_torn_end() {
    let line =
        |seq: u64| format!("{{\"seq\":{seq},\"t\":1.0,\"event\":\"query_started\",\"query\":1}}\n");
    let (one, two, three) = (line(1), line(2), line(3));
    // zeros and invalid UTF-8 at the end, as after a power cut
    for tail in [
        &b"\0\0\0\0\n"[..],
        b"\0\0",
        b"\xff\xfe",
        b"{\"seq\":3,\"t\"",
        b"{}\n",
    ] {
        let log = read_bytes(&[one.as_bytes(), two.as_bytes(), tail].concat()).unwrap();
        assert_eq!(
            (log.records.len(), log.torn.map(|torn| torn.line)),
            (2, Some(3))
        );
    }
    for (text, expected) in [
        (
            format!("{one}garbage\n{three}"),
            "line 2 of the journal is damaged",
        ),
        (
            format!("{one}{}\n{three}", &two[..20]),
            "line 2 of the journal is damaged",
        ),
        (format!("{one}\n{two}"), "line 2 of the journal is damaged"),
        (
            format!("{one}{three}"),
            "line 2 of the journal has number 3 where 2 was due",
        ),
        (
            format!("{one}{two}{two}"),
            "line 3 of the journal has number 2 where 3 was due",
        ),
        (
            format!("{one}{{\"seq\":2,\"t\":1.0,\"event\":\"message\"}}\n"),
            "line 2 of the journal is damaged: event `message`: missing field `message`",
        ),
    ] {
        let error = read_bytes(text.as_bytes()).unwrap_err().to_string();
        assert!(error.starts_with(expected), "{error}");
    }
    assert_eq!(read_bytes(b"").unwrap(), Log::default());
    let error = read(Path::new("/nonexistent/x")).unwrap_err().to_string();
    assert!(
        error.starts_with("can't read the journal `/nonexistent/x`: "),
        "{error}"
    );
}

#[test]
fn events_of_later_versions_are_skipped() {
    let text = "{\"seq\":1,\"t\":1.0,\"event\":\"teleported\",\"to\":{\"x\":1}}\n\
                {\"seq\":2,\"t\":1.0,\"event\":\"query_started\",\"query\":1,\"later\":true}\n\
                {\"event\":\"qu\\u0065ry_started\",\"query\":2,\"t\":2,\"seq\":3}\n";
    let log = read_bytes(text.as_bytes()).unwrap();
    assert_eq!(
        events(&log),
        [
            Event::QueryStarted {
                query: 1,
                view: None
            },
            Event::QueryStarted {
                query: 2,
                view: None
            }
        ]
    );
    assert_eq!(log.unknown.len(), 1);
    assert_eq!(
        (log.unknown[0].seq, log.unknown[0].kind.as_str()),
        (1, "teleported")
    );
    assert_eq!(log.last_seq, 3);
}

#[test]
fn earlier_journals_are_kept_aside() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("events.jsonl");
    for text in ["first", "second", "third"] {
        let journal = JournalFile::create(&path).unwrap();
        journal.record(&message(text)).unwrap();
    }
    // An empty one is no record: a run that was refused leaves none.
    drop(JournalFile::create(&path).unwrap());
    drop(JournalFile::create(&path).unwrap());
    for (name, expected) in [
        ("events.jsonl.1", &[message("first")][..]),
        ("events.jsonl.2", &[message("second")]),
        ("events.jsonl.3", &[message("third")]),
        ("events.jsonl", &[]),
    ] {
        let log = read(&folder.path().join(name)).unwrap();
        assert_eq!(events(&log), expected, "{name}");
    }
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 4);

    // A run that is refused after it has taken the name leaves no trace.
    let last = folder.path().join("events.jsonl.3");
    let before = (
        fs::read(&last).unwrap(),
        fs::metadata(&last).unwrap().modified().unwrap(),
    );
    JournalFile::claim(&last).unwrap().release();
    JournalFile::claim(folder.path().join("new"))
        .unwrap()
        .release();
    let after = (
        fs::read(&last).unwrap(),
        fs::metadata(&last).unwrap().modified().unwrap(),
    );
    assert_eq!(before, after);
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 4);
}

/// Two runs with the same output: the second is refused, and the first one's journal stays
/// where it is.
#[test]
fn a_journal_is_not_taken_from_a_run() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("events.jsonl");
    let first = JournalFile::create(&path).unwrap();
    for text in ["one", "two"] {
        let error = JournalFile::create(&path).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::WouldBlock);
        assert!(
            error
                .to_string()
                .starts_with("another run is writing to the journal `"),
            "{error}"
        );
        first.record(&message(text)).unwrap();
    }
    let log = read(&path).unwrap();
    assert_eq!(events(&log), [message("one"), message("two")]);
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
}

/// However many start at once: one has the name, and nothing is lost.
#[test]
fn one_of_many_gets_the_journal() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("events.jsonl");
    for round in 0..20 {
        let barrier = std::sync::Barrier::new(4);
        let made: Vec<_> = std::thread::scope(|scope| {
            let threads: Vec<_> = (0..4)
                .map(|_| {
                    scope.spawn(|| {
                        barrier.wait();
                        let journal = JournalFile::create(&path).ok()?;
                        journal.record(&message("x")).unwrap();
                        Some(journal)
                    })
                })
                .collect();
            threads
                .into_iter()
                .filter_map(|thread| thread.join().unwrap())
                .collect()
        });
        assert_eq!(made.len(), 1, "round {round}");
        assert_eq!(read(&path).unwrap().records.len(), 1, "round {round}");
    }
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 20);
}

#[test]
fn unwritable_places_are_named() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("file");
    fs::write(&file, "").unwrap();
    for path in [file.join("events.jsonl"), folder.path().to_owned()] {
        let error = JournalFile::create(&path).unwrap_err().to_string();
        assert!(
            error.starts_with(&format!("can't write the journal `{}`: ", path.display())),
            "{error}"
        );
    }
}

/// `/dev/full` takes nothing: the error says what to do, and nothing is counted as written.
#[test]
fn a_full_disk_is_an_error() {
    let full = OpenOptions::new().append(true).open("/dev/full").unwrap();
    let journal = JournalFile::at(Arc::new(Spot::later(Path::new("/dev/full"))), full, 0, 0);
    let error = journal.record(&message("x")).unwrap_err();
    assert_eq!(error.kind(), io::ErrorKind::StorageFull);
    assert!(error.to_string().ends_with("; free some space"), "{error}");
    assert_eq!(journal.inner.lock().unwrap().seq, 0);
    assert!(journal.record(&message("x")).is_err());
}

#[test]
fn threads_share_a_journal() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("events.jsonl");
    let journal = JournalFile::create(&path).unwrap();
    std::thread::scope(|scope| {
        for thread in 0..4 {
            let journal = &journal;
            scope.spawn(move || {
                for index in 0..100 {
                    journal
                        .record(&message(&format!("{thread} {index}")))
                        .unwrap();
                }
            });
        }
    });
    assert_eq!(read(&path).unwrap().records.len(), 400);
}

/// The limit of a small event is 10 µs; this only keeps it from growing out of all proportion
/// on a busy machine in a debug build.
#[test]
fn recording_is_quick() {
    let folder = tempfile::tempdir().unwrap();
    let journal = JournalFile::create(folder.path().join("events.jsonl")).unwrap();
    let event = message("a small one");
    let start = std::time::Instant::now();
    for _ in 0..2000 {
        journal.record(&event).unwrap();
    }
    let each = start.elapsed() / 2000;
    println!("one event: {each:?}");
    assert!(each.as_micros() < 500, "{each:?}");
}

#[test]
fn a_journal_of_another_version_is_refused_by_name() {
    let line = |format: &str| {
        let line = serde_json::json!({"seq": 1, "t": 1.0, "event": "run_started",
            "format": format, "host_version": "9.1.0", "all": "else", "is": ["different"]});
        format!("{line}\n")
    };
    for format in ["mswea-journal-3", "mswea-journal-1", "x"] {
        let error = read_bytes(line(format).as_bytes()).unwrap_err();
        let text = error.to_string();
        let version = env!("CARGO_PKG_VERSION");
        let helps = ["use mswea-host 9.1.0", "start the run anew"];
        for part in [format, "mswea-journal-2", version].iter().chain(&helps) {
            assert!(text.contains(part), "{part}: {text}");
        }
    }
    // That this one has other fields is damage.
    let error = read_bytes(line("mswea-journal-2").as_bytes()).unwrap_err();
    assert!(error.to_string().contains("line 1"), "{error}");
}

#[test]
fn only_one_process_goes_on_with_a_journal() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("r.events.jsonl");
    let first = JournalFile::create(&path).unwrap();
    first.record(&message("one")).unwrap();
    let error = Reopened::open(&path).unwrap_err();
    assert!(matches!(error, JournalError::Locked { .. }), "{error}");
    drop(first);
    let (held, _) = Reopened::open(&path).unwrap();
    let error = Reopened::open(&path).unwrap_err().to_string();
    assert!(error.contains("still goes on"), "{error}");
    drop(held);
    assert_eq!(read(&path).unwrap().records.len(), 1);
}

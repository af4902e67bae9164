//! `runs repair` writes the trajectory of a killed run; where it can't, it says why.

use std::fs;
use std::path::Path;

use mswea_host::journal;
use mswea_host::record::trajectory;
use mswea_host::run::fold;
use scripted_server::{Fault, Turn};
use serde_json::Value;

use crate::host::{Host, Signal};
use crate::run::Run;
use crate::story::turns;

/// A run that was killed after its first step, and has no trajectory any more.
fn killed() -> Run {
    let server = turns([Turn::commands(&["echo one"]), Turn::fault(Fault::Silence)]);
    let mut running = Host::new().server(&server).task("x").spawn();
    running.until("the second query", |_| server.served() == 2);
    running.signal(Signal::KILL);
    let run = running.wait();
    fs::remove_file(run.dir.join("traj.json")).unwrap();
    run
}

fn repair(path: &Path) -> Run {
    Host::new().args(["runs", "repair"]).arg(path).run()
}

fn read(path: &Path) -> Value {
    serde_json::from_slice(&fs::read(path).unwrap()).unwrap()
}

#[test]
fn the_trajectory_of_a_killed_run_is_written() {
    let run = killed();
    let (made, recorded) = (run.dir.join("traj.json"), run.dir.join("traj.events.jsonl"));
    let log = journal::read(&recorded).unwrap();
    let mut expected = fold(&log.records).into_trajectory();
    trajectory::set_journal(&mut expected, Path::new("traj.events.jsonl"));
    for named in [&recorded, &made, &run.dir] {
        let told = repair(named).expect(0);
        assert!(
            told.stdout.starts_with("wrote `") && told.stdout.contains("its host was killed"),
            "{told}"
        );
        assert_eq!(read(&made), expected);
        let told = repair(named).expect(0);
        assert!(told.stdout.starts_with("nothing to repair in `"), "{told}");
        fs::remove_file(&made).unwrap();
    }

    // The last line, which the host was writing when it was killed, is cut off.
    let mut bytes = fs::read(&recorded).unwrap();
    bytes.extend(b"{\"seq\":99,\"t\":1.0,\"eve");
    fs::write(&recorded, &bytes).unwrap();
    let told = repair(&recorded).expect(0);
    assert!(told.stdout.contains("is cut off after 22 bytes"), "{told}");
    assert_eq!(read(&made), expected);

    // A file in the trajectory's place is moved aside.
    for (text, aside) in [("{\"info\": 1}", "traj.json.1"), ("no JSON", "traj.json.2")] {
        fs::write(&made, text).unwrap();
        let told = repair(&recorded).expect(0);
        assert!(told.stdout.contains(aside), "{told}");
        assert_eq!(fs::read_to_string(run.dir.join(aside)).unwrap(), text);
        assert_eq!(read(&made), expected);
    }
    // A journal that a later run has moved aside.
    fs::rename(&recorded, run.dir.join("traj.events.jsonl.7")).unwrap();
    repair(&run.dir.join("traj.events.jsonl.7")).expect(0);
    assert_eq!(
        read(&run.dir.join("traj.json.7"))["messages"],
        expected["messages"]
    );
}

/// The file's name, its content, parts of the message.
type Vector<'a> = (&'a str, Option<&'a [u8]>, &'a [&'a str]);

#[test]
fn what_can_not_be_repaired_is_refused_with_a_reason() {
    let run = killed();
    let folder = tempfile::tempdir().unwrap();
    let whole = fs::read(run.dir.join("traj.events.jsonl")).unwrap();
    let text = String::from_utf8(whole.clone()).unwrap();
    let second = text.lines().nth(1).unwrap();
    let mut damaged = whole.clone();
    let middle = damaged.iter().position(|byte| *byte == b'\n').unwrap() + 3;
    damaged[middle] = b'}';
    let headless = second.replace("\"seq\":2", "\"seq\":1");
    let vectors: [Vector<'_>; 8] = [
        ("gone", None, &["neither a file `", "nor its journal `"]),
        ("g.events.jsonl", None, &["can't read the journal `"]),
        ("", None, &["no journal is in the folder"]),
        (
            "a.traj.json",
            Some(b"{}"),
            &["is not a journal", "a.events.jsonl` does not exist"],
        ),
        ("e.events.jsonl", Some(b""), &["nothing was recorded"]),
        (
            "o.events.jsonl",
            Some(b"{\"a\": 1}\n{\"b\": 2}\n"),
            &["line 1 of the journal is damaged"],
        ),
        (
            "d.events.jsonl",
            Some(&damaged),
            &["line 2 of the journal is damaged"],
        ),
        (
            "s.events.jsonl",
            Some(headless.as_bytes()),
            &["does not begin with `run_started`"],
        ),
    ];
    for (name, bytes, parts) in vectors {
        let path = folder.path().join(name);
        if let Some(bytes) = bytes {
            fs::write(&path, bytes).unwrap();
        }
        repair(&path).expect(1).says(parts);
        let left = fs::read_dir(folder.path()).unwrap().count();
        assert_eq!(left, usize::from(bytes.is_some()), "{name}");
        let _ = fs::remove_file(&path);
    }
    Host::new().args(["runs", "repair"]).run().expect(2);

    let server = turns([Turn::fault(Fault::Silence)]);
    let mut running = Host::new().server(&server).task("x").spawn();
    running.until("the query", |_| server.served() > 0);
    repair(&running.dir().join("traj.json"))
        .expect(1)
        .says(&["is still running"]);
}

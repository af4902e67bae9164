//! Tests with real processes of made-up runs, and of a host that was killed.

use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

use super::*;
use crate::tests::{bubblewrap, context};
use crate::{BubblewrapExecutor, BubblewrapSettings, LocalExecutor, LocalSettings};
use mswea_core::{Command as Action, Executor, Stop};

/// A run id of the program's form that no other test has.
fn run_of(pid: u32) -> String {
    static COUNT: AtomicU32 = AtomicU32::new(0);
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
    let count = COUNT.fetch_add(1, Ordering::Relaxed);
    format!("{:x}-{pid:x}-{count:06x}", now.as_millis())
}

/// The number of a process that does not exist any more.
fn nobody() -> u32 {
    let mut child = Command::new("true").spawn().unwrap();
    child.wait().unwrap();
    child.id()
}

/// Runs a script that ends as soon as its children exist; returns the numbers that it prints.
fn leave(marks: &str, script: &str) -> Vec<i32> {
    let output = Command::new("bash")
        .args(["-c", script])
        .env(RUN_VARIABLE, marks)
        .stdin(Stdio::null())
        .stderr(Stdio::null())
        .output()
        .unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    text.split_whitespace()
        .map(|pid| pid.parse().unwrap())
        .collect()
}

fn is_there(pid: i32) -> bool {
    processes::stat(pid, &mut Vec::new()).is_some_and(|process| !process.is_gone())
}

/// The result for each leftover, by number.
fn fates(leftovers: &[Leftover]) -> BTreeMap<i32, &'static str> {
    let fate = |leftover: &Leftover| {
        let pid = leftover.name.split(' ').next().unwrap().parse().unwrap();
        (pid, leftover.fate.word())
    };
    leftovers.iter().map(fate).collect()
}

/// Kills the processes that a test has not killed.
struct Mess(Vec<i32>);

impl Drop for Mess {
    /// Waits for their end: the next search would still find them.
    fn drop(&mut self) {
        for pid in &self.0 {
            if let Some(process) = processes::stat(*pid, &mut Vec::new()) {
                process.signal(libc::SIGKILL);
            }
        }
        for _ in 0..500 {
            if !self.0.iter().any(|pid| is_there(*pid)) {
                return;
            }
            std::thread::sleep(Duration::from_millis(10));
        }
    }
}

#[test]
fn processes_of_a_dead_host_are_removed() {
    let run = run_of(nobody());
    let mess = Mess(leave(
        &run,
        "sleep 100 >/dev/null & echo $!
         setsid -f bash -c 'echo $$; exec >/dev/null; exec sleep 100'
         bash -c 'trap \"\" TERM INT HUP; echo $$; env -i sleep 100 >/dev/null & echo $!; exec >/dev/null; wait'  &
         sleep 0.3",
    ));
    assert_eq!(mess.0.len(), 4);
    let wanted = |word| {
        mess.0
            .iter()
            .map(|pid| (*pid, word))
            .collect::<BTreeMap<_, _>>()
    };
    let found = remove_leftover_processes_of(&run, true);
    assert_eq!(fates(&found), wanted("found"));
    assert!(mess.0.iter().all(|pid| is_there(*pid)));
    assert!(
        found
            .iter()
            .all(|leftover| leftover.run_id == run && leftover.kind == "process")
    );
    let sleeps = found
        .iter()
        .filter(|leftover| leftover.name.ends_with(" (sleep)"));
    assert_eq!(sleeps.count(), 3, "{found:?}");

    let removed = remove_leftover_processes_of(&run, false);
    assert_eq!(fates(&removed), wanted("removed"));
    assert!(!mess.0.iter().any(|pid| is_there(*pid)));
    assert_eq!(remove_leftover_processes_of(&run, false), []);
}

#[test]
fn processes_that_keep_starting_others_are_removed() {
    let run = run_of(nobody());
    // Each starts a child and ends.
    let script = "f() { (sleep 0.01; f) & }; echo $$; exec >/dev/null; f; sleep 0.1";
    let mess = Mess(leave(&run, script));
    assert_eq!(mess.0.len(), 1);
    let removed = remove_leftover_processes_of(&run, false);
    assert!(!removed.is_empty());
    for _ in 0..20 {
        assert_eq!(remove_leftover_processes_of(&run, true), []);
    }
}

#[test]
fn what_ended_between_two_surveys_is_kept_and_what_was_examined_again_is_not() {
    let me = std::process::id().cast_signed();
    let own = processes::stat(me, &mut Vec::new()).unwrap();
    let numbered = |pid| {
        let mut process = own;
        process.pid = pid;
        process
    };
    let found = |pid| (numbered(pid), "r".to_owned());
    let mut second = Survey {
        found: vec![found(1)],
        left: vec![(numbered(2), "r".to_owned(), "a host".to_owned())],
        in_doubt: false,
    };
    second.keep(vec![found(1), found(2), found(3)]);
    assert_eq!(second.found, [found(1), found(3)]);
}

#[test]
fn processes_that_may_be_of_a_living_run_stay() {
    let (dead, other) = (run_of(nobody()), run_of(nobody()));
    let living = run_of(std::process::id());
    let strange = format!("embedder-{}", std::process::id());
    let reason_of = |marks: &str, run: &str| {
        let mess = Mess(leave(marks, "sleep 100 >/dev/null 2>&1 & echo $!"));
        for dry_run in [true, false] {
            let found = remove_leftover_processes_of(run, dry_run);
            assert_eq!(found.len(), 1, "{marks}: {found:?}");
            if found[0].fate.word() == "left" {
                assert!(is_there(mess.0[0]), "{marks}");
                assert_eq!(found[0].run_id, marks);
            }
            if !dry_run {
                return found[0].fate.reason().to_owned();
            }
        }
        unreachable!()
    };
    let lives = format!("its host lives (process {})", std::process::id());
    for (marks, reason) in [
        (living.clone(), lives.as_str()),
        (format!("{living}:{dead}"), &lives),
        (format!("{dead}:{living}"), &lives),
        (format!("{strange}:{living}"), &lives),
        (strange.clone(), "not a run id of the program"),
        (format!("{strange}:{dead}"), "not a run id of the program"),
        (format!("{dead}:{strange}"), "not a run id of the program"),
        (format!("{dead}:"), "not a run id of the program"),
        (dead.clone(), ""),
        (format!("{dead}:{other}"), ""),
    ] {
        let run = marks.split(':').next().unwrap();
        let got = reason_of(&marks, run);
        assert!(got.contains(reason), "{marks}: {got}");
        assert_eq!(got.is_empty(), reason.is_empty(), "{marks}: {got}");
    }
}

#[test]
fn a_host_among_the_leftovers_stays_with_its_own() {
    let folder = tempfile::tempdir().unwrap();
    let program = folder.path().join("mswea-host");
    let copied = Command::new("cp").arg("/bin/bash").arg(&program).status();
    assert!(copied.unwrap().success());
    let run = run_of(nobody());
    let script = format!(
        "'{}' -c 'echo $$; env -i sleep 100 >/dev/null 2>&1 & echo $!; exec >/dev/null 2>&1; wait' & sleep 0.3",
        program.display()
    );
    let mess = Mess(leave(&run, &script));
    assert_eq!(mess.0.len(), 2);
    let left = remove_leftover_processes_of(&run, false);
    assert_eq!(fates(&left), BTreeMap::from([(mess.0[0], "left")]));
    assert!(left[0].fate.reason().contains("it is a host"), "{left:?}");
    assert!(mess.0.iter().all(|pid| is_there(*pid)));
}

#[test]
fn the_namespace_of_a_process_is_that_of_its_host_if_it_says_so() {
    let here = namespace("self").unwrap();
    let shown = here.display();
    let said = |value: &str| format!("A=b\0{NAMESPACE_VARIABLE}={value}\0").into_bytes();
    // A process that does not exist is in no namespace.
    for (marks, environment, wanted) in [
        ("1", said(&shown.to_string()), true),
        ("1", said("pid:[1]"), false),
        ("1", said(""), false),
        ("1", Vec::new(), false),
        // That of the outer host is not known.
        ("1:2", said(&shown.to_string()), false),
    ] {
        let found = is_near(nobody().cast_signed(), marks, &environment, Some(&here));
        assert_eq!(found, wanted, "{marks} {environment:?}");
    }
    let me = std::process::id().cast_signed();
    assert!(is_near(me, "1:2", &[], Some(&here)));
}

#[test]
fn fates_in_json() {
    let leftover = Leftover {
        kind: "process",
        name: "1 (x)".into(),
        run_id: "r".into(),
        fate: Fate::Left("why".into()),
    };
    assert_eq!(
        serde_json::to_string(&leftover).unwrap(),
        r#"{"kind":"process","name":"1 (x)","run_id":"r","fate":"left","reason":"why"}"#
    );
}

/// The run of the host below, with its number.
fn run_of_host() -> Option<String> {
    std::env::var("MSWEA_TEST_LEFTOVERS").ok()
}

#[tokio::test]
#[ignore = "a role in another test"]
async fn host_body() {
    let Some(chance) = run_of_host() else {
        return;
    };
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
    let run_id = format!("{:x}-{:x}-{chance}", now.as_millis(), std::process::id());
    let settings = LocalSettings {
        run_id: run_id.clone(),
        ..LocalSettings::default()
    };
    let mut executor: Box<dyn Executor> = match std::env::var_os("MSWEA_TEST_SANDBOX") {
        None => Box::new(LocalExecutor::new(settings)),
        Some(_) => {
            let mut executor = BubblewrapExecutor::new(BubblewrapSettings {
                local: settings,
                ..BubblewrapSettings::default()
            });
            executor.start(&context(), None).await.unwrap();
            Box::new(executor)
        }
    };
    let command =
        format!("setsid -f sleep 100 >/dev/null 2>&1; sleep 99 & echo {run_id} >&2; sleep 98");
    // Written directly, past the test runner's capture.
    eprintln!("\nrun {run_id}");
    executor
        .execute(&Action::new(&command), &Stop::never())
        .await;
}

fn start_host(in_sandbox: bool) -> Child {
    let module = module_path!().split_once("::").unwrap().1;
    let mut command = Command::new(std::env::current_exe().unwrap());
    command
        .args([
            "--exact",
            "--ignored",
            "--nocapture",
            &format!("{module}::host_body"),
        ])
        .env(
            "MSWEA_TEST_LEFTOVERS",
            format!("{:06x}", std::process::id()),
        )
        .envs(in_sandbox.then_some(("MSWEA_TEST_SANDBOX", "1")))
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .process_group(0);
    command.spawn().unwrap()
}

#[test]
fn a_host_that_was_killed() {
    is_swept_after(start_host(false), 4);
}

#[test]
fn a_host_that_was_killed_with_process_namespaces() {
    if bubblewrap::has_bubblewrap("a_host_that_was_killed_with_process_namespaces") {
        // The others end with the first process of their namespace, before they are killed.
        is_swept_after(start_host(true), 1);
    }
}

/// Kills the host; its processes are removed then and not before, at least `count` of them by us.
fn is_swept_after(mut host: Child, count: usize) {
    use std::io::{BufRead, BufReader};
    let lines = BufReader::new(host.stderr.take().unwrap()).lines();
    let run = lines
        .map_while(Result::ok)
        .find_map(|line| line.strip_prefix("run ").map(str::to_owned))
        .unwrap();
    let started = Instant::now();
    let three = |word: &str| {
        let found = remove_leftover_processes_of(&run, true);
        let sleeps = found
            .iter()
            .filter(|leftover| leftover.name.ends_with("(sleep)"));
        sleeps
            .filter(|leftover| leftover.fate.word() == word)
            .count()
            == 3
    };
    while !three("left") {
        assert!(started.elapsed() < Duration::from_secs(10));
        std::thread::sleep(Duration::from_millis(5));
    }
    let left = remove_leftover_processes_of(&run, false);
    assert!(
        left.iter()
            .all(|leftover| leftover.fate.reason().contains("its host lives")),
        "{left:?}"
    );
    host.kill().unwrap();
    // Dead, but not reaped yet.
    while !three("found") {
        assert!(started.elapsed() < Duration::from_secs(10));
        std::thread::sleep(Duration::from_millis(5));
    }
    let removed = remove_leftover_processes_of(&run, false);
    assert!(removed.len() >= count, "{removed:?}");
    assert!(
        removed
            .iter()
            .all(|leftover| leftover.fate == Fate::Removed),
        "{removed:?}"
    );
    host.wait().unwrap();
    assert_eq!(remove_leftover_processes_of(&run, true), []);
}

//! Many runs in one process: each ends as if it were alone, whatever happens to the others.

#![allow(clippy::unwrap_used, reason = "a test")]

#[path = "../../../tests/guests/built.rs"]
mod built;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use mswea_config::{Config, HostEnvironment, Layers, Sources};
use mswea_core::{Front, Nobody, Progress, Stop};
use mswea_session::{Done, Job, RunOutcome, Runtime, Unwatched};
use rustix::process::{Resource, getrlimit, setrlimit};
use scripted_server::{Scenario, Server, Turn};
use serde_json::{Value, json};
use tokio::task::JoinSet;

const RUNS: usize = 512;
/// The numbers of the runs that end in another way.
const PANICS: usize = 17;
const HANGS: usize = 255;
const FULL: usize = 400;

/// The variable that is set in the test's own process; its value is the path of the small disk.
const ALONE: &str = "MSWEA_TEST_MANY";

/// 512 connections, pipes and journals need more descriptors than a process usually has, and the
/// small disk a mount namespace: so the test starts itself again, in a process of its own.
#[test]
fn every_run_ends_as_if_it_were_alone() {
    if let Some(full) = std::env::var_os(ALONE) {
        tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .unwrap()
            .block_on(many(Path::new(&full)));
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let full = folder.path().join("full");
    fs::create_dir(&full).unwrap();
    let mount = |command: &str| {
        let user = match rustix::process::geteuid().is_root() {
            true => "-m",
            false => "-rm",
        };
        let script = format!("mount -t tmpfs -o size=64k none \"$1\" && shift && {command}");
        let mut unshare = Command::new("unshare");
        unshare.args([user, "sh", "-c", &script, "sh"]).arg(&full);
        unshare
    };
    let can_mount = mount("true").stderr(Stdio::null()).status();
    let can_mount = can_mount.is_ok_and(|status| status.success());
    let program = std::env::current_exe().unwrap();
    let mut command = match can_mount {
        true => {
            let mut command = mount("exec \"$@\"");
            command.arg(program).env(ALONE, &full);
            command
        }
        // In this case only the trajectory can't be written.
        false => {
            let required = std::env::var("MSWEA_TEST_REQUIRE").unwrap_or_default();
            assert!(
                !required.split_whitespace().any(|name| name == "mounts"),
                "MSWEA_TEST_REQUIRE has `mounts`, but `unshare -m` and `mount` do not work here",
            );
            eprintln!(
                "SKIPPED: a journal on a full disk (`unshare -m` and `mount` do not work here)"
            );
            let mut command = Command::new(program);
            command.env(ALONE, "/dev/full");
            command
        }
    };
    let status = command
        .args([
            "--exact",
            "--nocapture",
            "every_run_ends_as_if_it_were_alone",
        ])
        .env("XDG_STATE_HOME", folder.path().join("state"))
        .stdin(Stdio::null())
        .status()
        .unwrap();
    assert!(status.success(), "{status}");
}

/// The files of one run: its journal without ids, times and the names of its own folder.
#[derive(Debug, PartialEq)]
struct Trace {
    exit_status: String,
    submission: String,
    journal: Vec<Value>,
    trajectory: Value,
}

async fn many(full: &Path) {
    let mut limit = getrlimit(Resource::Nofile);
    limit.current = limit.maximum;
    setrlimit(Resource::Nofile, limit).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let place = Place {
        server: server(),
        folder: folder.path(),
        full,
    };
    let runtime = Arc::new(Runtime::new(None));
    // This run also loads the plugins; the later runs share nothing else with it.
    let alone = place.start(&runtime, RUNS).await.1;
    let alone = place.trace(RUNS, &alone);
    assert_eq!(alone.exit_status, "Submitted");
    assert_eq!(alone.submission, "one\n");

    let mut running = JoinSet::new();
    for number in 0..RUNS {
        running.spawn(place.start(&runtime, number));
    }
    let mut ended = 0;
    while let Some(done) = running.join_next().await {
        let (number, done) = done.unwrap();
        ended += 1;
        match number {
            PANICS => place.panicked(&done),
            HANGS => place.hung(&done),
            FULL => place.could_not_write(&done),
            _ => place.trace(number, &done).is_as(&alone, number),
        }
    }
    assert_eq!(ended, RUNS);
    // The runtime can still be used.
    let again = place.start(&runtime, RUNS + 1).await.1;
    place.trace(RUNS + 1, &again).is_as(&alone, RUNS + 1);
    nothing_is_left();
}

/// Sends the same replies to every run.
fn server() -> Server {
    let turns = [
        Turn::commands(&["echo one >file; cat big 2>/dev/null; seq 300"]),
        Turn::commands(&["cat file; exit 3", "(sleep 300 &)"])
            .with_text("both")
            .with_cost(0.01),
        Turn::commands(&["echo COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT; cat file"]),
    ];
    Server::start(Scenario::new(turns).by_history()).recording(false)
}

struct Place<'a> {
    server: Server,
    folder: &'a Path,
    full: &'a Path,
}

impl Place<'_> {
    fn work(&self, number: usize) -> PathBuf {
        self.folder.join(number.to_string())
    }

    fn output(&self, number: usize) -> PathBuf {
        match number {
            // A device, if there is no small disk.
            FULL if !self.full.is_dir() => self.full.to_owned(),
            FULL => self.full.join("traj.json"),
            _ => self.work(number).with_extension("traj.json"),
        }
    }

    /// A run, ready to be spawned.
    fn start(
        &self,
        runtime: &Arc<Runtime>,
        number: usize,
    ) -> impl Future<Output = (usize, Done)> + Send + 'static {
        let work = self.work(number);
        fs::create_dir(&work).unwrap();
        if number == FULL {
            fs::write(work.join("big"), "x".repeat(200 << 10)).unwrap();
        }
        let config = config(
            &self.server.url(),
            &work,
            &self.output(number),
            number == HANGS,
        );
        let runtime = runtime.clone();
        async move {
            let run_id = mswea_session::new_run_id();
            let job = Job::new("Say what is in the file.", &config, &run_id);
            let front: Arc<dyn Front> = match number {
                PANICS => Arc::new(Faulty),
                _ => Arc::new(Unwatched),
            };
            let done =
                mswea_session::run(&runtime, job, front, Arc::new(Nobody), Stop::never()).await;
            assert_eq!(done.run_id, run_id);
            (number, done)
        }
    }

    /// Checks a run with the expected end, and returns its files.
    #[track_caller]
    fn trace(&self, number: usize, done: &Done) -> Trace {
        assert!(
            matches!(done.outcome, RunOutcome::Ended(_)),
            "{number}: {done:?}"
        );
        let trajectory = done.trajectory.as_ref().unwrap();
        assert_eq!(*trajectory, self.output(number));
        let journal = done.journal.as_ref().unwrap();
        assert_eq!(*journal, self.work(number).with_extension("events.jsonl"));
        let own = self.work(number).display().to_string();
        let read = |path: &Path| fs::read_to_string(path).unwrap().replace(&own, "FOLDER");
        let journal = read(journal);
        let lines = journal
            .lines()
            .map(|line| plain(serde_json::from_str(line).unwrap()));
        let own_number = format!("\"{number}.events");
        let trajectory = read(trajectory).replace(&own_number, "\"N.events");
        Trace {
            exit_status: done.exit_status().to_owned(),
            submission: done.submission().to_owned(),
            journal: lines.collect(),
            trajectory: plain(serde_json::from_str(&trajectory).unwrap()),
        }
    }

    /// Checks that the panic ended this run, and that its record has this end.
    #[track_caller]
    fn panicked(&self, done: &Done) {
        assert_eq!(done.exit_status(), "InternalError", "{done:?}");
        let words = done.error().unwrap();
        assert!(words.contains("this front has a bug"), "{words}");
        let (journal, trajectory) = self.files(done);
        assert_eq!(journal.last().unwrap()["event"], "run_ended");
        assert!(journal.iter().any(|event| event["event"] == "output"));
        assert_eq!(trajectory["info"]["exit_status"], done.exit_status());
        assert_eq!(trajectory["info"]["mswea"]["complete"], true);
    }

    /// Checks that its plugin exceeded its deadline twice in a row, which ended the run.
    #[track_caller]
    fn hung(&self, done: &Done) {
        assert_eq!(done.exit_status(), "PluginError", "{done:?}");
        assert!(done.error().unwrap().contains("hostile"), "{done:?}");
        let (journal, _) = self.files(done);
        let faults = journal
            .iter()
            .filter(|event| event["event"] == "plugin_fault");
        assert_eq!(faults.count(), 2);
    }

    #[track_caller]
    fn could_not_write(&self, done: &Done) {
        if self.full.is_dir() {
            assert_eq!(done.exit_status(), "JournalError", "{done:?}");
            let error = done.error().unwrap();
            assert!(error.contains("No space left on device"), "{error}");
        } else {
            assert_eq!(done.exit_status(), "Submitted", "{done:?}");
            let error = done.trajectory.as_ref().unwrap_err().to_string();
            assert!(error.contains("No space left on device"), "{error}");
        }
    }

    #[track_caller]
    fn files(&self, done: &Done) -> (Vec<Value>, Value) {
        let journal = fs::read_to_string(done.journal.as_ref().unwrap()).unwrap();
        let journal = journal
            .lines()
            .map(|line| serde_json::from_str(line).unwrap());
        let trajectory = fs::read(done.trajectory.as_ref().unwrap()).unwrap();
        (
            journal.collect(),
            serde_json::from_slice(&trajectory).unwrap(),
        )
    }
}

impl Trace {
    /// Compares two runs; fails with the first difference.
    #[track_caller]
    fn is_as(&self, other: &Self, number: usize) {
        assert_eq!(self.exit_status, other.exit_status, "{number}");
        assert_eq!(self.submission, other.submission, "{number}");
        for (own, other) in self.journal.iter().zip(&other.journal) {
            same(
                own,
                other,
                &format!("the journal of {number}, {}", own["event"]),
            );
        }
        assert_eq!(self.journal.len(), other.journal.len(), "{number}");
        same(
            &self.trajectory,
            &other.trajectory,
            &format!("the trajectory of {number}"),
        );
    }
}

#[track_caller]
fn same(own: &Value, other: &Value, place: &str) {
    match (own, other) {
        (Value::Object(own), Value::Object(other)) if own.len() == other.len() => {
            for (name, value) in own {
                let missing = Value::Null;
                same(
                    value,
                    other.get(name).unwrap_or(&missing),
                    &format!("{place}/{name}"),
                );
            }
        }
        (Value::Array(own), Value::Array(other)) if own.len() == other.len() => {
            for (index, (own, other)) in own.iter().zip(other).enumerate() {
                same(own, other, &format!("{place}/{index}"));
            }
        }
        _ => assert_eq!(own, other, "{place}"),
    }
}

/// Removes values that differ in every run.
fn plain(mut value: Value) -> Value {
    const OWN: [&str; 8] = [
        "time",
        "t",
        "timestamp",
        "run_id",
        "started",
        "ended",
        "created",
        "active_seconds",
    ];
    match &mut value {
        Value::Object(object) => {
            object.retain(|name, _| !OWN.contains(&name.as_str()));
            for value in object.values_mut() {
                *value = plain(value.take());
            }
        }
        Value::Array(array) => array
            .iter_mut()
            .for_each(|value| *value = plain(value.take())),
        _ => {}
    }
    value
}

/// A front that panics in the second step.
struct Faulty;

impl Front for Faulty {
    fn show(&self, progress: &Progress<'_>) {
        if let Progress::StepStarted { step: 2, .. } = progress {
            panic!("this front has a bug");
        }
    }
}

/// The built-in defaults and nothing of this machine's user.
struct Nowhere;

impl HostEnvironment for Nowhere {
    fn var(&self, _: &str) -> Option<String> {
        None
    }

    fn read(&self, _: &Path) -> std::io::Result<Vec<u8>> {
        Err(std::io::ErrorKind::NotFound.into())
    }

    fn cwd(&self) -> PathBuf {
        PathBuf::from("/")
    }
}

fn config(url: &str, work: &Path, output: &Path, hangs: bool) -> Config {
    let mut settings = vec![
        ("model.model_name", json!("local/test")),
        ("model.base_url", json!(url)),
        ("agent.cost_limit", json!(0.0)),
        ("agent.output_path", json!(output)),
        ("environment.cwd", json!(work)),
        ("environment.interpreter", json!(["/bin/sh", "-c"])),
    ];
    if hangs {
        settings.extend([
            (
                "plugins.hostile.path",
                json!(built::plugin("tests/guests/hostile", "hostile")),
            ),
            (
                "plugins.hostile.config",
                json!({"at": "parse", "do": "loop"}),
            ),
            ("plugins.hostile.deadline_ms", json!(1000)),
            ("pipeline.parser", json!("hostile")),
        ]);
    }
    let flags = settings.into_iter();
    let sources = Sources {
        flags: flags
            .map(|(key, value)| (key.to_owned(), value, "test".to_owned()))
            .collect(),
        ..Sources::default()
    };
    Layers::load(&sources, &Nowhere).unwrap().resolve().unwrap()
}

/// Checks that no process of a command still exists: each has the variable of its run.
fn nothing_is_left() {
    let left = || {
        let processes = fs::read_dir("/proc").unwrap().flatten();
        let environments = processes.filter_map(|it| fs::read(it.path().join("environ")).ok());
        let own = format!("-{:x}-", std::process::id());
        let is_ours = |environment: &Vec<u8>| {
            environment.split(|byte| *byte == 0).any(|entry| {
                let entry = String::from_utf8_lossy(entry);
                entry.starts_with("MSWEA_RUN_ID=") && entry.contains(&own)
            })
        };
        environments.filter(is_ours).count()
    };
    for _ in 0..200 {
        if left() == 0 {
            return;
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    panic!("{} processes are left", left());
}

//! The time from the start of the shipped binary to its first request, for a new run and for a
//! resumed one, and its size.
//!
//! `MSWEA_BENCH_SHIPPED=$PWD/target/mswea-host cargo bench --bench startup`, after `host/ship.sh
//! target/mswea-host`. Without the variable, a copy of the plain binary is measured, which
//! `mswea-host ship` makes: its start is the same, its size is not. `MSWEA_RESUME_STEPS` sets the
//! number of steps of the resumed runs (400).

#![allow(clippy::unwrap_used, reason = "a benchmark that can't measure ends")]

mod shared;

use std::io::Read as _;
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};
use std::time::{Duration, Instant};

use scripted_server::{Scenario, Server, Turn};
use serde_json::json;
use shared::ship::{PLAIN, VARIABLE, call, is_named, ship};
use shared::{Samples, Table, timed};
use tempfile::TempDir;

const ROUNDS: usize = 20;

/// How many steps the resumed runs have.
const STEPS: usize = 400;

fn main() -> ExitCode {
    let folder = tempfile::tempdir().unwrap();
    let mut table = Table::new("start-up of the shipped binary");
    table.note("the shipped binary is made, unless one is named");
    let (shipped, shipping) = timed(|| ship(folder.path()));
    // Runs it once, so that the file is in the page cache and only the program is measured.
    to_first_request(&shipped);
    let (mut request, mut help, mut nothing) =
        (Samples::default(), Samples::default(), Samples::default());
    table.note(format!("{ROUNDS} starts"));
    for _ in 0..ROUNDS {
        nothing.add_millis(to_end(Command::new("/bin/true").stdin(Stdio::null())));
        let root = tempfile::tempdir().unwrap();
        help.add_millis(to_end(call(&shipped, root.path()).arg("--help")));
        request.add_millis(to_first_request(&shipped));
    }
    let mut plain = Samples::default();
    for _ in 0..3 {
        plain.add_millis(to_first_request(Path::new(PLAIN)));
    }

    table.limited(
        "process start to first request, empty HOME",
        "ms",
        &request,
        12.0,
    );
    table.limited("--help", "ms", &help, 10.0);
    match is_named() {
        true => table.limited("size", "MB", &megabytes(&shipped), 26.0),
        false => table.noted(
            &format!("size (of a copy of the plain binary: `{VARIABLE}` names none)"),
            "MB",
            &megabytes(&shipped),
        ),
    }
    table.noted(
        "size of the plain binary",
        "MB",
        &megabytes(Path::new(PLAIN)),
    );
    table.noted(
        "plain binary to first request, nothing cached",
        "ms",
        &plain,
    );
    if !is_named() {
        let seconds = shipping.as_secs_f64();
        table.noted("`mswea-host ship`", "ms", &(seconds * 1e3).into());
    }
    table.noted("/bin/true, for comparison", "ms", &nothing);
    resumed(&mut table, &shipped);
    table.finish()
}

/// Measures the time until a recorded run is continued.
fn resumed(table: &mut Table, program: &Path) {
    let steps = std::env::var("MSWEA_RESUME_STEPS").ok();
    let steps = steps.and_then(|text| text.parse().ok()).unwrap_or(STEPS);
    for (outputs, bytes, limit) in [("short", 40, Some(50.0)), ("20 KB", 20_000, None)] {
        table.note(format!(
            "a run of {steps} steps is recorded, outputs: {outputs}"
        ));
        let recorded = RecordedRun::new(program, steps, bytes);
        let size = recorded.journal_bytes();
        recorded.resume(program);
        let mut samples = Samples::default();
        for _ in 0..ROUNDS {
            samples.add_millis(recorded.resume(program));
        }
        let figure = format!("`resume` of {steps} steps to the next request, outputs: {outputs}");
        match limit {
            Some(limit) => table.limited(&figure, "ms", &samples, limit),
            None => table.noted(&figure, "ms", &samples),
        }
        table.noted("    size of this journal", "MB", &size);
    }
}

/// A run that has reached its limit of steps, with its journal and its trajectory.
struct RecordedRun {
    root: TempDir,
    files: Vec<(PathBuf, Vec<u8>)>,
}

impl RecordedRun {
    /// Runs `steps` steps, each with an output of `bytes` bytes, which the model gets whole.
    fn new(program: &Path, steps: usize, bytes: usize) -> Self {
        let root = tempfile::tempdir().unwrap();
        let command = format!("head -c {bytes} /dev/zero | tr '\\0' x");
        let template = json!(shared::agent::WHOLE_OUTPUT);
        let template = format!("model.observation_template={template}");
        let server = Server::start(Scenario::always(Turn::commands(&[command]))).recording(false);
        let mut run = call(program, root.path());
        run.args(["-m", "local/test", "-t", "hello", "-o", "traj.json"])
            .args(["-c", "agent.salvage_command=\"\"", "-c", &template])
            .args(["--step-limit", &steps.to_string()])
            .args(["--base-url", &server.url()]);
        let status = run.status().unwrap();
        assert_eq!(status.code(), Some(3), "{run:?}: {status}");
        let work = root.path().join("work");
        let files = ["traj.json", "traj.events.jsonl"].map(|name| work.join(name));
        let files = files.map(|path| (path.clone(), std::fs::read(path).unwrap()));
        Self {
            root,
            files: files.into(),
        }
    }

    #[allow(clippy::cast_precision_loss)] // megabytes, for the eye
    fn journal_bytes(&self) -> Samples {
        (self.files[1].1.len() as f64 / 1e6).into()
    }

    /// From the start of the process until the first bytes of its first request are here.
    fn resume(&self, program: &Path) -> Duration {
        for (path, content) in &self.files {
            std::fs::write(path, content).unwrap();
        }
        let mut command = call(program, self.root.path());
        command.args(["resume", "traj.json", "--step-limit", "0"]);
        request_of(command)
    }
}

#[allow(clippy::cast_precision_loss)] // megabytes, for the eye
fn megabytes(path: &Path) -> Samples {
    (std::fs::metadata(path).unwrap().len() as f64 / 1e6).into()
}

fn to_end(command: &mut Command) -> Duration {
    let (status, took) = timed(|| command.status().unwrap());
    assert!(status.success(), "{command:?}: {status}");
    took
}

/// From the start of the process until the first bytes of its first request are here.
fn to_first_request(program: &Path) -> Duration {
    let root = tempfile::tempdir().unwrap();
    let mut command = call(program, root.path());
    command.args(["-m", "local/test", "-t", "hello"]);
    request_of(command)
}

/// The same for a run of `command`.
fn request_of(mut command: Command) -> Duration {
    let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
    let url = format!("http://{}/v1", listener.local_addr().unwrap());
    command.args(["--base-url", &url]);
    let started = Instant::now();
    let mut child = command.spawn().unwrap();
    let (mut stream, _) = listener.accept().unwrap();
    let mut head = [0; 4];
    stream.read_exact(&mut head).unwrap();
    let took = started.elapsed();
    assert_eq!(&head, b"POST");
    child.kill().unwrap();
    child.wait().unwrap();
    took
}

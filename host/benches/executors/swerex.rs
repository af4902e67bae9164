//! SWE-ReX beside a session of ours: the start of a shell on this machine, and a command in it.

use std::io::{BufRead as _, BufReader, Write as _};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::Instant;

use mswea_host::roles::Executor;
use serde_json::json;

use super::shared::{Samples, Table};
use super::{run, started};

const ROUNDS: usize = 40;
const STARTS: usize = 5;
const INSTALLED: &str = concat!(env!("CARGO_TARGET_TMPDIR"), "/swe-rex-1.4.0");
const SCRIPT: &str = concat!(
    env!("CARGO_MANIFEST_DIR"),
    "/../tests/tooling/swerex_speed.py"
);

/// A process with SWE-ReX in it.
struct SweRex {
    child: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
}

impl SweRex {
    fn start() -> Self {
        let mut child = Command::new(Path::new(INSTALLED).join("bin/python"))
            .arg(SCRIPT)
            .env("TERM", "dumb")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        Self {
            input: child.stdin.take().unwrap(),
            output: BufReader::new(child.stdout.take().unwrap()),
            child,
        }
    }

    /// The milliseconds of what this word asks for.
    fn took(&mut self, word: &str) -> f64 {
        writeln!(self.input, "{word}").unwrap();
        let mut line = String::new();
        self.output.read_line(&mut line).unwrap();
        line.trim().parse().unwrap()
    }

    fn end(self) {
        let Self {
            mut child, input, ..
        } = self;
        drop(input);
        let _ = child.wait();
    }
}

/// A shell of ours.
async fn ours() -> Box<dyn Executor> {
    let settings = [
        ("environment.cwd", json!("/")),
        ("environment.session", json!(true)),
    ];
    started(&settings).await
}

/// Adds the rows of both, measured alternately.
pub(crate) async fn beside(table: &mut Table) {
    if !Path::new(INSTALLED).join("installed").exists() {
        table.note(format!(
            "LEFT OUT: SWE-ReX 1.4.0 is not installed: `sh tests/tooling/swerex.sh {INSTALLED}` installs it there, from PyPI"
        ));
        return;
    }
    let mut theirs = SweRex::start();
    // The first start imports and compiles.
    theirs.took("open");
    let mut starts = [Samples::default(), Samples::default()];
    for _ in 0..STARTS {
        starts[0].add(theirs.took("open"));
        let begin = Instant::now();
        let mut executor = ours().await;
        starts[1].add_millis(begin.elapsed());
        executor.cleanup().await;
    }
    let mut executor = ours().await;
    let mut commands = [Samples::default(), Samples::default()];
    for round in 0..=ROUNDS {
        let theirs = theirs.took("run");
        let ours = run(&mut *executor, "true").await;
        if round > 0 {
            commands[0].add(theirs);
            commands[1].add_millis(ours);
        }
    }
    executor.cleanup().await;
    theirs.end();
    for (what, [theirs, ours]) in [("a shell's start", starts), ("a command", commands)] {
        table.noted(&format!("{what}, SWE-ReX 1.4.0 (local)"), "ms", &theirs);
        table.noted(&format!("{what}, local session"), "ms", &ours);
        let times = Samples::from(theirs.p50() / ours.p50());
        table.noted(
            &format!("{what}: SWE-ReX takes this many times ours"),
            "x",
            &times,
        );
    }
}

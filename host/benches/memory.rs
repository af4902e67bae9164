//! The memory of a run, and of each further agent in one process.
//!
//! `cargo bench --bench memory`
//!
//! Each figure comes from a process of its own (this program calls itself), so that peaks do
//! not mix; the model server stays in the parent.

#![allow(clippy::unwrap_used, reason = "a benchmark that can't measure ends")]

mod shared;

use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use mswea_host::journal::JournalFile;
use mswea_host::plugin::Cache;
use mswea_host::session::Runtime;
use rustix::process::{Resource, getrlimit, setrlimit};
use scripted_server::{Scenario, Server, Turn};
use shared::agent;
use shared::ship::{PLAIN, call, ship};
use shared::{Samples, Table};

/// Steps of each of many agents: enough to use every part once.
const STEPS: usize = 4;
const AGENTS: [usize; 3] = [1, 64, 512];
const ROUNDS: usize = 3;
/// The argument with which this program calls itself.
const CHILD: &str = "--agents";

fn main() -> ExitCode {
    more_descriptors();
    let arguments: Vec<String> = std::env::args().collect();
    if let Some(place) = arguments.iter().position(|argument| argument == CHILD) {
        let [count, url, folder] = &arguments[place + 1..] else {
            panic!("usage: {CHILD} COUNT URL FOLDER");
        };
        agents(count.parse().unwrap(), url, Path::new(folder));
        return ExitCode::SUCCESS;
    }
    let folder = tempfile::tempdir().unwrap();
    let mut table = Table::new("memory");
    one_run(&mut table, folder.path());
    many_agents(&mut table, folder.path());
    table.finish()
}

/// A connection, a pipe and a journal for each agent are more than the usual 1024.
fn more_descriptors() {
    let mut limit = getrlimit(Resource::Nofile);
    limit.current = limit.maximum;
    // The allowed number may be too small; then opening a file fails with an error.
    let _ = setrlimit(Resource::Nofile, limit);
}

fn server() -> Server {
    Server::start(Scenario::always(Turn::commands(&["true"]))).recording(false)
}

/// The peak of the shipped binary in a run of 400 steps.
fn one_run(table: &mut Table, folder: &Path) {
    table.note("the shipped binary is made");
    let shipped = ship(folder);
    let mut peak = Samples::default();
    for round in 1..=ROUNDS {
        table.note(format!("one run of 400 steps, {round} of {ROUNDS}"));
        let server = server();
        let root = tempfile::tempdir().unwrap();
        let mut command = call(&shipped, root.path());
        command.args([
            "-m",
            "local/test",
            "-t",
            "hello",
            "--base-url",
            &server.url(),
        ]);
        command.args(["--step-limit", "400", "-l", "0"]);
        let mut child = command.spawn().unwrap();
        let mut highest = 0.0_f64;
        // The kernel stores the peak; the last value that is read before the end counts.
        while child.try_wait().unwrap().is_none() {
            highest = highest.max(peak_megabytes(child.id()).unwrap_or(0.0));
            thread::sleep(Duration::from_micros(300));
        }
        assert_eq!(server.served(), 400);
        peak.add(highest);
    }
    table.limited(
        "peak of one 400-step run, shipped binary",
        "MB",
        &peak,
        40.0,
    );
}

/// `VmHWM` of a process.
fn peak_megabytes(pid: u32) -> Option<f64> {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let line = status
        .lines()
        .find_map(|line| line.strip_prefix("VmHWM:"))?;
    let kilobytes: f64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kilobytes * 1024.0 / 1e6)
}

fn many_agents(table: &mut Table, folder: &Path) {
    // Fills the cache: compiling must not count as memory of an agent.
    table.note("compiling the plugins");
    child(1, folder);
    let mut peaks = [const { Vec::new() }; AGENTS.len()];
    for round in 1..=ROUNDS {
        for (place, count) in AGENTS.into_iter().enumerate() {
            let peak = child(count, folder);
            table.note(format!(
                "{count} agents, {round} of {ROUNDS}: a peak of {peak:.1} MB"
            ));
            peaks[place].push(peak);
        }
    }
    #[allow(clippy::cast_precision_loss)] // hundreds
    let each = |place: usize| -> Samples {
        let further = (AGENTS[place] - AGENTS[0]) as f64;
        let pairs = peaks[0].iter().zip(&peaks[place]);
        pairs.map(|(one, many)| (many - one) / further).collect()
    };
    table.limited("each further agent, up to 64", "MB", &each(1), 1.0);
    table.limited("each further agent, up to 512", "MB", &each(2), 1.0);
    for (count, peaks) in AGENTS.into_iter().zip(peaks) {
        let name = format!("peak of a process with {count} agents");
        let peaks = peaks.into_iter().collect();
        match count {
            512 => table.limited(&name, "MB", &peaks, 600.0),
            _ => table.noted(&name, "MB", &peaks),
        }
    }
}

/// Runs `count` agents in a process of their own. Returns the peak of its memory.
fn child(count: usize, folder: &Path) -> f64 {
    let server = server();
    let output = Command::new(std::env::current_exe().unwrap())
        .args([CHILD, &count.to_string(), &server.url()])
        .arg(folder)
        .stdin(Stdio::null())
        .stderr(Stdio::inherit())
        .output()
        .unwrap();
    assert!(output.status.success(), "{count} agents: {}", output.status);
    assert_eq!(server.served(), (count * STEPS) as u64);
    String::from_utf8(output.stdout)
        .unwrap()
        .trim()
        .parse()
        .unwrap()
}

/// The child: all agents are made first, then all run at once.
fn agents(count: usize, url: &str, folder: &Path) {
    let journals = tempfile::tempdir_in(folder).unwrap();
    let tokio = agent::tokio_runtime();
    tokio.block_on(async {
        let runtime = Runtime::new(Some(Cache::at(folder.join("cache"))));
        let config = agent::config(url, folder, STEPS, true);
        let mut ready = Vec::new();
        for number in 0..count {
            let run_id = format!("{}-{number}", std::process::id());
            let path = journals.path().join(format!("{number}.jsonl"));
            let journal = Arc::new(JournalFile::create(path).unwrap());
            let guard = Some(PathBuf::from(PLAIN));
            ready.push(agent::prepare(&runtime, &config, &run_id, journal, guard).await);
        }
        let tasks = tokio::task::LocalSet::new();
        let running: Vec<_> = ready
            .into_iter()
            .map(|agent| tasks.spawn_local(agent.run()))
            .collect();
        tasks
            .run_until(async {
                for agent in running {
                    let ended = agent.await.unwrap();
                    assert_eq!(ended.account.queries as usize, STEPS, "{:?}", ended.end);
                }
            })
            .await;
    });
    let peak = peak_megabytes(std::process::id()).unwrap();
    #[allow(clippy::print_stdout)] // the child passes its result to the parent
    {
        println!("{peak}");
    }
}

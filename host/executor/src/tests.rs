//! Tests of the local executor's contract, with real shells and processes.

pub(crate) mod bubblewrap;
mod contract;
mod endings;
pub(crate) mod executables;
mod guardian;
mod hanging;
pub(crate) mod interactive;
mod landlock;
mod needs;
mod orphans;
mod outputs;
mod program;
mod reached;
mod secrecy;

pub(crate) mod session;
pub(crate) mod session_ends;
mod singularity;
mod speed;
pub(crate) mod terminal;
mod unprivileged;
mod whole;

use std::path::Path;
use std::time::{Duration, Instant};

use std::sync::Arc;

use super::{LocalExecutor, LocalSettings};
use mswea_core::Event;
use mswea_core::{Command, Context, Executor, Front, Journal, Output, Progress, Stop};

/// A front and journal that do nothing.
struct Silent;

impl Front for Silent {
    fn show(&self, _: &Progress<'_>) {}
}

impl Journal for Silent {
    fn record(&self, _: &Event) -> std::io::Result<f64> {
        Ok(0.0)
    }
}

/// A context without a front, a journal and a stop.
pub(super) fn context() -> Context {
    Context::new(Arc::new(Silent), Arc::new(Silent), Stop::never())
}

fn settings() -> LocalSettings {
    LocalSettings {
        timeout: Duration::from_secs(20),
        ..LocalSettings::default()
    }
}

async fn run(executor: &mut impl Executor, command: &str) -> Output {
    executor
        .execute(&Command::new(command), &Stop::never())
        .await
}

/// The same with a timeout of its own.
async fn run_within(executor: &mut impl Executor, command: &str, timeout: Duration) -> Output {
    let command = Command {
        timeout: Some(timeout),
        ..Command::new(command)
    };
    executor.execute(&command, &Stop::never()).await
}

/// Runs one command with a timeout of `seconds`, and cleans up.
async fn once(command: &str, seconds: f64) -> (Output, Duration) {
    let mut executor = LocalExecutor::new(LocalSettings {
        timeout: Duration::from_secs_f64(seconds),
        ..settings()
    });
    let started = Instant::now();
    let output = run(&mut executor, command).await;
    let took = started.elapsed();
    executor.cleanup().await;
    (output, took)
}

fn extra<'a>(output: &'a Output, key: &str) -> &'a str {
    output
        .extra
        .get(key)
        .and_then(|value| value.as_str())
        .unwrap_or_default()
}

/// Runs the ignored test `role` of module `module` in a process of its own, as `body` tests.
fn in_its_own_process(module: &str, role: &str) -> std::process::Command {
    let module = module.split_once("::").unwrap().1;
    let mut command = std::process::Command::new(std::env::current_exe().unwrap());
    command
        .args([
            "--exact",
            "--ignored",
            "--quiet",
            &format!("{module}::{role}"),
        ])
        .env("MSWEA_TEST_ROLE", role);
    command
}

/// Whether this process is to run `role`.
fn plays(role: &str) -> bool {
    std::env::var("MSWEA_TEST_ROLE").is_ok_and(|played| played == role)
}

/// Whether a process is running; a zombie is not.
fn lives(pid: &str) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{}/stat", pid.trim())).unwrap_or_default();
    stat.rsplit_once(')')
        .is_some_and(|(_, rest)| !rest.starts_with(" Z"))
}

fn wait_for(what: &str, mut ready: impl FnMut() -> bool) {
    let started = Instant::now();
    while !ready() {
        assert!(started.elapsed() < Duration::from_secs(10), "no {what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// The pids that commands wrote to `file`, one a line, when there are `count`.
fn pids(file: &Path, count: usize) -> Vec<String> {
    let read = || std::fs::read_to_string(file).unwrap_or_default();
    wait_for("pids", || read().lines().count() >= count);
    read().lines().map(str::to_owned).collect()
}

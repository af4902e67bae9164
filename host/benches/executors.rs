//! The time of an action in each kind of environment, the memory for very much output, many agents in
//! containers of their own, and hundreds of containers.
//!
//! `cargo bench --bench executors`; with `-- hundreds` only the last, with `-- swe-rex` only a shell beside
//! SWE-ReX's; `MSWEA_BENCH_CONTAINERS` sets another number of containers.
//!
//! Needs a docker daemon and bubblewrap; a part whose engine is missing is named and left out.
//! Compared environments are measured alternately in one run.

#![allow(clippy::unwrap_used, reason = "a benchmark that can't measure ends")]

#[path = "executors/bare.rs"]
mod bare;
#[path = "executors/hundreds.rs"]
mod hundreds;
mod shared;
#[path = "executors/swerex.rs"]
mod swerex;

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use bare::Bare;
use mswea_host::config::Config;
use mswea_host::journal::JournalFile;
use mswea_host::plugin::Cache;
use mswea_host::roles::{self, Executor, Stop};
use mswea_host::session::{self, Runtime};
use scripted_server::{Scenario, Server, Turn};
use serde_json::{Value, json};
use shared::agent;
use shared::ship::PLAIN;
use shared::{Samples, Table};

const IMAGE: &str = "mswea-test/bash";
const SOCKET: &str = "/var/run/docker.sock";
const ROUNDS: usize = 40;
const AGENTS: usize = 64;
const STEPS: usize = 20;
const FLOOD: Duration = Duration::from_secs(10);
/// The argument with which this program calls itself.
const CHILD: &str = "--agents";

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().collect();
    if let Some(place) = arguments.iter().position(|argument| argument == CHILD) {
        agents(&arguments[place + 1], Path::new(&arguments[place + 2]));
        return ExitCode::SUCCESS;
    }
    if let Some(place) = arguments.iter().position(|it| it == hundreds::CHILD) {
        hundreds::child(arguments[place + 1].parse().unwrap());
        return ExitCode::SUCCESS;
    }
    if arguments.iter().any(|argument| argument == "hundreds") {
        let mut table = Table::new("executors: hundreds of containers");
        assert!(
            docker(),
            "no docker daemon, or no `tests/tooling/images.sh`"
        );
        hundreds::hundreds(&mut table);
        return table.finish();
    }
    if arguments.iter().any(|argument| argument == "swe-rex") {
        let mut table = Table::new("executors: a shell beside SWE-ReX's");
        agent::tokio_runtime().block_on(swerex::beside(&mut table));
        return table.finish();
    }
    let mut table = Table::new("executors: the command `true`; `yes` for 10 s; 64 agents");
    let tokio = agent::tokio_runtime();
    tokio.block_on(async {
        shared_shell(&mut table).await;
        swerex::beside(&mut table).await;
        other_machine(&mut table).await;
        if docker() {
            latency(&mut table).await;
        } else {
            table.note("LEFT OUT: no docker daemon, or no `tests/tooling/images.sh`");
        }
        floods(&mut table).await;
    });
    if docker() {
        many(&mut table);
        hundreds::hundreds(&mut table);
    }
    table.finish()
}

fn docker() -> bool {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/tooling/images.sh");
    let run = Command::new("sh").arg(script).stdin(Stdio::null()).output();
    run.is_ok_and(|run| run.status.success()) && Path::new(SOCKET).exists()
}

fn config(settings: &[(&str, Value)]) -> Config {
    let mut all = vec![
        ("environment.interpreter", json!(["sh", "-c"])),
        ("environment.timeout", json!(60.0)),
    ];
    all.extend_from_slice(settings);
    agent::config_of(&all)
}

async fn started(settings: &[(&str, Value)]) -> Box<dyn Executor> {
    let id = session::new_run_id();
    let guard = Some(PathBuf::from(PLAIN));
    let mut executor = session::executor(&config(settings), &id, guard, Vec::new()).unwrap();
    executor.start(&agent::context(), None).await.unwrap();
    executor
}

async fn run(executor: &mut dyn Executor, command: &str) -> Duration {
    let begin = Instant::now();
    let output = executor
        .execute(&roles::Command::new(command), &Stop::never())
        .await;
    assert_eq!(output.returncode, 0, "{output:?}");
    begin.elapsed()
}

async fn latency(table: &mut Table) {
    table.note(format!("{ROUNDS} commands in each kind of environment"));
    let docker = ("environment.image", json!(IMAGE));
    let mut local = started(&[("environment.cwd", json!("/"))]).await;
    let mut fast = started(std::slice::from_ref(&docker)).await;
    let mut shared = started(&[
        docker.clone(),
        ("environment.session", json!(true)),
        ("environment.interpreter", json!(["bash", "-c"])),
    ])
    .await;
    let mut exec = started(&[docker.clone(), ("environment.fast_path", json!(false))]).await;
    let mut client = started(&[
        docker,
        ("environment.fast_path", json!(false)),
        ("environment.transport", json!("cli")),
    ])
    .await;
    let bare = Bare::start();
    let (mut ratios, mut fast_ratios) = (Samples::default(), Samples::default());
    let (mut over_fast, mut over_local) = (Samples::default(), Samples::default());
    let mut times = [const { Vec::<f64>::new() }; 6];
    for round in 0..=ROUNDS {
        let bare_first = round % 2 == 0;
        let mut bare_took = bare_first.then(|| bare.exec());
        let exec_took = run(&mut *exec, "true").await;
        let bare_took = *bare_took.get_or_insert_with(|| bare.exec());
        let local_took = run(&mut *local, "true").await;
        let fast_took = run(&mut *fast, "true").await;
        let shared_took = run(&mut *shared, "true").await;
        let client_took = if round % 4 == 0 {
            run(&mut *client, "true").await
        } else {
            Duration::ZERO
        };
        if round == 0 {
            continue;
        }
        ratios.add(exec_took.as_secs_f64() / bare_took.as_secs_f64());
        fast_ratios.add(fast_took.as_secs_f64() / local_took.as_secs_f64());
        over_fast.add(shared_took.as_secs_f64() / fast_took.as_secs_f64());
        over_local.add(shared_took.as_secs_f64() / local_took.as_secs_f64());
        for (list, took) in times.iter_mut().zip([
            bare_took,
            exec_took,
            local_took,
            fast_took,
            shared_took,
            client_took,
        ]) {
            if took > Duration::ZERO {
                list.push(took.as_secs_f64() * 1e3);
            }
        }
    }
    for executor in [&mut local, &mut fast, &mut shared, &mut exec, &mut client] {
        executor.cleanup().await;
    }
    table.limited(
        "docker, exec path / bare exec through the API",
        "x",
        &ratios,
        1.1,
    );
    table.limited("docker, fast path / local", "x", &fast_ratios, 3.0);
    table.limited("docker, session / fast path", "x", &over_fast, 1.2);
    table.limited("docker, session / local", "x", &over_local, 3.0);
    for (name, list) in [
        "bare exec through the API",
        "docker, exec path",
        "local",
        "docker, fast path",
        "docker, session",
        "docker, exec path through the command line",
    ]
    .into_iter()
    .zip(times)
    {
        table.noted(name, "ms", &list.into_iter().collect());
    }
}

/// An action in a living bash, beside a line that is written to another such bash and its answer.
async fn shared_shell(table: &mut Table) {
    const SHELL_ROUNDS: usize = 300;
    let mut session = started(&[
        ("environment.cwd", json!("/")),
        ("environment.session", json!(true)),
    ])
    .await;
    let mut bash = Command::new("bash")
        .args(["--noprofile", "--norc"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let (mut control, mut answer) = (bash.stdin.take().unwrap(), bash.stdout.take().unwrap());
    let mut bare = || {
        let begin = Instant::now();
        control.write_all(b"true; echo $?\n").unwrap();
        let mut code = [0; 2];
        answer.read_exact(&mut code).unwrap();
        assert_eq!(&code, b"0\n");
        begin.elapsed()
    };
    let (mut over, mut whole, mut plain) =
        (Samples::default(), Samples::default(), Samples::default());
    for round in 0..=SHELL_ROUNDS {
        let bare_took = bare();
        let took = run(&mut *session, "true").await;
        if round == 0 {
            continue;
        }
        whole.add_millis(took);
        plain.add_millis(bare_took);
        over.add((took.as_secs_f64() - bare_took.as_secs_f64()) * 1e3);
    }
    session.cleanup().await;
    drop(control);
    let _ = bash.wait();
    table.limited(
        "local session, over a line to a bash and its answer",
        "ms",
        &over,
        0.5,
    );
    table.noted("local session", "ms", &whole);
    table.noted("a line to a bash and its answer", "ms", &plain);
}

/// The same action here and through a server on this machine, as fresh processes and in one shell.
async fn other_machine(table: &mut Table) {
    const REMOTE_ROUNDS: usize = 200;
    let folder = tempfile::tempdir().unwrap();
    let token = folder.path().join("token");
    std::fs::write(&token, "0123456789abcdef0123456789abcdef").unwrap();
    let private = std::os::unix::fs::PermissionsExt::from_mode(0o600);
    std::fs::set_permissions(&token, private).unwrap();
    let mut server = Command::new(PLAIN)
        .args(["runtime", "serve", "--cwd", "/", "--token-file"])
        .arg(&token)
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut url = String::new();
    BufReader::new(server.stdout.take().unwrap())
        .read_line(&mut url)
        .unwrap();
    let remote = [
        ("environment.environment_class", json!("remote")),
        ("environment.url", json!(url.trim())),
        ("environment.token_file", json!(token)),
    ];
    let cwd = ("environment.cwd", json!("/"));
    for (name, shared) in [("remote", false), ("remote session", true)] {
        let session = ("environment.session", json!(shared));
        let mut here = started(&[cwd.clone(), session.clone()]).await;
        let mut there = started(&[&remote[..], &[session]].concat()).await;
        let (mut over, mut whole) = (Samples::default(), Samples::default());
        for round in 0..=REMOTE_ROUNDS {
            let here_took = run(&mut *here, "true").await;
            let there_took = run(&mut *there, "true").await;
            if round > 0 {
                whole.add_millis(there_took);
                over.add((there_took.as_secs_f64() - here_took.as_secs_f64()) * 1e3);
            }
        }
        here.cleanup().await;
        there.cleanup().await;
        table.limited(&format!("{name} on loopback, over local"), "ms", &over, 2.0);
        table.noted(&format!("{name} on loopback"), "ms", &whole);
    }
    let _ = server.kill();
    let _ = server.wait();
}

/// Measures the memory of this process while a command prints without end.
async fn floods(table: &mut Table) {
    let image = ("environment.image", json!(IMAGE));
    let cwd = ("environment.cwd", json!("/"));
    let class = |name: &str| ("environment.environment_class", json!(name));
    let kinds: Vec<(&str, Vec<(&str, Value)>)> = vec![
        ("local", vec![cwd.clone()]),
        (
            "landlock",
            vec![
                ("environment.cwd", json!("/tmp")),
                ("environment.sandbox", json!("landlock")),
            ],
        ),
        ("bubblewrap", vec![class("bubblewrap")]),
        ("docker, fast path", vec![image.clone()]),
        (
            "docker, exec path",
            vec![image.clone(), ("environment.fast_path", json!(false))],
        ),
        (
            "docker, command line",
            vec![
                image,
                ("environment.fast_path", json!(false)),
                ("environment.transport", json!("cli")),
            ],
        ),
    ];
    for (name, settings) in kinds {
        if name.starts_with("docker") && !docker() {
            continue;
        }
        let id = session::new_run_id();
        let guard = Some(PathBuf::from(PLAIN));
        let mut executor = session::executor(&config(&settings), &id, guard, Vec::new()).unwrap();
        if let Err(error) = executor.start(&agent::context(), None).await {
            table.note(format!("LEFT OUT: {name}: {error}"));
            continue;
        }
        table.note(format!("`yes` for 10 s: {name}"));
        run(&mut *executor, "seq 300000").await;
        let done = Arc::new(AtomicBool::new(false));
        let before = resident();
        let watcher = thread::spawn({
            let done = Arc::clone(&done);
            move || {
                let mut most = 0.0_f64;
                while !done.load(Ordering::Relaxed) {
                    most = most.max(resident());
                    thread::sleep(Duration::from_millis(5));
                }
                most
            }
        });
        let command = roles::Command {
            timeout: Some(FLOOD),
            ..roles::Command::new("yes")
        };
        let begin = Instant::now();
        let output = executor.execute(&command, &Stop::never()).await;
        let took = begin.elapsed();
        done.store(true, Ordering::Relaxed);
        let most = watcher.join().unwrap();
        assert!(
            output.extra.contains_key("elided_bytes"),
            "{name}: head and tail"
        );
        assert!(took >= FLOOD && took < FLOOD * 2, "{name}: {took:?}");
        executor.cleanup().await;
        let grown = Samples::from((most - before).max(0.0));
        table.limited(
            &format!("`yes` for 10 s, {name}: the host grows by"),
            "MB",
            &grown,
            4.0,
        );
    }
}

/// Resident memory of this process in MB.
fn resident() -> f64 {
    memory("VmRSS:")
}

fn memory(field: &str) -> f64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status
        .lines()
        .find_map(|line| line.strip_prefix(field))
        .unwrap();
    let kilobytes: f64 = line
        .trim()
        .strip_suffix("kB")
        .unwrap()
        .trim()
        .parse()
        .unwrap();
    kilobytes * 1024.0 / 1e6
}

/// How many containers there are of runs with this mark in their ids.
fn containers_of(mark: &str) -> usize {
    let left = Command::new("docker")
        .args(["ps", "-a", "--format", "{{.Label \"mswea.run\"}}"])
        .output()
        .unwrap();
    let left = String::from_utf8_lossy(&left.stdout);
    left.lines().filter(|run| run.contains(mark)).count()
}

/// Many agents at once, each in a container of its own.
fn many(table: &mut Table) {
    table.note(format!("{AGENTS} agents in {AGENTS} containers"));
    let folder = tempfile::tempdir().unwrap();
    let server = Server::start(Scenario::always(Turn::commands(&["true"]))).recording(false);
    let begin = Instant::now();
    let child = Command::new(std::env::current_exe().unwrap())
        .args([CHILD, &server.url()])
        .arg(folder.path())
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::inherit())
        .spawn()
        .unwrap();
    // The child's process id is part of the id of each of its runs.
    let mark = format!("-{:x}-", child.id());
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success(), "{}", output.status);
    assert_eq!(server.served(), (AGENTS * STEPS) as u64);
    let peak: f64 = String::from_utf8(output.stdout)
        .unwrap()
        .trim()
        .parse()
        .unwrap();
    let left = containers_of(&mark);
    table.limited(
        "64 agents in 64 containers, 20 steps each: peak of the host",
        "MB",
        &Samples::from(peak),
        200.0,
    );
    #[allow(clippy::cast_precision_loss)] // a few
    table.limited("containers left", "", &Samples::from(left as f64), 0.0);
    table.noted(
        "their time, containers made and removed",
        "s",
        &Samples::from(begin.elapsed().as_secs_f64()),
    );
}

/// The child: all agents run at once.
fn agents(url: &str, folder: &Path) {
    agent::tokio_runtime().block_on(async {
        let runtime = Runtime::new(Some(Cache::at(folder.join("cache"))));
        let mut settings = agent::settings(url, Path::new("/"), STEPS, true);
        settings.push(("environment.image", json!(IMAGE)));
        let config = agent::config_of(&settings);
        let mut ready = Vec::new();
        for number in 0..AGENTS {
            let run_id = format!("{}-{number}", session::new_run_id());
            let journal =
                Arc::new(JournalFile::create(folder.join(format!("{number}.jsonl"))).unwrap());
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
    #[allow(clippy::print_stdout)] // the child passes its result to the parent
    {
        println!("{}", memory("VmHWM:"));
    }
}

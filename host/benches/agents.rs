//! Many agents in one process: their steps per second and the processor time of a step, compared with as
//! many bare loops, and the memory of each further agent.
//!
//! `cargo bench --bench agents`; `-- AGENTS STEPS ROUNDS` for another size than 128, 20 and 3.
//!
//! The model thinks for 50 ms, so the agents mostly wait, and the result depends on the processor
//! time of a step. A bare loop posts the same bytes over a connection that is kept alive, and
//! starts the same shell for the same command; both kinds are tasks of a runtime like that of
//! `batch run`. Every figure comes from a process of its own (this program calls itself); the model server
//! stays in the parent.

#![allow(clippy::unwrap_used, reason = "a benchmark that can't measure ends")]
#![allow(
    clippy::print_stdout,
    reason = "the child passes its result to the parent"
)]

mod shared;

use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use mswea_host::config::Config;
use mswea_host::plugin::Cache;
use mswea_host::roles::{Nobody, Stop};
use mswea_host::session::{self, Job, RunOutcome, Runtime, Unwatched};
use rustix::process::{Resource, getrlimit, setrlimit};
use scripted_server::{Scenario, Server, Turn};
use shared::ship::PLAIN;
use shared::{Samples, Table, agent};
use tokio::task::JoinSet;

const THINKING: Duration = Duration::from_millis(50);
/// The least ratio of the host's steps per second to those of the bare loops.
const LEAST: f64 = 0.75;
/// The limit of the memory of each further agent, in megabytes.
const MEMORY: f64 = 1.0;
/// The limit of the processor time of a step, in milliseconds: of the process and of its children.
const PROCESSOR: f64 = 1.3;
/// The arguments with which this program calls itself.
const HOST: &str = "--host";
const BARE: &str = "--bare";

fn main() -> ExitCode {
    let mut limit = getrlimit(Resource::Nofile);
    limit.current = limit.maximum;
    // The allowed number may be too small; then opening a file fails with an error.
    let _ = setrlimit(Resource::Nofile, limit);
    let arguments: Vec<String> = std::env::args().collect();
    if let [_, kind, agents, steps, url, folder] = arguments.as_slice()
        && [HOST, BARE].contains(&kind.as_str())
    {
        let (agents, steps) = (agents.parse().unwrap(), steps.parse().unwrap());
        let folder = Path::new(folder);
        let before = processor_seconds();
        let took = agent::runtime_for_many().block_on(async {
            match kind.as_str() {
                HOST => host(agents, steps, url, folder).await,
                _ => bare(agents, steps, url, folder).await,
            }
        });
        let processor = processor_seconds() - before;
        println!("{} {} {processor}", took.as_secs_f64(), peak_megabytes());
        return ExitCode::SUCCESS;
    }
    let mut sizes = arguments.iter().filter_map(|size| size.parse().ok());
    let mut size = |usual| sizes.next().unwrap_or(usual);
    measure(size(128), size(20), size(3))
}

/// The peak of this process.
fn peak_megabytes() -> f64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let kilobytes: f64 = line
        .unwrap()
        .trim()
        .trim_end_matches(" kB")
        .parse()
        .unwrap();
    kilobytes * 1024.0 / 1e6
}

/// The processor time of this process and of its children that have ended; the kernel counts ticks of 10 ms.
fn processor_seconds() -> f64 {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap();
    let (_, fields) = stat.rsplit_once(')').unwrap();
    let fields = fields.split_whitespace().skip(11).take(4);
    let ticks: u64 = fields.map(|field| field.parse::<u64>().unwrap()).sum();
    Duration::from_millis(10 * ticks).as_secs_f64()
}

/// The figures of a process.
struct Measured {
    seconds: f64,
    /// The peak of its memory.
    megabytes: f64,
    processor_seconds: f64,
}

#[allow(clippy::cast_precision_loss)] // hundreds
fn measure(agents: usize, steps: usize, rounds: usize) -> ExitCode {
    let folder = tempfile::tempdir().unwrap();
    let title = "agents: many in one process, a model that thinks for 50 ms, the command `true`";
    let mut table = Table::new(title);
    table.note(format!(
        "{agents} agents with {steps} steps each, {rounds} rounds"
    ));
    // Compiles the plugins, too.
    bodies(steps, folder.path());
    let (mut host, mut bare, mut ratio) = Default::default();
    let (mut further, mut processor, mut processor_bare) = Default::default();
    for _ in 0..rounds {
        let one = child(HOST, 1, steps, folder.path());
        let many = child(HOST, agents, steps, folder.path());
        let loops = child(BARE, agents, steps, folder.path());
        let all = (agents * steps) as f64;
        let each = (many.megabytes - one.megabytes) / agents.saturating_sub(1).max(1) as f64;
        let millis = [&many, &loops].map(|it| it.processor_seconds * 1e3 / all);
        let add = |samples: &mut Samples, value| samples.add(value);
        add(&mut host, all / many.seconds);
        add(&mut bare, all / loops.seconds);
        add(&mut ratio, loops.seconds / many.seconds);
        add(&mut further, each);
        add(&mut processor, millis[0]);
        add(&mut processor_bare, millis[1]);
        table.note(format!(
            "{:.0} steps per second; {:.0} of bare loops; {:.2} ms of the processor for a step; {:.2} in bare loops; {each:.2} MB of each further agent",
            all / many.seconds,
            all / loops.seconds,
            millis[0],
            millis[1],
        ));
    }
    table.noted("steps per second, bare loops", "/s", &bare);
    table.noted("steps per second, agents", "/s", &host);
    table.at_least("agents / bare loops", "×", &ratio, LEAST);
    let name = "processor time of a step";
    table.limited(name, "ms", &processor, PROCESSOR);
    table.noted(&format!("{name}, bare loops"), "ms", &processor_bare);
    table.limited("each further agent", "MB", &further, MEMORY);
    table.finish()
}

fn server(thinking: Duration) -> Server {
    let turn = Turn::commands(&["true"]).with_delay(thinking);
    Server::start(Scenario::always(turn))
}

/// Runs agents or bare loops in a process of their own.
fn child(kind: &str, agents: usize, steps: usize, folder: &Path) -> Measured {
    let server = server(THINKING).recording(false);
    child_with(&server, kind, agents, steps, folder)
}

fn child_with(server: &Server, kind: &str, agents: usize, steps: usize, folder: &Path) -> Measured {
    let output = Command::new(std::env::current_exe().unwrap())
        .args([kind, &agents.to_string(), &steps.to_string(), &server.url()])
        .arg(folder)
        // Else the runs would write into the user's state folder.
        .env("XDG_STATE_HOME", folder.join("state"))
        .stdin(Stdio::null())
        .stderr(Stdio::inherit())
        .output()
        .unwrap();
    assert!(output.status.success(), "{kind}: {}", output.status);
    assert_eq!(server.served(), (agents * steps) as u64);
    let text = String::from_utf8(output.stdout).unwrap();
    let figures: Vec<f64> = text
        .split_whitespace()
        .map(|it| it.parse().unwrap())
        .collect();
    let [seconds, megabytes, processor_seconds] = figures[..] else {
        panic!("{text}");
    };
    Measured {
        seconds,
        megabytes,
        processor_seconds,
    }
}

/// Agents of a program that calls the library: from the job to the trajectory.
async fn host(agents: usize, steps: usize, url: &str, folder: &Path) -> Duration {
    // Kept until the benchmark ends, because some file systems make files more slowly where others were just removed.
    let records = tempfile::tempdir_in(folder).unwrap().keep();
    let runtime = Arc::new(Runtime::new(Some(Cache::at(folder.join("cache")))));
    let configs: Vec<Config> = (0..agents)
        .map(|number| {
            let mut config = agent::config(url, folder, steps, true);
            let output = records.join(format!("{number}.traj.json"));
            config.agent.output_path = Some(output.display().to_string());
            config
        })
        .collect();
    let begun = Instant::now();
    let mut running = JoinSet::new();
    for config in configs {
        let runtime = runtime.clone();
        running.spawn(async move {
            let run_id = session::new_run_id();
            let job = Job {
                guard_program: Some(PathBuf::from(PLAIN)),
                ..Job::new("Say `true` until you are told to stop.", &config, &run_id)
            };
            session::run(
                &runtime,
                job,
                Arc::new(Unwatched),
                Arc::new(Nobody),
                Stop::never(),
            )
            .await
        });
    }
    while let Some(done) = running.join_next().await {
        let done = done.unwrap();
        assert!(matches!(done.outcome, RunOutcome::Ended(_)), "{done:?}");
        assert_eq!(done.exit_status(), "LimitsExceeded", "{done:?}");
        done.trajectory.unwrap();
    }
    begun.elapsed()
}

/// The file with the body of one step of an agent.
fn body(folder: &Path, step: usize) -> PathBuf {
    folder.join(format!("body-{step}"))
}

/// Stores the bodies of the requests that an agent sends.
fn bodies(steps: usize, folder: &Path) {
    let server = server(Duration::ZERO);
    child_with(&server, HOST, 1, steps, folder);
    let requests = server.requests();
    assert_eq!(requests.len(), steps);
    for (step, request) in requests.into_iter().enumerate() {
        std::fs::write(body(folder, step), request.body).unwrap();
    }
}

/// Runs as many bare loops.
async fn bare(agents: usize, steps: usize, url: &str, folder: &Path) -> Duration {
    let bodies = (0..steps).map(|step| std::fs::read(body(folder, step)).unwrap().into());
    let bodies: Arc<Vec<Bytes>> = Arc::new(bodies.collect());
    let client = shared::bare::client();
    let url = format!("{url}/chat/completions");
    let begun = Instant::now();
    let mut running = JoinSet::new();
    for _ in 0..agents {
        let (client, url, bodies) = (client.clone(), url.clone(), bodies.clone());
        running.spawn(async move {
            for body in bodies.iter() {
                shared::bare::post(&client, &url, body).await;
                // A loop that blocks the thread would delay all others.
                tokio::task::spawn_blocking(|| shared::bare::shell("true"))
                    .await
                    .unwrap();
            }
        });
    }
    while let Some(done) = running.join_next().await {
        done.unwrap();
    }
    begun.elapsed()
}

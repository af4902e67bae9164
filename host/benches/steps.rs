//! What a step costs beside a bare native loop that posts the same bytes and runs the same
//! shell.
//!
//! `cargo bench --bench steps`
//!
//! Both loops take turns in one process, against one scripted server with no latency, over a
//! connection that is kept alive, on a current-thread runtime like the program's. Neither
//! start-up nor the salvage command is in it: those are costs of a run.
//!
//! What is compared is the middle step of a round with the middle step of the bare loop's next
//! to it: a machine that does other things as well hits single steps, and hits them hard. The
//! ratio of the whole rounds is shown too.

#![allow(clippy::unwrap_used, reason = "a benchmark that can't measure ends")]

mod shared;

use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use mswea_host::config::Config;
use mswea_host::executor::{self, LocalSettings};
use mswea_host::plugin::Cache;
use mswea_host::roles::{Executor as _, Stop};
use mswea_host::session::Runtime;
use scripted_server::{Scenario, Server, Turn};
use shared::agent::{self, Clocked, Step};
use shared::ship::PLAIN;
use shared::{Samples, Table};

const STEPS: [usize; 3] = [10, 100, 400];
const LIMIT: f64 = 1.3;

fn main() -> ExitCode {
    agent::tokio_runtime().block_on(measure())
}

async fn measure() -> ExitCode {
    let folder = tempfile::tempdir().unwrap();
    let runtime = Runtime::new(Some(Cache::at(folder.path().join("cache"))));
    let guard = PathBuf::from(PLAIN);
    // The guardian starts with a process's first command, once. This one keeps it alive.
    let mut keeper = executor::LocalExecutor::new(LocalSettings {
        guard_program: Some(guard.clone()),
        ..LocalSettings::default()
    });
    let nothing = mswea_host::roles::Command::new("true");
    keeper.execute(&nothing, &Stop::never()).await;

    let mut table = Table::new("steps: the command `true`, a server without latency");
    for stream in [true, false] {
        let world = World {
            runtime: &runtime,
            folder: folder.path(),
            guard: &guard,
            stream,
        };
        world.compare(&mut table).await;
    }
    keeper.cleanup().await;
    table.finish()
}

struct World<'a> {
    runtime: &'a Runtime,
    folder: &'a Path,
    guard: &'a Path,
    stream: bool,
}

impl World<'_> {
    fn server() -> Server {
        Server::start(Scenario::always(Turn::commands(&["true"])))
    }

    async fn compare(&self, table: &mut Table) {
        let bodies = self.bodies().await;
        let server = Self::server().recording(false);
        let client = client();
        let url = format!("{}/chat/completions", server.url());
        let mode = if self.stream {
            "streaming"
        } else {
            "whole replies"
        };
        for steps in STEPS {
            let config = agent::config(&server.url(), self.folder, steps + 1, self.stream);
            let bodies = &bodies[..steps];
            // Warm: connections, page cache, allocator.
            self.host(&config).await;
            bare(&client, &url, bodies).await;
            // Short runs are cheap to repeat, and need it most.
            let rounds = (1200 / steps).clamp(7, 40);
            let mut figures = Figures::default();
            for round in 0..rounds {
                if round % 2 == 0 {
                    let host = self.host(&config).await;
                    figures.add(&host, &bare(&client, &url, bodies).await);
                } else {
                    let bare = bare(&client, &url, bodies).await;
                    figures.add(&self.host(&config).await, &bare);
                }
            }
            figures.show(table, steps, mode, self.stream);
        }
    }

    /// The bodies that the host really sends.
    async fn bodies(&self) -> Vec<Bytes> {
        let most = STEPS.into_iter().max().unwrap();
        let server = Self::server();
        let config = agent::config(&server.url(), self.folder, most + 1, self.stream);
        self.host(&config).await;
        let requests = server.requests();
        assert_eq!(requests.len(), most + 1);
        requests
            .into_iter()
            .map(|request| request.body.into())
            .collect()
    }

    async fn host(&self, config: &Config) -> Vec<Step> {
        let run_id = mswea_host::session::new_run_id();
        let path = self.folder.join(format!("{run_id}.jsonl"));
        let journal = Clocked::create(path.clone());
        let agent = agent::prepare(
            self.runtime,
            config,
            &run_id,
            Arc::clone(&journal) as _,
            Some(self.guard.to_owned()),
        )
        .await;
        let ended = agent.run().await;
        let queries = i64::from(ended.account.queries);
        assert_eq!(queries, config.agent.step_limit, "{:?}", ended.interrupt);
        std::fs::remove_file(path).unwrap();
        agent::steps(&journal.marks())
    }
}

/// A step of the bare loop.
#[derive(Clone, Copy)]
struct Bare {
    post: Duration,
    execute: Duration,
}

/// The bare loop.
async fn bare(client: &reqwest::Client, url: &str, bodies: &[Bytes]) -> Vec<Bare> {
    let mut steps = Vec::with_capacity(bodies.len());
    for body in bodies {
        let begun = Instant::now();
        let response = client
            .post(url)
            .header("content-type", "application/json")
            .header("accept", "application/json")
            .body(body.clone())
            .send()
            .await
            .unwrap();
        assert!(response.status().is_success());
        std::hint::black_box(response.bytes().await.unwrap());
        let posted = Instant::now();
        shell();
        steps.push(Bare {
            post: posted - begun,
            execute: posted.elapsed(),
        });
    }
    steps
}

/// Runs the command as plainly as std can: one pipe for both outputs, read to its end.
fn shell() {
    let (mut reading, writing) = std::io::pipe().unwrap();
    let [program, flag] = agent::SHELL;
    let mut command = Command::new(program);
    command
        .args([flag, "true"])
        .stdin(Stdio::null())
        .stdout(writing.try_clone().unwrap())
        .stderr(writing);
    let mut child = command.spawn().unwrap();
    // The command holds the writing ends.
    drop(command);
    let mut output = Vec::new();
    reading.read_to_end(&mut output).unwrap();
    assert!(child.wait().unwrap().success());
}

/// A client with the host's settings.
fn client() -> reqwest::Client {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let tls = rustls::ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(rustls::RootCertStore::empty())
        .with_no_client_auth();
    reqwest::Client::builder()
        .tls_backend_preconfigured(tls)
        .user_agent("bare")
        .redirect(reqwest::redirect::Policy::none())
        .tcp_nodelay(true)
        .no_proxy()
        .build()
        .unwrap()
}

#[derive(Default)]
struct Figures {
    ratio: Samples,
    whole_ratio: Samples,
    host: Samples,
    bare: Samples,
    query: Samples,
    parse: Samples,
    execute: Samples,
    format: Samples,
    journal: Samples,
    bare_post: Samples,
    bare_execute: Samples,
}

impl Figures {
    /// Adds a round.
    fn add(&mut self, host: &[Step], bare: &[Bare]) {
        assert_eq!(host.len(), bare.len());
        let (mut host_steps, mut bare_steps) = (Samples::default(), Samples::default());
        for step in host {
            host_steps.add_micros(step.whole, 1);
            self.host.add_micros(step.whole, 1);
            self.query.add_micros(step.query, 1);
            self.parse.add_micros(step.parse, 1);
            self.execute.add_micros(step.execute, 1);
            self.format.add_micros(step.format, 1);
            self.journal.add_micros(step.journal, 1);
        }
        for step in bare {
            bare_steps.add_micros(step.post + step.execute, 1);
            self.bare.add_micros(step.post + step.execute, 1);
            self.bare_post.add_micros(step.post, 1);
            self.bare_execute.add_micros(step.execute, 1);
        }
        self.ratio.add(host_steps.p50() / bare_steps.p50());
        self.whole_ratio.add(host_steps.sum() / bare_steps.sum());
    }

    fn show(&self, table: &mut Table, steps: usize, mode: &str, limited: bool) {
        let name = format!("{steps} steps, {mode}");
        let ratio = format!("{name}: host / bare");
        if limited {
            table.limited(&ratio, "×", &self.ratio, LIMIT);
        } else {
            table.noted(&ratio, "×", &self.ratio);
        }
        table.noted(&format!("{ratio}, whole rounds"), "×", &self.whole_ratio);
        table.noted(&format!("{name}: host, a step"), "µs", &self.host);
        table.noted(&format!("{name}: bare, a step"), "µs", &self.bare);
        table.note(format!(
            "{name}, µs a step: query {:.0} (bare post {:.0}), execute {:.0} (bare {:.0}), parse {:.0}, format {:.0}, journal {:.0}",
            self.query.p50(),
            self.bare_post.p50(),
            self.execute.p50(),
            self.bare_execute.p50(),
            self.parse.p50(),
            self.format.p50(),
            self.journal.p50(),
        ));
    }
}

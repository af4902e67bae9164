//! What a step costs beside a bare native loop that posts the same bytes and runs the same
//! shell.
//!
//! `cargo bench --bench steps`
//!
//! Both loops take turns in one process, against one scripted server with no latency, over a
//! connection that is kept alive, on a current-thread runtime like the program's. Neither
//! start-up nor the salvage command is in it: those are costs of a run.

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
use mswea_host::roles::Stop;
use mswea_host::session::Runtime;
use scripted_server::{Scenario, Server, Turn};
use shared::agent::{self, Clocked, Spent};
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
    let mut keeper = executor::local(LocalSettings {
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
                    figures.add(steps, host, bare(&client, &url, bodies).await);
                } else {
                    let bare = bare(&client, &url, bodies).await;
                    figures.add(steps, self.host(&config).await, bare);
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

    async fn host(&self, config: &Config) -> Spent {
        let run_id = mswea_host::session::new_run_id();
        let path = self.folder.join(format!("{run_id}.jsonl"));
        let journal = Clocked::create(path.clone());
        let agent = agent::prepare(
            self.runtime,
            config,
            &run_id,
            Arc::clone(&journal) as _,
            std::env::var_os("NO_GUARD")
                .is_none()
                .then(|| self.guard.to_owned()),
        )
        .await;
        let ended = agent.run().await;
        let queries = i64::from(ended.account.queries);
        assert_eq!(queries, config.agent.step_limit, "{:?}", ended.interrupt);
        std::fs::remove_file(path).unwrap();
        Spent::of(&journal.marks())
    }
}

/// Posting and running, summed up over the steps.
#[derive(Clone, Copy)]
struct Bare {
    post: Duration,
    execute: Duration,
    whole: Duration,
}

/// The bare loop.
async fn bare(client: &reqwest::Client, url: &str, bodies: &[Bytes]) -> Bare {
    let (mut post, mut execute) = (Duration::ZERO, Duration::ZERO);
    let started = Instant::now();
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
        post += posted - begun;
        execute += posted.elapsed();
    }
    Bare {
        post,
        execute,
        whole: started.elapsed(),
    }
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
    fn add(&mut self, steps: usize, host: Spent, bare: Bare) {
        self.ratio
            .add(host.whole.as_secs_f64() / bare.whole.as_secs_f64());
        for (samples, took) in [
            (&mut self.host, host.whole),
            (&mut self.query, host.query),
            (&mut self.parse, host.parse),
            (&mut self.execute, host.execute),
            (&mut self.format, host.format),
            (&mut self.journal, host.journal),
            (&mut self.bare, bare.whole),
            (&mut self.bare_post, bare.post),
            (&mut self.bare_execute, bare.execute),
        ] {
            samples.add_micros(took, steps);
        }
    }

    fn show(&self, table: &mut Table, steps: usize, mode: &str, limited: bool) {
        let name = format!("{steps} steps, {mode}");
        if limited {
            table.limited(&format!("{name}: host / bare"), "×", &self.ratio, LIMIT);
        } else {
            table.noted(&format!("{name}: host / bare"), "×", &self.ratio);
        }
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

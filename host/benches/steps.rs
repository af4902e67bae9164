//! The time of a step, compared with a bare native loop that posts the same bytes and runs the same
//! shell.
//!
//! `cargo bench --bench steps`; `-- PART` measures only the cases whose name contains this part, for
//! example `-- '400 steps'` or `-- 20 KB, streaming`.
//!
//! Both loops run alternately in one process, against one scripted server without latency, over a
//! connection that is kept alive, on a current-thread runtime like the program's. Start-up and the
//! salvage command are not measured: they belong to the run and not to a step.
//!
//! The benchmark compares the median step of a round with the median step of the next round of the
//! bare loop, because other work of the machine makes single steps much slower. The ratio of the
//! whole rounds is shown too.

#![allow(clippy::unwrap_used, reason = "a benchmark that can't measure ends")]

mod shared;

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use mswea_host::config::Config;
use mswea_host::executor::{self, LocalSettings};
use mswea_host::plugin::Cache;
use mswea_host::roles::{Executor as _, Stop};
use mswea_host::session::Runtime;
use scripted_server::{Scenario, Server, Turn};
use serde_json::json;
use shared::agent::{self, Clocked, Step};
use shared::ship::PLAIN;
use shared::{Samples, Table};

/// The cases, each with and without streaming: steps, bytes of each output, and the limit of host /
/// bare.
const CASES: [(usize, usize, f64); 5] = [
    (10, 0, 1.2),
    (100, 0, 1.2),
    (400, 0, 1.2),
    (100, 20_000, 1.25),
    (400, 20_000, 1.5),
];

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

    let arguments = std::env::args().skip(1);
    let wanted: Vec<String> = arguments.filter(|it| !it.starts_with("--")).collect();
    let mut table = Table::new("steps: a server without latency");
    for (steps, output, limit) in CASES {
        let printed = match output {
            0 => "no output".to_owned(),
            bytes => format!("outputs of {} KB", bytes / 1000),
        };
        let file = folder.path().join("output");
        std::fs::write(&file, text(output)).unwrap();
        let command = match output {
            0 => "true".to_owned(),
            _ => format!("cat {}", file.display()),
        };
        for (stream, mode) in [(true, "streaming"), (false, "whole replies")] {
            let name = format!("{steps} steps, {printed}, {mode}");
            if !name.contains(&wanted.join(" ")) {
                continue;
            }
            let world = World {
                runtime: &runtime,
                folder: folder.path(),
                guard: &guard,
                steps,
                command: &command,
                stream,
            };
            world.compare(&mut table, &name, output, limit).await;
        }
    }
    keeper.cleanup().await;
    table.finish()
}

/// Lines of text with this many bytes.
fn text(bytes: usize) -> String {
    let line = "a line of an output with \"quotes\", as of a test that has failed\n";
    let mut text = line.repeat(bytes / line.len() + 1);
    text.truncate(bytes);
    text
}

struct World<'a> {
    runtime: &'a Runtime,
    folder: &'a Path,
    guard: &'a Path,
    steps: usize,
    command: &'a str,
    stream: bool,
}

impl World<'_> {
    fn server(&self) -> Server {
        Server::start(Scenario::always(Turn::commands(&[self.command])))
    }

    /// One query more than steps: it only marks the end of the last step.
    fn config(&self, server: &Server) -> Config {
        let mut settings = agent::settings(&server.url(), self.folder, self.steps + 1, self.stream);
        settings.push(("model.observation_template", json!(agent::WHOLE_OUTPUT)));
        agent::config_of(&settings)
    }

    async fn compare(&self, table: &mut Table, name: &str, output: usize, limit: f64) {
        // Short runs are repeated more often, because they vary most.
        let rounds = match output {
            0 => (1200 / self.steps).clamp(7, 40),
            _ => (1200 / self.steps).max(5),
        };
        table.note(format!("{name}: {rounds} rounds"));
        let bodies = self.bodies().await;
        let server = self.server().recording(false);
        let config = self.config(&server);
        let client = shared::bare::client();
        let url = format!("{}/chat/completions", server.url());
        // A first round warms up connections, the page cache and the allocator.
        self.host(&config).await;
        self.bare(&client, &url, &bodies).await;
        let mut figures = Figures::default();
        for round in 0..rounds {
            if round % 2 == 0 {
                let host = self.host(&config).await;
                figures.add(&host, &self.bare(&client, &url, &bodies).await);
            } else {
                let bare = self.bare(&client, &url, &bodies).await;
                figures.add(&self.host(&config).await, &bare);
            }
        }
        figures.show(table, name, limit);
    }

    /// The bodies that the host really sends.
    async fn bodies(&self) -> Vec<Bytes> {
        let server = self.server();
        self.host(&self.config(&server)).await;
        let requests = server.requests();
        assert_eq!(requests.len(), self.steps + 1);
        let bodies = requests.into_iter().map(|request| request.body.into());
        bodies.take(self.steps).collect()
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
        assert_eq!(queries, config.agent.step_limit, "{:?}", ended.end);
        std::fs::remove_file(path).unwrap();
        agent::steps(&journal.marks())
    }

    /// The bare loop.
    async fn bare(&self, client: &reqwest::Client, url: &str, bodies: &[Bytes]) -> Vec<Bare> {
        let mut steps = Vec::with_capacity(bodies.len());
        for body in bodies {
            let begun = Instant::now();
            shared::bare::post(client, url, body).await;
            let posted = Instant::now();
            shared::bare::shell(self.command);
            steps.push(Bare {
                post: posted - begun,
                execute: posted.elapsed(),
            });
        }
        steps
    }
}

/// A step of the bare loop.
#[derive(Clone, Copy)]
struct Bare {
    post: Duration,
    execute: Duration,
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

    fn show(&self, table: &mut Table, name: &str, limit: f64) {
        let ratio = format!("{name}: host / bare");
        table.limited(&ratio, "×", &self.ratio, limit);
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
